//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// A program is a server to be started. It prints where it is: a port, or an object
// with an address for each door, of which door is the one that is meant.
type program struct {
	name, door string
	args       []string
}

// ownPort as the door of a program that says nothing stands in its arguments for a
// port that it is to listen on.
const ownPort = "PORT"

// A process is a server that was started.
type process struct {
	cmd  *exec.Cmd
	addr string
}

func start(what program) (*process, error) {
	if what.door == ownPort {
		return startAt(what)
	}
	cmd := exec.Command(what.args[0], what.args[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd}
	r := bufio.NewReader(out)
	line, err := r.ReadString('\n')
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("%s: %w", strings.Join(what.args, " "), err)
	}
	go io.Copy(io.Discard, r) //nolint:errcheck // until it ends
	var doors map[string]string
	if json.Unmarshal([]byte(line), &doors) == nil && doors[what.door] != "" {
		p.addr = doors[what.door]
	} else {
		p.addr = "127.0.0.1:" + strings.TrimSpace(line)
	}
	return p, nil
}

// startAt starts a server at a free port, and waits until it listens.
func startAt(what program) (*process, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := ln.Addr().String()
	ln.Close()
	_, port, _ := net.SplitHostPort(addr)
	command := strings.ReplaceAll(strings.Join(what.args, "\n"), ownPort, port)
	args := strings.Split(command, "\n")
	cmd := exec.Command(args[0], args[1:]...)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd, addr}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if conn, err := net.Dial("tcp", addr); err == nil {
			return p, conn.Close()
		}
		if time.Now().After(deadline) {
			p.stop()
			return nil, fmt.Errorf("%s: nothing listens on %s", strings.Join(args, " "), addr)
		}
	}
}

func (p *process) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// cpu is the processor time that the process has taken.
func (p *process) cpu() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	user, _ := strconv.Atoi(string(fields[11]))
	system, _ := strconv.Atoi(string(fields[12]))
	return time.Duration(user+system) * 10 * time.Millisecond
}

// peak is the largest resident set of the process, in MiB.
func (p *process) peak() float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	kib, _ := strconv.Atoi(string(bytes.Fields(rest)[0]))
	return float64(kib) / 1024
}
