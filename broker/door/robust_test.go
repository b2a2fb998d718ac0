package door_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door"
	"github.com/wirectl/wirectl/broker/door/nexus"
	"github.com/wirectl/wirectl/broker/door/openai"
	"github.com/wirectl/wirectl/broker/door/rlm"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/peer/unit"
	"github.com/wirectl/wirectl/test/kit/doortest"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv("SILENT"); addr != "" {
		beSilent(addr)
		return
	}
	_ = flag.Set("test.parallel", "16") // most tests wait for a client that is slow
	goleak.VerifyTestMain(m)
}

// A front is a door with a call in its protocol.
type front struct {
	name  string
	make  func(b *broker.Broker, t door.Times) doortest.Server
	hello string // how a connection begins
	call  string
	want  string // part of the answer
	costs int64  // most bytes for a silent connection
}

func post(path, body string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + itoa(len(body)) + "\r\n\r\n" + body
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

// timed sets a server's timeouts.
func timed(s interface {
	doortest.Server
	Bounds() *door.Limits
}, t door.Times,
) doortest.Server {
	s.Bounds().Times = t
	return s
}

// A latis prompt, "hi", alone and in a WebSocket message, and the beginning of the final
// answer.
const (
	prompt    = "\x00\x00\x00\x09\x0a\x011\x52\x04\x0a\x02hi"
	wsPrompt  = "\x82\x8d\x00\x00\x00\x00" + prompt
	completed = "\x0a\x011\xaa\x01"
	upgrade   = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)

var fronts = []front{
	{"rlm", func(b *broker.Broker, t door.Times) doortest.Server { return timed(rlm.New(b, nil), t) }, "", "\x00\x00\x00\x0f{\"prompt\":\"hi\"}", `"error":null`, 8 << 10},
	{"proxy", func(b *broker.Broker, t door.Times) doortest.Server {
		return timed(web.NewProxy(b, nil, web.Access{}), t)
	}, "", post("/llm_query", `{"prompt":"hi"}`), `{"response":`, 24 << 10},
	{"nexus", func(b *broker.Broker, t door.Times) doortest.Server {
		return timed(nexus.New(b, nil, "", func() {}), t)
	}, "", post("/", `{"jsonrpc":"2.0","id":1,"method":"send","params":{"content":"hi"}}`), `"result":`, 24 << 10},
	{"openai", func(b *broker.Broker, t door.Times) doortest.Server {
		return timed(openai.New(b, nil, web.Access{}), t)
	}, "", post("/v1/chat/completions", `{"messages":[]}`), `"choices":`, 24 << 10},
	{"messages", func(b *broker.Broker, t door.Times) doortest.Server {
		return timed(openai.New(b, nil, web.Access{}), t)
	}, "", post("/v1/messages", `{"messages":[]}`), `"end_turn"`, 24 << 10},
	{"latis", func(b *broker.Broker, t door.Times) doortest.Server {
		return timed(web.NewLatis(controllers(b), nil), t)
	}, "", prompt, completed, 32 << 10},
	{"latis_ws", func(b *broker.Broker, t door.Times) doortest.Server {
		s := web.NewWS(controllers(b), nil)
		s.Times = t
		return s
	}, upgrade, wsPrompt, completed, 96 << 10},
	{"admin", func(b *broker.Broker, t door.Times) doortest.Server { return timed(web.NewAdmin(b, web.Access{}), t) }, "", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", `"ok":true`, 24 << 10},
}

// controllers serves latis's controllers by a unit whose agent is the broker.
func controllers(b *broker.Broker) web.Serve {
	u := unit.New(nil, unit.Options{})
	return func(ctx context.Context, c *door.Stream, _ web.Peer) {
		a := &agent{broker: b, door: ctx}
		c.Due = func() bool { return a.running.Load() > 0 }
		_ = u.With(a).Serve(context.WithoutCancel(ctx), c)
	}
}

// An agent is a unit's agent that asks the broker.
type agent struct {
	broker  *broker.Broker
	door    context.Context
	running atomic.Int64
}

func (a *agent) Answer(ctx context.Context, p *unit.Prompt, emit func(string) error) (map[string]string, error) {
	a.running.Add(1)
	defer a.running.Add(-1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.door, func() { cancel(context.Cause(a.door)) })()
	c := &broker.Call{Prompt: provider.Quote(p.Content)}
	if err := a.broker.Do(ctx, c); err != nil {
		return nil, &unit.Error{Code: unit.AgentFailed, Message: broker.Message(err)}
	}
	return nil, emit(c.Completion.Plain())
}

// ask makes the call on a new connection, and fails unless it is answered.
func (f *front) ask(t *testing.T, addr string) {
	t.Helper()
	conn := doortest.Dial(t, addr)
	defer conn.Close()
	_, _ = io.WriteString(conn, f.hello+f.call)
	got := ""
	buf := make([]byte, 4096)
	for !strings.Contains(got, f.want) {
		n, err := conn.Read(buf)
		got += string(buf[:n])
		if err != nil {
			t.Fatalf("%s: %q, %v", f.name, got, err)
		}
	}
}

// memory returns the heap and stacks in use after a collection.
func memory() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// Silent connections cost little and harm no other client. Another process opens them, so
// that only the door's memory is measured.
func TestSilentConnections(t *testing.T) {
	for _, f := range fronts {
		if f.name == "messages" { // the same door as openai
			continue
		}
		n := int64(1000)
		if f.name == "rlm" {
			n = 10_000
		}
		if !mayOpen(uint64(n) + 500) {
			t.Skipf("no %d files may be open here", n)
		}
		addr := doortest.Serve(t, f.make(doortest.Broker(t, nil), door.Times{}))
		f.ask(t, addr)
		before := memory()
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "SILENT="+addr, "HELLO="+f.hello, fmt.Sprint("CONNECTIONS=", n))
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(out)
		f.ask(t, addr) // accepted after all the others
		if each := (memory() - before) / n; string(said) != "open" || each > f.costs {
			t.Errorf("%s: %s; a silent connection takes %d bytes, and may take %d", f.name, said, each, f.costs)
		} else {
			t.Logf("%s: a silent connection takes %d bytes", f.name, each)
		}
		in.Close()
		_ = cmd.Wait()
	}
}

// beSilent opens connections, reports that, and keeps them until stdin ends.
func beSilent(addr string) {
	hello := os.Getenv("HELLO")
	n, _ := strconv.Atoi(os.Getenv("CONNECTIONS"))
	conns := make([]net.Conn, n)
	for i := range conns {
		conn, err := net.Dial("tcp", addr) //nolint:noctx // this process is killed with the test
		if err != nil {
			fmt.Print(err)
			return
		}
		_ = conn.(*net.TCPConn).SetLinger(0) // so that no port stays in use
		if conns[i] = conn; hello != "" {
			_, _ = io.WriteString(conn, hello)
			_, _ = conn.Read(make([]byte, 512))
		}
	}
	fmt.Print("open")
	os.Stdout.Close()
	_, _ = io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(conns)
}

// A peer that sends a byte now and then is disconnected after the timeout, and delays no
// other client.
func TestSlowLoris(t *testing.T) {
	eachFront(t, func(t *testing.T, f front) {
		addr := doortest.Serve(t, f.make(doortest.Broker(t, nil), door.Times{Read: time.Second}))
		var group sync.WaitGroup
		for range 20 {
			conn := doortest.Dial(t, addr)
			group.Go(func() {
				_, _ = io.WriteString(conn, f.hello)
				for i := range len(f.call) - 1 {
					if _, err := conn.Write([]byte{f.call[i]}); err != nil {
						break
					}
					time.Sleep(10 * time.Millisecond) // the pace of the slow peer
				}
				if f.name == "latis_ws" { // a part of a WebSocket's frame is not read: it may be idle for half an hour
					conn.Close()
				}
			})
			group.Go(func() { _, _ = io.Copy(io.Discard, conn) })
		}
		f.ask(t, addr)
		group.Wait()
	})
}

// eachFront tests all doors in parallel.
func eachFront(t *testing.T, test func(t *testing.T, f front)) {
	for _, f := range fronts {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			test(t, f)
		})
	}
}

