//go:build unix

// Unit times wirectl unit and wirectl theory serve, the first against bare echoes
// of the same bytes in the same run. unit.sh builds what it runs.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	echo := flag.String("echo", "", "be a bare echo over `tcp` or quic")
	n := flag.Int("n", 20000, "make `N` round trips in each round")
	flag.Parse()
	run := func() error { return measure(*n) }
	if *echo != "" {
		run = func() error { return serveEcho(*echo) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
