package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// A cgroup bounds the threads and the memory of one program. A nil cgroup bounds nothing.
type cgroup struct {
	folders []string // one, or in version 1 one for each controller
}

const (
	cgroupPrefix = "wirectl-rlm-"
	// cgroupSpare is the memory of the kernel for a program besides its address space.
	cgroupSpare = 256 << 20
)

var cgroups atomic.Int64

// newCgroup makes a cgroup beside or below that of this process; nil if it may not. It removes
// cgroups of processes that were killed.
func newCgroup(memory int64) *cgroup {
	table, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	g := &cgroup{}
	name := fmt.Sprintf("%s%d-%d", cgroupPrefix, os.Getpid(), cgroups.Add(1))
	try := func(base string, limits map[string]string) bool {
		if base == "" {
			return false
		}
		sweep(base)
		folder := filepath.Join(base, name)
		if os.Mkdir(folder, 0o755) != nil {
			return false
		}
		for file, limit := range limits {
			// Without the controller, the file does not exist.
			if writeControl(filepath.Join(folder, file), limit) != nil {
				_ = os.Remove(folder)
				return false
			}
		}
		g.folders = append(g.folders, folder)
		return true
	}
	bytes := ""
	if memory > 0 {
		bytes = strconv.FormatInt(memory+cgroupSpare, 10)
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		limits := map[string]string{}
		switch fields[1] {
		case "":
			limits["pids.max"] = strconv.Itoa(maxThreads)
			if bytes != "" {
				limits["memory.max"] = bytes
			}
			// A cgroup with processes cannot pass controllers down, so the new one is beside
			// it.
			own := filepath.Join("/sys/fs/cgroup", fields[2])
			_ = try(own, limits) || fields[2] != "/" && try(filepath.Dir(own), limits)
		case "pids":
			limits["pids.max"] = strconv.Itoa(maxThreads)
			try(filepath.Join("/sys/fs/cgroup/pids", fields[2]), limits)
		case "memory":
			if bytes != "" {
				limits["memory.limit_in_bytes"] = bytes
				try(filepath.Join("/sys/fs/cgroup/memory", fields[2]), limits)
			}
		}
	}
	if len(g.folders) == 0 {
		return nil
	}
	return g
}

// writeControl writes a control file, which it never creates.
func writeControl(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// join moves a process into the cgroup.
func (g *cgroup) join(pid int) error {
	if g == nil {
		return nil
	}
	for _, folder := range g.folders {
		err := writeControl(filepath.Join(folder, "cgroup.procs"), strconv.Itoa(pid))
		if err != nil && !errors.Is(err, syscall.ESRCH) { // if it has ended, it reports why
			return fmt.Errorf("cgroup: %w", err)
		}
	}
	return nil
}

// remove removes the cgroup, which must be empty.
func (g *cgroup) remove() {
	if g == nil {
		return
	}
	for _, folder := range g.folders {
		_ = os.Remove(folder)
	}
}

// sweep removes the cgroups of processes that do not exist any more.
func sweep(base string) {
	found, _ := filepath.Glob(filepath.Join(base, cgroupPrefix+"*"))
	for _, folder := range found {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(folder), cgroupPrefix), "-")
		pid, err := strconv.Atoi(owner)
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.Remove(folder)
		}
	}
}
