//go:build unix

package main

import (
	"fmt"
	"os/exec"
	"slices"
	"time"
)

const startRuns = 50

// startUp compares the medians of two programs that do nothing, run in turns.
func (b *bench) startUp(t *table) error {
	const name = "start of wirectl version, time against a trivial Go program"
	if !b.only.MatchString(name) {
		return nil
	}
	var ours, peer []time.Duration
	for range startRuns {
		o, err := life("wirectl", "version")
		if err != nil {
			return err
		}
		p, err := life("trivial")
		if err != nil {
			return err
		}
		ours, peer = append(ours, o), append(peer, p)
	}
	slices.Sort(ours)
	slices.Sort(peer)
	ratio := float64(ours[startRuns/2]) / float64(peer[startRuns/2])
	t.row(name, fmt.Sprintf("%.2f", ratio), "≤ 3", ratio <= 3)
	return nil
}

// life times a program from its start to its end, with no pipe to it that
// would take time of its own.
func life(name string, args ...string) (time.Duration, error) {
	cmd := exec.Command(name, args...)
	start := time.Now()
	err := cmd.Run()
	return time.Since(start), err
}
