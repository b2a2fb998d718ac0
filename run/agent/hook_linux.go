package agent

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// endWithUs makes the system kill a program when we are killed.
func endWithUs(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// processOf returns the parent and the program of a process; 0 if it is unknown.
func processOf(pid int) (parent int, name string) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	from, to := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')') // proc(5): PID (NAME) STATE PARENT
	if err != nil || from < 0 || to < from {
		return 0, ""
	}
	if fields := bytes.Fields(text[to+1:]); len(fields) > 1 {
		parent, _ = strconv.Atoi(string(fields[1]))
	}
	return parent, string(text[from+1 : to])
}
