//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A command is what is run, as one would type it in a directory of corpora: a
// word like mcp.len32 names one, by protocol and framing.
type command string

// pinned returns the command, ready to run on the named CPUs in dir. Go
// programs see as many processors as they are pinned to.
func (c command) pinned(cpus, dir string) *exec.Cmd {
	cmd := exec.Command("taskset", append([]string{"-c", cpus}, strings.Fields(string(c))...)...)
	cmd.Dir = dir
	return cmd
}

// corpora returns the names of the corpora that the command reads.
func (c command) corpora() []string {
	var names []string
	for _, word := range strings.Fields(string(c)) {
		switch filepath.Ext(word) {
		case ".len32", ".line", ".pcap":
			names = append(names, word)
		}
	}
	return names
}

// installed reports whether there is such a program.
func (c command) installed() bool {
	name, _, _ := strings.Cut(string(c), " ")
	_, err := exec.LookPath(name)
	return err == nil
}

// A usage is what a run took.
type usage struct {
	wall time.Duration
	// peak is the largest resident set, in bytes.
	peak int64
}

// run runs cmd to its end with its output, where it has no place to go yet,
// going to the null device.
func run(cmd *exec.Cmd) (usage, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	start := time.Now()
	err := cmd.Run()
	wall := time.Since(start)
	if err != nil {
		return usage{}, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, stderr.Bytes())
	}
	rusage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return usage{wall: wall, peak: int64(rusage.Maxrss) << 10}, nil
}

// piped runs cmd while read takes its output.
func piped(cmd *exec.Cmd, read func(io.Reader) error) error {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := read(out); err != nil {
		err = errors.Join(err, cmd.Process.Kill(), cmd.Wait())
		return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return cmd.Wait()
}

// A corpus of some size lives in a directory of its own, so that commands read
// the same for all sizes.
func (b *bench) corpusDir(size int64, names ...string) (string, error) {
	dir := filepath.Join(b.dir, fmt.Sprint(size))
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		if err := makeCorpus(path, size); err != nil {
			return "", err
		}
	}
	return dir, nil
}

func makeCorpus(path string, size int64) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	cmd := corpusCommand(filepath.Base(path), size)
	cmd.Stdout = file
	if _, err := run(cmd); err != nil {
		return err
	}
	return file.Close()
}

func corpusCommand(name string, size int64) *exec.Cmd {
	protocol, framing, _ := strings.Cut(name, ".")
	return exec.Command("corpus", "-protocol", protocol, "-framing", framing, "-bytes", fmt.Sprint(size))
}
