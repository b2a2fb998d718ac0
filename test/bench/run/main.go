//go:build unix

// Run times wirectl decode against its peers, and prints each goal of the
// project with the ratio that it measured. decode.sh builds what it runs.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
)

// A bench is what the measurements share.
type bench struct {
	dir     string
	scale   int64
	skip10G bool
	only    *regexp.Regexp
}

func main() {
	b := &bench{}
	flag.StringVar(&b.dir, "dir", ".", "make the corpora in this `directory`")
	flag.Int64Var(&b.scale, "scale", 1, "divide the size of every corpus by `N`")
	flag.BoolVar(&b.skip10G, "skip-10g", false, "leave out the 10 GiB of standard input")
	only := flag.String("only", "", "measure only the rows whose name matches `PATTERN`")
	flag.Parse()
	b.only = regexp.MustCompile(*only)

	short, err := b.run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	if short > 0 {
		fmt.Fprintf(os.Stderr, "bench: %d of the figures fall short\n", short)
		os.Exit(1)
	}
}

// run prints the table, in the order: what comes out, what it needs, how fast
// it is. Memory is measured before this process itself grows, because a child
// starts with its parent's peak.
func (b *bench) run() (short int, err error) {
	t := &table{out: os.Stdout}
	t.head()
	for _, part := range []func(*table) error{b.memory, b.checks, b.startUp, b.comparisons} {
		if err := part(t); err != nil {
			return 0, err
		}
	}
	return t.short, nil
}
