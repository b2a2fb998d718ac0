//go:build linux

// Package standin has programs that stand in for others in tests: a docker that needs no
// daemon. Its containers are processes that bubblewrap isolates, and, as those of the real
// one, they go on when their client is killed.
package standin

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// StateDir is the variable that names the folder of the containers. A file "gone" in it says
// that the daemon is gone, and a file "hang" that it does not answer.
const StateDir = "STANDIN_DOCKER"

// A list is a flag that may be given again.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

// Set implements [flag.Value].
func (l *list) Set(text string) error {
	*l = append(*l, text)
	return nil
}

func say(text string)  { _, _ = os.NewFile(2, "stderr").WriteString(text + "\n") }
func tell(text string) { _, _ = os.NewFile(1, "stdout").WriteString(text + "\n") }

// Docker is the program. It returns its status.
func Docker(args []string) int {
	dir := os.Getenv(StateDir)
	if _, err := os.Stat(filepath.Join(dir, "hang")); err == nil {
		time.Sleep(time.Hour)
	}
	if _, err := os.Stat(filepath.Join(dir, "gone")); err == nil || dir == "" || len(args) == 0 {
		say("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?")
		return 1
	}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	switch args[0] {
	case "run":
		return run(dir, f, args[1:])
	case "ps":
		var filter, format string
		f.Bool("a", false, "")
		f.StringVar(&filter, "filter", "", "")
		f.StringVar(&format, "format", "", "")
		if f.Parse(args[1:]) != nil || format != "{{.Names}}" {
			return 125
		}
		found, _ := filepath.Glob(filepath.Join(dir, "*.pid"))
		for _, path := range found {
			name := strings.TrimSuffix(filepath.Base(path), ".pid")
			if label, _ := os.ReadFile(filepath.Join(dir, name+".label")); "label="+string(label) == filter {
				tell(name)
			}
		}
	case "rm":
		f.Bool("f", false, "")
		if f.Parse(args[1:]) != nil {
			return 125
		}
		for _, name := range f.Args() {
			remove(dir, name)
		}
	case "network":
		tell("127.0.0.1")
	case "image":
		if args[len(args)-1] != "python:3.12-slim" {
			say("Error response from daemon: No such image: " + args[len(args)-1])
			return 1
		}
	case "pull":
		say("Error response from daemon: pull access denied for " + args[len(args)-1])
		return 1
	default:
		return 125
	}
	return 0
}

// remove kills a container, and waits until it is gone.
func remove(dir, name string) {
	path := filepath.Join(dir, name+".pid")
	text, err := os.ReadFile(path)
	if err != nil {
		say("Error response from daemon: No such container: " + name)
		return
	}
	pid, _ := strconv.Atoi(string(text))
	for pid > 1 && syscall.Kill(pid, syscall.SIGKILL) == nil && !zombie(pid) {
		time.Sleep(time.Millisecond)
	}
	_ = os.Remove(path)
	_ = os.Remove(filepath.Join(dir, name+".label"))
	tell(name)
}

func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return err != nil || strings.HasPrefix(rest, "Z")
}

// run runs a container, and is its client.
func run(dir string, f *flag.FlagSet, args []string) int {
	var volumes, mounts, variables, ignored list
	for _, name := range []string{"i", "rm"} {
		f.Bool(name, false, "")
	}
	for _, name := range []string{"pull", "log-driver", "cap-drop", "security-opt", "pids-limit", "tmpfs", "memory", "user", "add-host", "userns", "stop-timeout"} {
		f.Var(&ignored, name, "")
	}
	readOnly := f.Bool("read-only", false, "")
	name, label := f.String("name", "", ""), f.String("label", "", "")
	network, work := f.String("network", "bridge", ""), f.String("w", "/", "")
	f.Var(&volumes, "v", "")
	f.Var(&mounts, "mount", "")
	f.Var(&variables, "e", "")
	if f.Parse(args) != nil || f.NArg() < 2 || *name == "" {
		return 125
	}
	interpreter, prefix, err := python()
	if err != nil {
		say("docker: " + err.Error())
		return 125
	}
	wrap := []string{
		"--unshare-all", "--new-session", "--as-pid-1", "--clearenv", "--cap-drop", "ALL", "--hostname", "container", "--info-fd", "3",
		"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--setenv", "PATH", filepath.Dir(interpreter) + ":/usr/bin:/bin",
	}
	for _, path := range []string{"/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", prefix} {
		wrap = append(wrap, "--ro-bind-try", path, path)
	}
	if *network != "none" {
		hosts := filepath.Join(dir, "hosts")
		if err := os.WriteFile(hosts, []byte("127.0.0.1 localhost host.docker.internal\n"), 0o600); err != nil {
			return 125
		}
		wrap = append(wrap, "--share-net", "--ro-bind", hosts, "/etc/hosts")
	}
	for _, v := range volumes {
		from, to, _ := strings.Cut(v, ":")
		wrap = append(wrap, "--bind", from, to)
	}
	for _, m := range mounts {
		how := "--bind"
		if strings.HasSuffix(m, ",readonly") {
			how, m = "--ro-bind", strings.TrimSuffix(m, ",readonly")
		}
		from, to, _ := strings.Cut(strings.TrimPrefix(m, `type=bind,"source=`), `",target=`)
		wrap = append(wrap, how, strings.ReplaceAll(from, `""`, `"`), to)
	}
	for _, v := range variables {
		key, value, _ := strings.Cut(v, "=")
		wrap = append(wrap, "--setenv", key, value)
	}
	if *readOnly {
		wrap = append(wrap, "--remount-ro", "/")
	}
	wrap = append(append(wrap, "--chdir", *work, "--"), f.Args()[1:]...)
	if err := start(dir, *name, *label, wrap); err != nil {
		if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() > 0 {
			return ended.ExitCode()
		}
		say("docker: Error response from daemon: " + err.Error())
		return 125
	}
	return 0
}

// start starts a container and waits for its end.
func start(dir, name, label string, wrap []string) error {
	info, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command("bwrap", wrap...) //nolint:noctx // it outlives its client
	cmd.Stdin, cmd.Stdout = os.NewFile(0, "stdin"), os.NewFile(1, "stdout")
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, name+".label"), []byte(label), 0o600), cmd.Start()); err != nil {
		return err
	}
	w.Close()
	var child struct {
		Pid int `json:"child-pid"`
	}
	if err := json.NewDecoder(info).Decode(&child); err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".pid"), []byte(strconv.Itoa(child.Pid)), 0o600)
		if err != nil {
			return err
		}
	}
	err = cmd.Wait()
	_ = os.Remove(filepath.Join(dir, name+".pid"))
	_ = os.Remove(filepath.Join(dir, name+".label"))
	return err
}

// python returns the interpreter of this machine, and the folder of its installation.
func python() (path, prefix string, err error) {
	out, err := exec.Command("python3", "-I", "-S", "-c", "import os, sys; print(os.path.realpath(sys.executable)); print(sys.base_prefix)").Output() //nolint:noctx // a second
	lines := slices.Collect(strings.Lines(string(out)))
	if err != nil || len(lines) != 2 {
		return "", "", errors.Join(errors.New("no python3"), err)
	}
	return strings.TrimSpace(lines[0]), strings.TrimSpace(lines[1]), nil
}
