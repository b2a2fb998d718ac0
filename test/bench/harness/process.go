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

// A Server is a running server.
type Server struct {
	Address string
	cmd     *exec.Cmd
	out     *os.File
}

// Serve starts a server, and returns once a line of its output or its standard error has
// matched. The group of the pattern is its address.
func Serve(pattern string, args ...string) *Server {
	cmd := exec.Command(args[0], args[1:]...)
	r, w, err := os.Pipe()
	Check(err)
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		Check(err)
	}
	s := &Server{cmd: cmd, out: r}
	wanted := regexp.MustCompile(pattern)
	var said strings.Builder
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if found := wanted.FindStringSubmatch(lines.Text()); found != nil {
			s.Address = found[1]
			go io.Copy(io.Discard, r) //nolint:errcheck // until it ends
			return s
		}
		fmt.Fprintln(&said, lines.Text())
	}
	s.Stop()
	panic(failure{fmt.Errorf("%s does not say where it listens: %s", strings.Join(args, " "), said.String())})
}

// Stop ends the server.
func (s *Server) Stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.out.Close()
}

// Peak returns the peak memory of the server, in MiB.
func (s *Server) Peak() float64 { return Peak(s.cmd.Process.Pid) }

// Peak returns the peak memory of a running process, in MiB.
func Peak(pid int) float64 {
	status := Must(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	kib, _, _ := strings.Cut(strings.TrimSpace(string(rest)), " ")
	return Must(strconv.ParseFloat(kib, 64)) / 1024
}

// Run runs a command to its end.
func Run(cmd *exec.Cmd) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		Check(fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, stderr.Bytes()))
	}
}

// Output runs a command to its end, and returns its output.
func Output(cmd *exec.Cmd) []byte {
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	Run(cmd)
	return stdout.Bytes()
}
