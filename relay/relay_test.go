package relay_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/transport"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "32") // most tests wait, for ends that take a second
	goleak.VerifyTestMain(m)
}

// A memory keeps the records of a session.
type memory struct {
	mu      sync.Mutex
	records []capture.Record
	told    []string
}

func (m *memory) Write(r *capture.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records = append(m.records, r.Clone())
	return nil
}

func (m *memory) warn(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = append(m.told, text)
}

// sink returns a sink that keeps all records.
func (m *memory) sink() *relay.Fan { return relay.NewFan(m.warn, m) }

// raw joins the frames of a direction.
func (m *memory) raw(dir frame.Dir) (raw []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.records {
		if r.Kind == capture.Frame && r.Dir == dir {
			raw = append(raw, r.Raw...)
		}
	}
	return raw
}

func (m *memory) kinds() (kinds []capture.Kind) {
	for _, r := range m.records {
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

// pair returns the two ends of a connection.
func pair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

// A running is a relay whose controller and unit are played by the test.
type running struct {
	*memory
	controller, unit *net.TCPConn
	done             chan struct{}
	result           relay.Result
	err              error
}

// start starts a relay between two connections of the test.
func start(t *testing.T, cfg relay.Config) *running {
	t.Helper()
	r := &running{memory: &memory{}, done: make(chan struct{})}
	var near, far transport.Conn
	r.controller, near = pairOf(t)
	r.unit, far = pairOf(t)
	cfg.Controller, cfg.Unit, cfg.Sink, cfg.Warn = near, far, r.sink(), r.warn
	go func() {
		defer close(r.done)
		r.result, r.err = relay.Run(t.Context(), cfg)
	}()
	t.Cleanup(func() { r.controller.Close(); r.unit.Close(); <-r.done })
	return r
}

func pairOf(t *testing.T) (mine *net.TCPConn, its transport.Conn) {
	a, b := pair(t)
	return a, b
}

// say writes text, or fails the test.
func say(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

// hear reads as many bytes as want has and compares them.
func hear(t *testing.T, r io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != want {
		t.Fatalf("heard %q, %v; want %q", got, err, want)
	}
}

// ended waits until the other side has ended.
func ended(t *testing.T, r io.Reader) {
	t.Helper()
	if b, err := io.ReadAll(r); err != nil || len(b) > 0 {
		t.Fatalf("heard %q, %v; want the end", b, err)
	}
}

// shut closes the test's side for writing.
func shut(t *testing.T, c *net.TCPConn) {
	t.Helper()
	if err := c.CloseWrite(); err != nil {
		t.Error(err)
	}
}

const (
	request = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n"
	answer  = `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}` + "\n"
)

// Traffic is recorded as frames, with the times at which it was read and written.
func TestRecords(t *testing.T) {
	r := start(t, relay.Config{Conn: 7, Name: "unit"})
	say(t, r.controller, request)
	hear(t, r.unit, request)
	say(t, r.unit, answer)
	hear(t, r.controller, answer)
	shut(t, r.controller)
	ended(t, r.unit)
	shut(t, r.unit)
	ended(t, r.controller)
	<-r.done
	if r.err != nil {
		t.Fatal(r.err)
	}
	want := []capture.Kind{capture.Opened, capture.Frame, capture.Frame, capture.HalfClosed, capture.HalfClosed}
	if got := r.kinds(); !equal(got, want) {
		t.Fatalf("recorded %v, want %v", got, want)
	}
	for i, rec := range r.records {
		if rec.Conn != 7 || rec.Time.IsZero() {
			t.Errorf("record %d: connection %d at %v", i, rec.Conn, rec.Time)
		}
	}
	q, a := r.records[1], r.records[2]
	if string(q.Raw) != request || q.Seq != 1 || q.Dir != frame.C2U || q.Protocol != "mcp" || q.Framing != "line" {
		t.Errorf("the request is %+v", q)
	}
	if string(a.Raw) != answer || a.Seq != 2 || a.Dir != frame.U2C || a.Protocol != "mcp" {
		t.Errorf("the answer is %+v", a)
	}
	if q.Written.Before(q.Time) || a.Written.Before(a.Time) || a.Time.Before(q.Time) {
		t.Errorf("times: %v %v, %v %v", q.Time, q.Written, a.Time, a.Written)
	}
	if got, want := r.result.ToUnit, (relay.Traffic{Frames: 1, Bytes: int64(len(request))}); got != want {
		t.Errorf("to the unit went %+v, want %+v", got, want)
	}
}

// HTTP bodies that arrive together are all recorded, however large they are when decompressed.
func TestManyCompressedBodies(t *testing.T) {
	const count = 5
	var body bytes.Buffer
	w := gzip.NewWriter(&body)
	_, _ = w.Write(bytes.Repeat([]byte("0"), 1<<20))
	_ = w.Close()
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", body.Len())
	answers := strings.Repeat(head+body.String(), count)
	r := start(t, relay.Config{})
	say(t, r.unit, answers)
	hear(t, r.controller, answers)
	shut(t, r.unit)
	ended(t, r.controller)
	shut(t, r.controller)
	<-r.done
	if got := r.raw(frame.U2C); string(got) != answers || r.result.ToController.Frames != count {
		t.Errorf("recorded %d bytes of %d, in %d frames", len(got), len(answers), r.result.ToController.Frames)
	}
}

func equal(a, b []capture.Kind) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Either direction can end while the other continues.
func TestHalfClose(t *testing.T) {
	for _, first := range []frame.Dir{frame.C2U, frame.U2C} {
		t.Run(first.String(), func(t *testing.T) {
			r := start(t, relay.Config{})
			from, to := r.controller, r.unit
			if first == frame.U2C {
				from, to = to, from
			}
			shut(t, from)
			ended(t, to)
			say(t, to, "still there\n")
			hear(t, from, "still there\n")
			shut(t, to)
			ended(t, from)
			<-r.done
			if r.err != nil {
				t.Error(r.err)
			}
		})
	}
}

// A unit that echoes returns any amount, even if its controller only writes: neither direction
// waits for the other.
func TestEcho(t *testing.T) {
	const size = 256 * (64<<10 + 1)
	r := start(t, relay.Config{})
	go func() {
		_, _ = io.Copy(r.unit, r.unit)
		shut(t, r.unit)
	}()
	block := append(bytes.Repeat([]byte("0123456789abcdef"), 4096), 10)
	go func() {
		for range size / len(block) {
			_, _ = r.controller.Write(block)
		}
		shut(t, r.controller)
	}()
	n := 0
	buf := make([]byte, len(block))
	for ; n < size; n += len(block) {
		if _, err := io.ReadFull(r.controller, buf); err != nil || !bytes.Equal(buf, block) {
			t.Fatalf("the echo differs or ends at %d: %v", n, err)
		}
	}
	ended(t, r.controller)
	<-r.done
	if got := r.result.ToController.Bytes; got != size || r.err != nil {
		t.Errorf("%d bytes came back, %v", got, r.err)
	}
}

// Bytes that are not frames pass and are recorded.
func TestUnframed(t *testing.T) {
	r := start(t, relay.Config{})
	const noise = "\x00\xff\x00\xff binary \n\n\x1b[31m"
	say(t, r.controller, noise)
	hear(t, r.unit, noise)
	shut(t, r.controller)
	shut(t, r.unit)
	<-r.done
	if got := r.raw(frame.C2U); string(got) != noise {
		t.Errorf("recorded %q, want %q", got, noise)
	}
}

// A side that does not read is reported, meanwhile and in the result. The other direction
// continues.
func TestStall(t *testing.T) {
	r := start(t, relay.Config{Patience: 20 * time.Millisecond})
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		_, _ = r.controller.Write(bytes.Repeat(append(bytes.Repeat([]byte("x"), 65535), 10), 200)) // more than the socket buffers hold
	}()
	await(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.told) > 0
	})
	say(t, r.unit, answer)
	hear(t, r.controller, answer)
	r.controller.Close()
	r.unit.Close()
	<-stop
	<-r.done
	if got := r.told[0]; !bytes.HasPrefix([]byte(got), []byte("unit does not read for ")) {
		t.Errorf("told: %s", got)
	}
	if r.result.Worst.For < 20*time.Millisecond || r.result.Worst.What != "unit does not read" {
		t.Errorf("the worst stall is %v", r.result.Worst)
	}
}

// await waits until so returns true.
func await(t *testing.T, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain")
		}
	}
}

// The end of the context ends a relay whose ends are silent.
func TestContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, near := pair(t)
	_, far := pair(t)
	done := make(chan error)
	go func() {
		_, err := relay.Run(ctx, relay.Config{Controller: near, Unit: far})
		done <- err
	}()
	cancel()
	if err := <-done; err != context.Canceled {
		t.Error(err)
	}
}
