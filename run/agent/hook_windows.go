package agent

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"unsafe"

	"github.com/wirectl/wirectl/transport"
)

// become runs a command with our files, and returns its status: no process can take our place.
func (k *Hook) become(argv []string) int {
	cmd := exec.CommandContext(context.Background(), argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = k.stdin, k.stdout, k.stderr
	err := cmd.Run()
	if exited, ok := errors.AsType[*exec.ExitError](err); ok {
		return exited.ExitCode()
	}
	if err != nil {
		start := transport.NewStartError(argv[0], err)
		k.complain(start)
		return start.Status
	}
	return 0
}

// report only runs the command: Claude Code's prefix is not set here.
func (k *Hook) report(argv []string) int { return k.become(argv) }

// endAs returns the status of a command.
func endAs(exit transport.Exit) int { return exit.Code() }

// lookPath returns the program that a name stands for in a PATH; "" if there is none.
func lookPath(name, path string) string {
	if filepath.Base(name) != name {
		return name
	}
	for _, dir := range filepath.SplitList(path) {
		if program, err := exec.LookPath(filepath.Join(dir, name)); dir != "" && err == nil {
			return program
		}
	}
	return ""
}

// link makes a program that is us under another name. Links to files of another volume, and symbolic
// links, need rights that most users lack.
func link(program, name string) error { return os.Link(program, name+".exe") }

// processOf returns the parent and the program of a process; 0 if it is unknown.
func processOf(pid int) (parent int, name string) {
	snapshot, err := syscall.CreateToolhelp32Snapshot(syscall.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return 0, ""
	}
	defer syscall.CloseHandle(snapshot)
	var entry syscall.ProcessEntry32
	entry.Size = uint32(unsafe.Sizeof(entry))
	for err = syscall.Process32First(snapshot, &entry); err == nil; err = syscall.Process32Next(snapshot, &entry) {
		if int(entry.ProcessID) == pid {
			return int(entry.ParentProcessID), syscall.UTF16ToString(entry.ExeFile[:])
		}
	}
	return 0, ""
}

// ownsTerminal reports true: all processes of a console get its keys.
func ownsTerminal() bool { return true }
