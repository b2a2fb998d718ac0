//go:build unix

package main

import (
	"fmt"
	"io"
)

// A table is Markdown, a row for each figure, printed as they are found.
type table struct {
	out   io.Writer
	short int
}

func (t *table) head() {
	fmt.Fprintln(t.out, "| figure | measured | goal | |")
	fmt.Fprintln(t.out, "| --- | --- | --- | --- |")
}

func (t *table) row(name, measured, goal string, ok bool) {
	verdict := "ok"
	if !ok {
		verdict = "SHORT"
		t.short++
	}
	fmt.Fprintf(t.out, "| %s | %s | %s | %s |\n", name, measured, goal, verdict)
}

// told prints a figure that has no goal.
func (t *table) told(name, measured string) {
	fmt.Fprintf(t.out, "| %s | %s | | |\n", name, measured)
}

func (t *table) skipped(name, why string) {
	fmt.Fprintf(t.out, "| %s | %s | | skipped |\n", name, why)
}
