package agent

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// endWithUs makes the system kill a program when we are killed.
func endWithUs(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// statOf returns the program and the fields of a process from its state on; none if it is unknown.
func statOf(pid int) (name string, fields []string) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	from, to := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')') // proc(5): PID (NAME) STATE PARENT
	if err != nil || from < 0 || to < from {
		return "", nil
	}
	return string(text[from+1 : to]), strings.Fields(string(text[to+1:]))
}

// processOf returns the parent and the program of a process; 0 if it is unknown.
func processOf(pid int) (parent int, name string) {
	name, fields := statOf(pid)
	if len(fields) > 1 {
		parent, _ = strconv.Atoi(fields[1])
	}
	return parent, name
}
