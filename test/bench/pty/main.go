//go:build unix

// Command pty runs the monitor in a terminal as a person would, on a capture of a
// million frames and on taps, and prints how that goes: pty WIRECTL. The status is
// 1 when a figure falls short of its goal.
package main

import (
	"fmt"
	"log"
	"os"
	"time"
)

const frames = 1_000_000

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: pty WIRECTL")
	}
	dir, err := os.MkdirTemp("", "wirectl-bench")
	if err != nil {
		log.Fatal(err)
	}
	b := &bench{wirectl: os.Args[1], dir: dir, good: true}
	err = b.run()
	_ = os.RemoveAll(dir)
	if err != nil {
		log.Fatal(err)
	}
	if !b.good {
		os.Exit(1)
	}
}

// A bench prints a table of figures, each with its goal.
type bench struct {
	wirectl, dir string
	good         bool
}

func (b *bench) run() error {
	fmt.Println("| the monitor in a terminal | goal | is |\n| --- | --- | --- |")
	if err := b.million(); err != nil {
		return err
	}
	if err := b.steady(); err != nil {
		return err
	}
	return b.flood()
}

// most prints a figure that is to be no more than its goal.
func (b *bench) most(what string, goal, is float64, unit string) {
	b.row(what, "≤", goal, is, unit, is <= goal)
}

// least prints a figure that is to be no less.
func (b *bench) least(what string, goal, is float64, unit string) {
	b.row(what, "≥", goal, is, unit, is >= goal)
}

func (b *bench) row(what, sign string, goal, is float64, unit string, good bool) {
	mark := ""
	if !good {
		b.good, mark = false, " **short**"
	}
	fmt.Printf("| %s | %s %.7g %s | %.3g %s%s |\n", what, sign, goal, unit, is, unit, mark)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