// An announced length of ten million bytes is not trusted: memory grows with the bytes that
// arrive.
func TestAnnouncedIsNotTaken(t *testing.T) {
	addr := doortest.Serve(t, rlm.New(doortest.Broker(t, nil), nil))
	before := memory()
	for range 200 {
		conn := doortest.Dial(t, addr)
		_, _ = conn.Write([]byte("\x00\x98\x96\x80{"))
	}
	fronts[0].ask(t, addr)
	if grown := memory() - before; grown > 16<<20 {
		t.Errorf("200 announcements took %d bytes", grown)
	}
}

// Every client that disconnects in the middle of a call has it cancelled.
func TestDisconnectsMidCall(t *testing.T) {
	const n, atOnce = 1000, 50
	for _, f := range fronts {
		if f.name == "admin" || f.name == "nexus" { // admin makes no calls, and a conversation of nexus takes one at a time
			continue
		}
		p := doortest.NewHeld()
		addr := doortest.Serve(t, f.make(doortest.Broker(t, p), door.Times{}))
		goroutines := runtime.NumGoroutine()
		for range n / atOnce {
			var conns []net.Conn
			var calls []*doortest.Call
			for range atOnce {
				conn := doortest.Dial(t, addr)
				_, _ = io.WriteString(conn, f.hello+f.call)
				conns, calls = append(conns, conn), append(calls, <-p.Calls)
			}
			for _, conn := range conns {
				conn.Close()
			}
			for _, call := range calls {
				if err := <-call.Ended; err != broker.ErrGone && !strings.HasPrefix(f.name, "latis") {
					t.Errorf("%s: a call ended with %v", f.name, err)
				}
			}
		}
		settle(t, func() bool { return runtime.NumGoroutine() <= goroutines+2 })
	}
}

