package harness

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// A Server is a program that was started and that serves.
type Server struct {
	Address string
	cmd     *exec.Cmd
	out     *os.File
}

// Serve starts a server, and returns when a line of what it prints, on whichever stream,
// has matched: the group of the pattern is its address.
func Serve(pattern string, args ...string) (*Server, error) {
	cmd := exec.Command(args[0], args[1:]...)
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, err
	}
	s := &Server{cmd: cmd, out: r}
	wanted := regexp.MustCompile(pattern)
	var said strings.Builder
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if found := wanted.FindStringSubmatch(lines.Text()); found != nil {
			s.Address = found[1]
			go io.Copy(io.Discard, r) //nolint:errcheck // until it ends
			return s, nil
		}
		fmt.Fprintln(&said, lines.Text())
	}
	s.Stop()
	return nil, fmt.Errorf("%s does not say where it listens: %s", strings.Join(args, " "), said.String())
}

// Stop ends the server.
func (s *Server) Stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.out.Close()
}

// Peak returns the most memory that the server has taken, in MiB.
func (s *Server) Peak() (float64, error) { return Peak(s.cmd.Process.Pid) }

// Peak returns the most memory that a running process has taken, in MiB.
func Peak(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	kib, _, _ := strings.Cut(strings.TrimSpace(string(rest)), " ")
	n, err := strconv.ParseFloat(kib, 64)
	return n / 1024, err
}

// Run runs a command to its end, and says what it printed if it fails.
func Run(cmd *exec.Cmd) error {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, stderr.Bytes())
	}
	return nil
}

// Output runs a command to its end, and returns what it wrote.
func Output(cmd *exec.Cmd) ([]byte, error) {
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	err := Run(cmd)
	return stdout.Bytes(), err
}
