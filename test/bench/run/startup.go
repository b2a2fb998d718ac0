//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

const startRuns = 51

// startUp compares two programs that do nothing. Where in memory the system happens to put
// a program changes its start for as long as it lies there, so that each round
// installs both anew.
func (b *bench) startUp(t *table) error {
	const name = "start of wirectl version, time against a trivial Go program"
	if !b.only.MatchString(name) {
		return nil
	}
	ratios := make([]float64, rounds)
	for i := range ratios {
		var err error
		if ratios[i], err = startRound(); err != nil {
			return err
		}
	}
	slices.Sort(ratios)
	median := ratios[rounds/2]
	t.row(name, fmt.Sprintf("%.2f (%.2f to %.2f)", median, ratios[0], ratios[rounds-1]), "≤ 3", median <= 3)
	return nil
}

// startRound returns the ratio of the medians of two programs, run in turns.
func startRound() (ratio float64, err error) {
	dir, err := os.MkdirTemp("", "installed")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	wirectl, err := install(dir, "wirectl")
	if err != nil {
		return 0, err
	}
	trivial, err := install(dir, "trivial")
	if err != nil {
		return 0, err
	}
	var ours, peer [startRuns]time.Duration
	for i := range startRuns {
		if ours[i], err = life(wirectl, "version"); err != nil {
			return 0, err
		}
		if peer[i], err = life(trivial); err != nil {
			return 0, err
		}
	}
	slices.Sort(ours[:])
	slices.Sort(peer[:])
	return float64(ours[startRuns/2]) / float64(peer[startRuns/2]), nil
}

// install copies a program, as whoever installs it does. What the linker wrote lies in
// memory in single pages until the system has it from the disk again, and takes
// longer to bring in.
func install(dir, name string) (path string, err error) {
	built, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	from, err := os.Open(built)
	if err != nil {
		return "", err
	}
	defer from.Close()
	path = filepath.Join(dir, name)
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(to, from)
	return path, errors.Join(err, to.Close())
}

// life times a program from its start to its end, with no pipe to it that
// would take time of its own.
func life(name string, args ...string) (time.Duration, error) {
	cmd := exec.Command(name, args...)
	start := time.Now()
	err := cmd.Run()
	return time.Since(start), err
}