// settle waits until something holds.
func settle(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Fatalf("it does not settle:\n%s", buf[:runtime.Stack(buf, true)])
		}
	}
}

// A client that sends requests and never reads is disconnected once an answer makes no
// progress. Until then, its cost is bounded by the unsent bytes.
func TestNeverReading(t *testing.T) {
	if testing.Short() {
		t.Skip("filling buffers takes long with the race detector")
	}
	for _, f := range fronts {
		if f.name == "nexus" { // its conversation would grow with each
			continue
		}
		addr := doortest.Serve(t, f.make(doortest.Broker(t, nil), door.Times{Write: 200 * time.Millisecond}))
		before := memory()
		conn := doortest.Dial(t, addr)
		_, err := io.WriteString(conn, f.hello)
		for calls := strings.Repeat(f.call, 1000); err == nil; {
			_ = conn.SetWriteDeadline(time.Now().Add(30 * time.Second)) // not for all: a busy machine is slow to fill the buffers
			_, err = io.WriteString(conn, calls)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the client is kept", f.name)
		}
		if grown := memory() - before; grown > 8<<20 {
			t.Errorf("%s: a client that never reads took %d bytes", f.name, grown)
		}
		f.ask(t, addr)
	}
}

// A controller that cancels an unknown call gets an error, and its connection stays.
func TestCancelOfNothing(t *testing.T) {
	const cancel = "\x00\x00\x00\x08\x0a\x013\x5a\x03\x0a\x019" // 3 cancels 9
	for _, f := range fronts[5:7] {
		f.call = strings.Replace(f.call, prompt, cancel+prompt, 1)
		f.call = strings.Replace(f.call, "\x82\x8d", "\x82\x99", 1) // the new length
		f.want = "UNKNOWN_TARGET"
		addr := doortest.Serve(t, f.make(doortest.Broker(t, nil), door.Times{}))
		f.ask(t, addr)
		f.want = completed
		f.ask(t, addr)
	}
}

// Garbage gets an answer or a disconnect, and the next client gets its answer.
func TestGarbage(t *testing.T) {
	eachFront(t, func(t *testing.T, f front) {
		addr := doortest.Serve(t, f.make(doortest.Broker(t, nil), door.Times{Read: time.Second}))
		for _, junk := range []string{"\x00", "\xff\xff\xff\xff\xff", strings.Repeat("\x00", 100), "\x16\x03\x01\x02\x00\x01", "GET", strings.Repeat("A", 100_000), "\r\n\r\n\r\n", f.call[:len(f.call)/2]} {
			conn := doortest.Dial(t, addr)
			_, _ = io.WriteString(conn, junk)
			_ = conn.CloseWrite()
			_, _ = io.Copy(io.Discard, conn)
		}
		f.ask(t, addr)
	})
}

// Malformed requests are rejected at each HTTP door, and the next client gets its answer.
func TestMalformed(t *testing.T) {
	malformed := []string{
		"hello\r\n\r\n",
		"GET /\r\n\r\n",
		"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
		"GET / HTTP/1.1\r\n\r\n", // no Host
		"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
		"G@T\x00 / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\r\nx\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\r\na b: c\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\r\na: b\x00\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\r\na: b\rc\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\r\nx: " + strings.Repeat("x", 40_000) + "\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1x\r\n\r\nx",
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01",
	}
	for _, f := range append(fronts[1:5:5], fronts[6:]...) {
		addr := doortest.Serve(t, f.make(doortest.Broker(t, nil), door.Times{}))
		for _, request := range malformed {
			conn := doortest.Dial(t, addr)
			_, _ = io.WriteString(conn, request)
			_ = conn.CloseWrite()
			if answer, _ := io.ReadAll(conn); strings.Contains(string(answer), "HTTP/1.1 2") {
				t.Errorf("%s: %.100q is answered by %s", f.name, request, answer)
			}
			conn.Close()
		}
		f.ask(t, addr)
	}
}

