package agent

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// rootsAreAFile says that the system's roots are all in one file.
const rootsAreAFile = true

// endsWithUs has the system ask a process to end when we are gone.
func endsWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }

// stopsOf returns the signals after which followStop must be called.
func stopsOf() (stops <-chan os.Signal, release func()) {
	c := make(chan os.Signal, 8)
	signal.Notify(c, syscall.SIGCHLD, syscall.SIGCONT)
	return c, func() { signal.Stop(c) }
}

// followStop stops us when the agent has stopped itself, so that the shell takes the terminal back, and
// lets the agent continue when we do.
func followStop(sig os.Signal, agent int) {
	if _, fields := statOf(agent); len(fields) == 0 || fields[0] != "T" {
		return
	}
	if sig == syscall.SIGCONT {
		_ = syscall.Kill(agent, syscall.SIGCONT)
	} else if ownsTerminal() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
}

// isOwn reports whether the client's end of a connection on loopback is a socket of this user.
func isOwn(client, server netip.AddrPort) bool {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			fields := strings.Fields(lines.Text()) // number, local, remote, state, queues, timer, retransmits, user
			if len(fields) > 7 && socketAddress(fields[1]) == client && socketAddress(fields[2]) == server {
				return fields[7] == strconv.Itoa(os.Getuid())
			}
		}
	}
	return false
}

// socketAddress reads an address of the tables: words in the byte order of the machine, and a port.
func socketAddress(text string) netip.AddrPort {
	address, port, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(address)
	n, failed := strconv.ParseUint(port, 16, 16)
	if err != nil || failed != nil || len(b)%4 != 0 {
		return netip.AddrPort{}
	}
	if littleEndian {
		for word := range slices.Chunk(b, 4) {
			slices.Reverse(word)
		}
	}
	ip, _ := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(ip.Unmap(), uint16(n))
}

var littleEndian = func() bool {
	var b [2]byte
	binary.NativeEndian.PutUint16(b[:], 1)
	return b[0] == 1
}()

// A process is one that an agent has left.
type process struct {
	pid  int
	name string
}

func (p process) String() string { return fmt.Sprintf("%s (pid %d)", p.name, p.pid) }

// remaining returns the processes, other than ours, that have a variable of the environment.
func remaining(variable string) (list []process) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		environ, err := os.ReadFile(file) // of other users it cannot be read
		if err != nil || pid == os.Getpid() || !slices.ContainsFunc(bytes.Split(environ, []byte{0}), func(v []byte) bool { return string(v) == variable }) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		list = append(list, process{pid, programOf(strings.Split(string(line), "\x00"))})
	}
	return list
}

// programOf returns the name of the program of a command, with that of its script. That of its thread says
// less: it is "MainThread" in Node.
func programOf(command []string) string {
	name := filepath.Base(command[0])
	if slices.Contains(interpreters, name) {
		for _, word := range command[1:] {
			if word != "" && !strings.HasPrefix(word, "-") {
				return name + " " + filepath.Base(word)
			}
		}
	}
	return name
}
