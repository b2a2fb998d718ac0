//go:build unix

package relay_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/test/kit/transporttest"
	"github.com/wirectl/wirectl/transport"
)

// pipes is an end of two pipes, like the standard streams of a program.
type pipes struct{ in, out *os.File }

func (p *pipes) Read(b []byte) (int, error)  { return p.in.Read(b) }
func (p *pipes) Write(b []byte) (int, error) { return p.out.Write(b) }
func (p *pipes) CloseWrite() error           { return p.out.Close() }
func (p *pipes) Close() error {
	_ = p.out.Close() // CloseWrite may have closed it
	return p.in.Close()
}

func (p *pipes) Descriptors() (read, write syscall.RawConn, err error) {
	if read, err = p.in.SyscallConn(); err == nil {
		write, err = p.out.SyscallConn()
	}
	return read, write, err
}

// piped returns the two ends of a connection over pipes.
func piped(t *testing.T) (mine, its *pipes) {
	t.Helper()
	mine, its = &pipes{}, &pipes{}
	var errs [2]error
	mine.in, its.out, errs[0] = os.Pipe()
	its.in, mine.out, errs[1] = os.Pipe()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _, _ = mine.Close(), its.Close() })
	return mine, its
}

// From pipe to pipe, bytes arrive and are recorded unchanged, in pieces of any size and with
// slow readers.
func TestPipes(t *testing.T) {
	const size = 6 << 20
	sent := make([]byte, size)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(sent)
	rng := rand.New(random)
	for n := 0; n < size; n += 1 + rng.IntN(100_000) {
		sent[n] = '\n'
	}
	for _, watched := range []string{"by one who copies", "by one who holds", ""} {
		r := &running{memory: &memory{}}
		controller, near := piped(t)
		unit, far := piped(t)
		cfg := relay.Config{Controller: near, Unit: far, Framing: frame.Line}
		switch watched {
		case "by one who copies":
			cfg.Sink = r.sink()
		case "by one who holds":
			cfg.Sink = relay.NewFan(r.warn, holder{r.memory})
		}
		done := make(chan error, 1)
		go func() {
			result, err := relay.Run(t.Context(), cfg)
			r.result = result
			done <- err
		}()
		go func() {
			rng := rand.New(rand.NewPCG(1, 2))
			for rest := sent; len(rest) > 0; {
				n := min(len(rest), 1<<rng.IntN(21))
				_, _ = controller.Write(rest[:n])
				rest = rest[n:]
			}
			_ = controller.CloseWrite()
		}()
		var got bytes.Buffer
		for err := error(nil); err == nil; {
			_, err = io.CopyN(&got, unit, int64(1<<rng.IntN(21)))
		}
		_ = unit.CloseWrite()
		ended(t, controller)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), sent) || r.result.ToUnit.Bytes != size {
			t.Errorf("%d bytes arrived, and %d were counted, of %d", got.Len(), r.result.ToUnit.Bytes, size)
		}
		if watched != "" && !bytes.Equal(r.raw(frame.C2U), sent) {
			t.Errorf("watched %s: the records are of other bytes", watched)
		}
	}
}

// A holder keeps the memory of runs instead of copying their bytes.
type holder struct{ *memory }

func (h holder) WriteRun(r *capture.Run) error {
	if r.Memory != nil {
		r.Memory.Hold()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range r.Frames {
		rec := r.Record(i)
		if r.Memory == nil {
			rec = rec.Clone()
		}
		h.records = append(h.records, rec)
	}
	return nil
}

// gates are the ways in which a relay moves bytes: by file descriptors, and frame by frame.
func gates() map[string]*relay.Gate {
	return map[string]*relay.Gate{"by descriptors": nil, "by frames": relay.NewGate(relay.GateConfig{})}
}

// A unit that minds neither the end of its input nor SIGTERM is ended once nobody can read its
// output any more, however its controller was connected.
func TestControllerLeaves(t *testing.T) {
	for name, connect := range map[string]func(t *testing.T) (mine, its *pipes){"pipes": piped, "socket pairs": socketed} {
		for how, gate := range gates() {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				controller, near := connect(t)
				unit := transporttest.Dial(t, []string{"--", "sh", "-c", `trap '' TERM; echo ready; while :; do sleep 10; done`}, transport.Options{})
				m, done := &memory{}, make(chan relay.Result, 1)
				go func() {
					result, _ := relay.Run(t.Context(), relay.Config{
						Controller: near, Unit: unit, Gate: gate, Sink: m.sink(), Stderr: io.Discard, Grace: 20 * time.Millisecond, Warn: m.warn,
					})
					done <- result
				}()
				hear(t, controller.in, "ready\n")
				controller.in.Close()
				if result := <-done; result.Exit.Signal != syscall.SIGKILL || len(m.told) != 2 {
					t.Errorf("%v; told: %q", result.Exit, m.told)
				}
			})
		}
	}
}

// socketed is piped over pairs of sockets, as Node makes them.
func socketed(t *testing.T) (mine, its *pipes) {
	t.Helper()
	mine, its = &pipes{}, &pipes{}
	syscall.ForkLock.RLock() // no child shall inherit them
	defer syscall.ForkLock.RUnlock()
	for _, ends := range [][2]**os.File{{&mine.in, &its.out}, {&its.in, &mine.out}} {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i, end := range ends {
			syscall.CloseOnExec(fds[i])
			*end = os.NewFile(uintptr(fds[i]), "socket")
		}
	}
	t.Cleanup(func() { _, _ = mine.Close(), its.Close() })
	return mine, its
}

// A controller that reads slowly gets all that a unit has written before it exited, although
// another process writes on.
func TestSlowControllerAfterExit(t *testing.T) {
	for how, gate := range gates() {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			controller, near := piped(t)
			unit := transporttest.Dial(t, []string{"--", "sh", "-c", `head -c 600000 /dev/zero | tr '\0' '\n'; yes "$(printf %09999d 0)" & exit 3`}, transport.Options{})
			done := make(chan relay.Result, 1)
			go func() {
				result, _ := relay.Run(t.Context(), relay.Config{Controller: near, Unit: unit, Gate: gate, Framing: frame.Line, Stderr: io.Discard})
				done <- result
			}()
			if _, err := unit.(transport.Process).Wait(); err != nil {
				t.Fatal(err)
			}
			hear(t, controller.in, strings.Repeat("\n", 600_000))
			if _, err := io.Copy(io.Discard, controller.in); err != nil {
				t.Error(err)
			}
			if result := <-done; result.Exit.Status != 3 {
				t.Error(result.Exit)
			}
		})
	}
}
