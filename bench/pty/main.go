//go:build unix

// Command pty opens a capture of a million frames in the monitor, in a terminal
// as a person would, and prints how that goes: pty WIRECTL. The status is 1 when
// a figure falls short of its goal.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/frame"
)

const frames = 1_000_000

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: pty WIRECTL")
	}
	good, err := run(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if !good {
		os.Exit(1)
	}
}

func run(wirectl string) (good bool, err error) {
	dir, err := os.MkdirTemp("", "wirectl-bench")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "million.pcapng")
	if err := corpus(file); err != nil {
		return false, err
	}
	m, err := watch(wirectl, file)
	if err != nil {
		return false, err
	}
	fmt.Println("| a million frames in a terminal | goal | is |\n| --- | --- | --- |")
	good = true
	row := func(what string, goal, is float64, unit string) {
		mark := ""
		if is > goal {
			good, mark = false, " **short**"
		}
		fmt.Printf("| %s | %g %s | %.3g %s%s |\n", what, goal, unit, is, unit, mark)
	}
	row("first screen", 1, m.first.Seconds(), "s")
	row("a key while it reads, worst", 50, float64(m.key.Microseconds())/1e3, "ms")
	row("memory", 300, float64(m.memory)/(1<<20), "MiB")
	row("all of it read", 1, m.all.Seconds(), "s")
	fmt.Printf("\nprocessor time: %.3g µs a frame, the screens among it\n", m.work.Seconds()*1e6/frames)
	return good, nil
}

// corpus writes calls with progress and results.
func corpus(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	b := bufio.NewWriterSize(f, 1<<20)
	w, err := pcapng.NewWriter(b, capture.Session{Framing: "line", Protocol: "mcp"}, nil)
	for i := 0; i < frames && err == nil; i++ {
		dir, text := frame.U2C, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":%d}}`, i/4, i)
		switch i % 4 {
		case 0:
			dir, text = frame.C2U, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"search","_meta":{"progressToken":%d}}}`, i/4, i/4)
		case 3:
			text = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"sunny"}]}}`, i/4)
		}
		err = w.Write(&capture.Record{
			Seq: int64(i + 1), Time: time.Unix(1_800_000_000, int64(i)*1e5),
			Frame: frame.Frame{Raw: []byte(text + "\n"), End: len(text), Conn: 1, Dir: dir},
		})
	}
	if err != nil {
		return err
	}
	return b.Flush()
}

// What was measured.
type measures struct {
	first, all, key, work time.Duration
	memory                int64
}

// A screen is what a terminal has been sent since it was last wiped.
type screen struct {
	*os.File
	mu   sync.Mutex
	text bytes.Buffer
	err  error
}

func (s *screen) read() {
	b := make([]byte, 64<<10)
	for {
		n, err := s.Read(b)
		s.mu.Lock()
		s.text.Write(b[:n])
		s.err = err
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// await returns how long it takes until the screen has what matches.
func (s *screen) await(what *regexp.Regexp) (time.Duration, error) {
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		found, err := what.Match(s.text.Bytes()), s.err
		s.mu.Unlock()
		switch took := time.Since(begun); {
		case found:
			return took, nil
		case err != nil || took > time.Minute:
			return took, fmt.Errorf("the screen never shows %v: %w", what, err)
		}
	}
}

// press types a key and returns how long it takes until the screen answers.
func (s *screen) press(key string, answer *regexp.Regexp) (time.Duration, error) {
	s.mu.Lock()
	s.text.Reset()
	s.mu.Unlock()
	if _, err := s.WriteString(key); err != nil {
		return 0, err
	}
	return s.await(answer)
}

// Texts that only one view shows.
var (
	ids    = regexp.MustCompile("OUTCOME")
	list   = regexp.MustCompile("WHAT IT SAYS")
	ended  = regexp.MustCompile("■ ended")
	counts = regexp.MustCompile("tools/call")
)

// watch runs the monitor and goes from view to view while it reads.
func watch(wirectl, file string) (m measures, err error) {
	cmd := exec.Command(wirectl, "monitor", file)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 120})
	if err != nil {
		return m, err
	}
	defer terminal.Close()
	begun := time.Now()
	s := &screen{File: terminal}
	go s.read()
	if m.first, err = s.await(counts); err != nil {
		return m, err
	}
	var keys []time.Duration
	for range 10 {
		for _, turn := range []struct {
			key    string
			answer *regexp.Regexp
		}{{"2", list}, {"1", ids}} {
			took, err := s.press(turn.key, turn.answer)
			if err != nil {
				return m, err
			}
			keys = append(keys, took)
		}
	}
	m.key = slices.Max(keys)
	// Only what changes is sent again: the count of frames shows that it is over.
	if _, err := s.await(ended); err != nil {
		return m, err
	}
	m.all = time.Since(begun)
	if _, err := s.WriteString("q"); err != nil {
		return m, err
	}
	err = cmd.Wait()
	used := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	m.memory = int64(used.Maxrss) << 10
	m.work = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return m, err
}
