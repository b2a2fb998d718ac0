package relay_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/test/kit/transporttest"
	"github.com/wirectl/wirectl/transport"
	"github.com/wirectl/wirectl/transport/grpc"
	"github.com/wirectl/wirectl/transport/quic"
)

// kinds are the transports that distinguish a failed end from a clean one.
var kinds = map[string]struct {
	address string
	opts    transport.Options
}{
	"tcp":       {address: "tcp://127.0.0.1:0"},
	"tls":       {address: "tls://127.0.0.1:0"},
	"ws":        {address: "ws://127.0.0.1:0"},
	"wss":       {address: "wss://127.0.0.1:0"},
	"grpc":      {address: "grpc://127.0.0.1:0", opts: transport.Options{Schemes: grpc.Schemes}},
	"quic":      {address: "quic://127.0.0.1:0", opts: transport.Options{Schemes: quic.Schemes}},
	"quic grpc": {address: "quic://127.0.0.1:0", opts: transport.Options{Schemes: quic.Schemes, Subprotocols: []string{quic.GRPC}}},
}

// connected returns both sides of a connection. The dialling side has written a frame, and the
// other has read it.
func connected(t *testing.T, address string, opts transport.Options) (dialled, accepted transport.Conn) {
	t.Helper()
	theirs := opts
	theirs.Notice = func(text string) { _, opts.TLS.Pin, _ = strings.Cut(text, "--tls-pin ") }
	l := transporttest.Listen(t, address, theirs)
	taken := make(chan transport.Conn, 1)
	go func() {
		c, err := l.Accept(transporttest.Bounded(t))
		if err == nil {
			hearQuietly(c)
		}
		taken <- c
	}()
	dialled = transporttest.Dial(t, []string{l.Addr()}, opts)
	say(t, dialled, part)
	accepted = <-taken
	t.Cleanup(func() { accepted.Close() })
	return dialled, accepted
}

func hearQuietly(c io.Reader) { _, _ = io.ReadFull(c, make([]byte, len(part))) }

// part is a frame of an unfinished answer.
const part = "\x00\x00\x00\x04part"

// If one side breaks off in the middle of an answer, the other side does not see a clean end.
func TestFailedEnd(t *testing.T) {
	for controller, c := range kinds {
		for unit, u := range kinds {
			t.Run(unit+" unit breaks for "+controller, func(t *testing.T) {
				t.Parallel()
				asks, near := connected(t, c.address, c.opts)
				far, works := connected(t, u.address, u.opts)
				done := relayed(t, relay.Config{Controller: near, Unit: far, Framing: frame.Len32})
				say(t, works, part)
				hear(t, asks, part)
				_ = transport.Abort(works, errors.New("it broke"))
				broken(t, asks)
				if err := <-done; err == nil {
					t.Error("the relay says nothing of it")
				}
			})
			t.Run(controller+" controller breaks for "+unit, func(t *testing.T) {
				t.Parallel()
				asks, near := connected(t, c.address, c.opts)
				far, works := connected(t, u.address, u.opts)
				done := relayed(t, relay.Config{Controller: near, Unit: far, Framing: frame.Len32})
				say(t, works, part)
				hear(t, asks, part)
				_ = transport.Abort(asks, errors.New("it broke"))
				broken(t, works)
				<-done //nolint:errcheck // that it has ended is all that counts
			})
		}
	}
}

// The same holds for a unit whose process ends by a signal or with a nonzero status.
func TestFailedProcess(t *testing.T) {
	for name, c := range kinds {
		for _, end := range []string{"kill -9 $$", "exit 3"} {
			t.Run(name+" "+end, func(t *testing.T) {
				t.Parallel()
				asks, near := connected(t, c.address, c.opts)
				unit := transporttest.Dial(t, []string{"--", "sh", "-c", `printf '\000\000\000\004part'; ` + end}, transport.Options{})
				done := relayed(t, relay.Config{Controller: near, Unit: unit, Framing: frame.Len32, Stderr: io.Discard})
				hear(t, asks, part)
				broken(t, asks)
				<-done //nolint:errcheck // that it has ended is all that counts
			})
		}
		t.Run(name+" exit 0", func(t *testing.T) {
			t.Parallel()
			asks, near := connected(t, c.address, c.opts)
			unit := transporttest.Dial(t, []string{"--", "sh", "-c", `printf '\000\000\000\004part'`}, transport.Options{})
			done := relayed(t, relay.Config{Controller: near, Unit: unit, Framing: frame.Len32, Stderr: io.Discard})
			hear(t, asks, part)
			ended(t, asks)
			<-done //nolint:errcheck // that it has ended is all that counts
		})
	}
}

// A signal that ends the relay in the middle of an answer leaves whole frames, and a failed end
// on both sides.
func TestFailedRelay(t *testing.T) {
	for name, e := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asks, near := connected(t, "tcp://127.0.0.1:0", transport.Options{})
			far, works := connected(t, e.address, e.opts)
			signals := make(chan os.Signal, 1)
			done := relayed(t, relay.Config{Controller: near, Unit: far, Framing: frame.Len32, Signals: signals})
			wrote := make(chan struct{})
			go func() {
				defer close(wrote)
				for n := byte(0); ; n++ {
					if _, err := works.Write([]byte{0, 0, 0, 1, n}); err != nil {
						return
					}
				}
			}()
			for n := 0; ; n++ {
				var got [5]byte
				if _, err := io.ReadFull(asks, got[:]); err != nil {
					if err == io.EOF {
						t.Error("the controller sees a clean end")
					}
					break
				}
				if got != [5]byte{0, 0, 0, 1, byte(n)} {
					t.Fatalf("frame %d is % x", n, got)
				}
				if n == 100 {
					signals <- os.Interrupt
				}
			}
			<-done //nolint:errcheck // that it has ended is all that counts
			<-wrote
		})
	}
}

// relayed runs a relay for the duration of a test.
func relayed(t *testing.T, cfg relay.Config) <-chan error {
	done, over := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		_, err := relay.Run(t.Context(), cfg)
		done <- err
	}()
	t.Cleanup(func() { <-over })
	return done
}

// broken waits for an end, which must not be clean.
func broken(t *testing.T, r io.Reader) {
	t.Helper()
	if b, err := io.ReadAll(r); err == nil || len(b) > 0 {
		t.Errorf("heard %q, %v; want a failure", b, err)
	}
}
