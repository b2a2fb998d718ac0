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

const startRuns = 50

// startUp compares the medians of two programs that do nothing, run in turns.
func (b *bench) startUp(t *table) error {
	const name = "start of wirectl version, time against a trivial Go program"
	if !b.only.MatchString(name) {
		return nil
	}
	dir, err := os.MkdirTemp("", "installed")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	wirectl, err := install(dir, "wirectl")
	if err != nil {
		return err
	}
	trivial, err := install(dir, "trivial")
	if err != nil {
		return err
	}
	var ours, peer []time.Duration
	for range startRuns {
		o, err := life(wirectl, "version")
		if err != nil {
			return err
		}
		p, err := life(trivial)
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
