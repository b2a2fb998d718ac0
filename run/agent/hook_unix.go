//go:build unix

package agent

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/transport"
)

// become runs a command in place of this process. It returns only if that fails.
func (k *Hook) become(argv []string) int {
	path := lookPath(argv[0], os.Getenv("PATH"))
	err := error(&exec.Error{Name: argv[0], Err: exec.ErrNotFound})
	if path != "" {
		err = syscall.Exec(path, argv, os.Environ())
	}
	return k.failed(argv[0], err)
}

// failed reports that a command cannot be started.
func (k *Hook) failed(program string, err error) int {
	start := transport.NewStartError(program, err)
	k.complain(start)
	return start.Status
}

// lookPath returns the program that a name stands for in a PATH; "" if there is none.
func lookPath(name, path string) string {
	if strings.ContainsRune(name, '/') {
		return name
	}
	for dir := range strings.SplitSeq(path, ":") {
		program := strings.TrimSuffix(dir, "/") + "/" + name
		info, err := os.Stat(program)
		if dir != "" && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return program
		}
	}
	return ""
}

// passing is how long a signal may take to end a command that got it with its process group, before it
// is passed on.
const passing = 50 * time.Millisecond

// report runs a shell command, in our process group and with our files, and reports its start and its
// exit. It ends as the command did.
func (k *Hook) report(argv []string) int {
	begin := k.started("shell")
	begin.Name, begin.Command = k.hooks.shown(k.script())
	received := make(chan os.Signal, 16)
	signal.Notify(received, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	path := lookPath(argv[0], os.Getenv("PATH"))
	if path == "" {
		return k.failed(argv[0], &exec.Error{Name: argv[0], Err: exec.ErrNotFound})
	}
	attributes := &syscall.SysProcAttr{}
	endWithUs(attributes)
	runtime.LockOSThread() // the system may end the command together with the thread that started it
	process, err := os.StartProcess(path, argv, &os.ProcAttr{Files: []*os.File{k.stdin, k.stdout, k.stderr}, Sys: attributes})
	if err != nil {
		return k.failed(argv[0], err)
	}
	begin.PID, begin.Parent = process.Pid, os.Getppid()
	_ = history.AppendEvent(k.hooks.Folder, begin) // the command runs without a record
	ended := make(chan struct{})
	var passes sync.WaitGroup
	passes.Go(func() {
		for {
			select {
			case s := <-received:
				select {
				case <-ended:
				case <-time.After(passing):
					if !k.shell { // opencode sends signals to the process group
						_ = process.Signal(s) // it may have ended
					}
				}
			case <-ended:
				return
			}
		}
	})
	state, err := process.Wait()
	close(ended)
	passes.Wait()
	exit := transport.Exit{Status: 1}
	if err == nil {
		exit.Status = state.ExitCode()
		if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			exit = transport.Exit{Signal: status.Signal()}
		}
	}
	k.hooks.exited(begin.PID, exit)
	return endAs(exit)
}

// endAs ends us by the signal that has ended a command, or returns its status.
func endAs(exit transport.Exit) int {
	if number, ok := exit.Signal.(syscall.Signal); ok {
		// The shell has no handlers of signals, so that it ends as the command did.
		kill := fmt.Sprintf("ulimit -c 0; kill -%d $$; exit %d", int(number), exit.Code())
		_ = syscall.Exec("/bin/sh", []string{"sh", "-c", kill}, os.Environ())
	}
	return exit.Code()
}

// ownsTerminal reports whether our process group gets the signals of a terminal's keys.
func ownsTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// link makes a program that is us under another name.
func link(program, name string) error { return os.Symlink(program, name) }
