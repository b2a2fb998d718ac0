//go:build unix

package tui_test

import (
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/tui"
)

// steady is a tap with a fixed number of frames per second.
type steady struct {
	session capture.Session
	rate    int
	seq     int
	begun   time.Time
	end     time.Duration
}

func (s *steady) Session() *capture.Session { return &s.session }

// due returns the number of frames by now.
func (s *steady) due() int { return int(time.Since(s.begun).Seconds() * float64(s.rate)) }

func (s *steady) Buffered() bool { return s.seq < s.due() }

func (s *steady) Next(r *capture.Record) error {
	for !s.Buffered() {
		if time.Since(s.begun) > s.end {
			return io.EOF
		}
		time.Sleep(5 * time.Millisecond)
	}
	text := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"search"}}`, s.seq/2)
	dir := frame.C2U
	if s.seq%2 == 1 {
		text, dir = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}`, s.seq/2), frame.U2C
	}
	s.seq++
	*r = capture.Record{Seq: int64(s.seq), Time: time.Now(), Frame: frame.Frame{Raw: []byte(text + "\n"), End: len(text), Conn: 1, Dir: dir}}
	return nil
}

// BenchmarkLive measures the cost of watching for a second. Frames arrive at a steady rate,
// and the screen is drawn 30 times to a discarded output.
func BenchmarkLive(b *testing.B) {
	for _, rate := range []int{0, 10_000, 100_000} {
		b.Run(fmt.Sprintf("%d-a-second", rate), func(b *testing.B) {
			s := store.New(store.Options{})
			defer s.Close()
			in := &steady{session: capture.Session{Framing: "line", Protocol: "mcp"}, rate: rate, begun: time.Now(), end: time.Duration(b.N) * time.Second}
			keys, typing := io.Pipe()
			defer typing.Close()
			p := tea.NewProgram(tui.New(s, tui.Config{Name: "bench", Color: true, Theme: "dark"}), tea.WithInput(keys), tea.WithOutput(io.Discard))
			go p.Send(tea.WindowSizeMsg{Width: 120, Height: 40})
			done := make(chan error)
			go func() { _, err := p.Run(); done <- err }()
			before := cpu(b)
			s.Begin(decode.Input{Capture: in})
			if err := s.Read(b.Context(), decode.Input{Capture: in}, decode.Config{Workers: 1}); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(100*(cpu(b)-before).Seconds()/b.Elapsed().Seconds(), "%-of-a-core")
			b.ReportMetric(float64(s.Overview().Frames)/b.Elapsed().Seconds(), "frames/s")
			p.Quit()
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		})
	}
}

// cpu returns the processor time of the process.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