// A client that half-closes and waits gets its answer on doors with framed messages.
func TestHalfClosed(t *testing.T) {
	p := doortest.NewHeld()
	for _, f := range framed {
		addr := doortest.Serve(t, f.make(doortest.Broker(t, p), door.Times{}))
		conn := doortest.Dial(t, addr)
		_, _ = io.WriteString(conn, f.call)
		_ = conn.CloseWrite()
		call := <-p.Calls
		call.Finish("fine")
		out, err := io.ReadAll(conn)
		if err != nil || !strings.Contains(string(out), f.want) {
			t.Errorf("%s: %q, %v", f.name, out, err)
		}
	}
}

// framed are the doors without HTTP.
var framed = slices.DeleteFunc(slices.Clone(fronts), func(f front) bool { return f.name != "rlm" && f.name != "latis" })

// A client that half-closes, waits for a while and then disconnects also ends its call.
func TestHalfClosedThenGone(t *testing.T) {
	p := doortest.NewHeld()
	for _, f := range framed {
		addr := doortest.Serve(t, f.make(doortest.Broker(t, p), door.Times{}))
		conn := doortest.Dial(t, addr)
		_, _ = io.WriteString(conn, f.call)
		call := <-p.Calls
		_ = conn.CloseWrite()
		if _, err := conn.Read(make([]byte, 1)); err != nil { // notices a disconnect
			t.Errorf("%s: %v", f.name, err)
		}
		_ = conn.SetLinger(0)
		conn.Close()
		gone(t, f, call)
	}
}

// Over HTTP, a half-close counts as a disconnect, and so does a reset. The call is counted as
// cancelled.
func TestHalfClosedOverHTTP(t *testing.T) {
	p := doortest.NewHeld()
	for _, f := range fronts[1:5] {
		for _, reset := range []bool{false, true} {
			b := doortest.Broker(t, p)
			conn := doortest.Dial(t, doortest.Serve(t, f.make(b, door.Times{})))
			_, _ = io.WriteString(conn, f.call)
			call := <-p.Calls
			if reset {
				_ = conn.SetLinger(0)
				conn.Close()
			}
			_ = conn.CloseWrite()
			gone(t, f, call)
			settle(t, func() bool { u := b.Usage(); return len(u) == 1 && u[0].Cancelled == 1 })
		}
	}
}

// A client that has sent another request before it leaves is missed at the next write at the
// latest.
func TestPipelinedThenGone(t *testing.T) {
	p := doortest.NewHeld()
	f := fronts[3]
	conn := doortest.Dial(t, doortest.Serve(t, f.make(doortest.Broker(t, p), door.Times{})))
	_, _ = io.WriteString(conn, post("/v1/chat/completions", `{"stream":true,"messages":[]}`)+f.call)
	call := <-p.Calls
	_ = conn.SetLinger(0)
	conn.Close()
	call.Say("anybody there?")
	gone(t, f, call)
}

// gone fails unless a call ends because its client has disconnected.
func gone(t *testing.T, f front, call *doortest.Call) {
	t.Helper()
	select {
	case err := <-call.Ended:
		if !errors.Is(err, broker.ErrGone) {
			t.Errorf("%s: the call ended with %v", f.name, err)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("%s: the call goes on", f.name)
	}
}

// A door that is shut down before it serves never does, whether the shutdown waits for
// calls or not.
func TestShutBeforeItServes(t *testing.T) {
	for _, f := range fronts {
		t.Run(f.name, func(t *testing.T) {
			for range 20 {
				s := f.make(doortest.Broker(t, nil), door.Times{})
				ln, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // there is nothing to wait for
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				s.Shutdown(ctx)
				if err := s.Serve(t.Context(), ln); err != nil {
					t.Error(err)
				}
				if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
					t.Errorf("it still listens: %v", err)
				}
			}
		})
	}
}

// A door that shuts down lets running calls end, rejects the rest, and leaks nothing.
func TestShutdown(t *testing.T) {
	for _, f := range fronts[:6] {
		if f.name == "nexus" { // its second send waits for the first
			continue
		}
		p := doortest.NewHeld()
		s := f.make(doortest.Broker(t, p), door.Times{})
		addr := doortest.Serve(t, s)
		ending, staying := doortest.Dial(t, addr), doortest.Dial(t, addr)
		_, _ = io.WriteString(ending, f.call)
		first := <-p.Calls
		_, _ = io.WriteString(staying, f.call)
		<-p.Calls
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.Shutdown(ctx); close(done) }()
		first.Finish("fine")
		out, _ := io.ReadAll(ending)
		if !strings.Contains(string(out), "fine") {
			t.Errorf("%s: what ran got %q", f.name, out)
		}
		cancel()
		out, _ = io.ReadAll(staying)
		if !strings.Contains(string(out), "Broker is shutting down") {
			t.Errorf("%s: what stayed got %q", f.name, out)
		}
		<-done
	}
}
