package door_test

import (
	"context"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door"
	"github.com/wirectl/wirectl/broker/door/admin"
	"github.com/wirectl/wirectl/broker/door/internal/doortest"
	"github.com/wirectl/wirectl/broker/door/nexus"
	"github.com/wirectl/wirectl/broker/door/openai"
	"github.com/wirectl/wirectl/broker/door/proxy"
	"github.com/wirectl/wirectl/broker/door/rlm"
	"github.com/wirectl/wirectl/broker/door/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A front is a door with a call as it is written there.
type front struct {
	name string
	make func(b *broker.Broker) *door.Server
	call string
	want string // what is in the answer
}

func post(path, body string) string {
	return "POST " + path + " HTTP/1.1\r\nContent-Length: " + itoa(len(body)) + "\r\n\r\n" + body
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

var fronts = []front{
	{"rlm", func(b *broker.Broker) *door.Server { return rlm.New(b, nil) }, "\x00\x00\x00\x0f{\"prompt\":\"hi\"}", `"error":null`},
	{"proxy", func(b *broker.Broker) *door.Server { return proxy.New(b, nil, web.Access{}) }, post("/llm_query", `{"prompt":"hi"}`), `{"response":`},
	{"nexus", func(b *broker.Broker) *door.Server { return nexus.New(b, nil, func() {}) }, post("/", `{"jsonrpc":"2.0","id":1,"method":"send","params":{"content":"hi"}}`), `"result":`},
	{"openai", func(b *broker.Broker) *door.Server { return openai.New(b, nil, web.Access{}) }, post("/v1/chat/completions", `{"messages":[]}`), `"choices":`},
	{"admin", func(b *broker.Broker) *door.Server { return admin.New(b, web.Access{}) }, "GET /healthz HTTP/1.1\r\n\r\n", `"ok":true`},
}

// ask makes the call on a connection of its own, and fails unless it is answered.
func (f *front) ask(t *testing.T, addr string) {
	t.Helper()
	conn := doortest.Dial(t, addr)
	defer conn.Close()
	_, _ = io.WriteString(conn, f.call)
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

// memory is what is in use, heap and stacks, after a collection.
func memory() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// Connections that send nothing cost little, and harm nobody. Each takes two
// descriptors of this process, so there are fewer than the 10,000 of the figure
// in docs/limits.md.
func TestSilentConnections(t *testing.T) {
	const n = 1000
	for _, f := range fronts {
		addr := doortest.Serve(t, f.make(doortest.Broker(t, nil)))
		f.ask(t, addr)
		before := memory()
		conns := make([]net.Conn, n)
		for i := range conns {
			conns[i] = doortest.Dial(t, addr)
		}
		f.ask(t, addr) // accepted after all of them
		each := (memory() - before) / n
		if each > 8<<10 { // both ends, and the goroutine
			t.Errorf("%s: a silent connection takes %d bytes", f.name, each)
		}
		for _, c := range conns {
			c.Close()
		}
	}
}

// A peer that sends a byte now and then is let go when its time is up, and
// delays nobody.
func TestSlowLoris(t *testing.T) {
	eachFront(t, func(t *testing.T, f front) {
		s := f.make(doortest.Broker(t, nil))
		s.Times.Read = 100 * time.Millisecond
		addr := doortest.Serve(t, s)
		var group sync.WaitGroup
		for range 20 {
			conn := doortest.Dial(t, addr)
			group.Go(func() {
				for i := range len(f.call) - 1 {
					if _, err := conn.Write([]byte{f.call[i]}); err != nil {
						break
					}
					time.Sleep(10 * time.Millisecond) // the loris's own pace
				}
			})
			group.Go(func() { _, _ = io.Copy(io.Discard, conn) })
		}
		f.ask(t, addr)
		group.Wait()
	})
}

// eachFront tests all doors side by side.
func eachFront(t *testing.T, test func(t *testing.T, f front)) {
	for _, f := range fronts {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			test(t, f)
		})
	}
}

// An announcement of ten million bytes is not believed: memory is taken as they
// come.
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

// Clients that go away in the middle of a call have it cancelled, every one.
func TestDisconnectsMidCall(t *testing.T) {
	const n, atOnce = 1000, 50
	for _, f := range fronts {
		if f.name == "admin" || f.name == "nexus" { // it makes no calls; one conversation takes one after the other
			continue
		}
		p := doortest.NewHeld()
		addr := doortest.Serve(t, f.make(doortest.Broker(t, p)))
		goroutines := runtime.NumGoroutine()
		for range n / atOnce {
			var conns []net.Conn
			var calls []*doortest.Call
			for range atOnce {
				conn := doortest.Dial(t, addr)
				_, _ = io.WriteString(conn, f.call)
				conns, calls = append(conns, conn), append(calls, <-p.Calls)
			}
			for _, conn := range conns {
				conn.Close()
			}
			for _, call := range calls {
				if err := <-call.Ended; err != broker.ErrGone {
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

// Garbage gets an answer or an end, and the next client gets its answer.
func TestGarbage(t *testing.T) {
	eachFront(t, func(t *testing.T, f front) {
		s := f.make(doortest.Broker(t, nil))
		s.Times.Read = 200 * time.Millisecond
		addr := doortest.Serve(t, s)
		for _, junk := range []string{"\x00", "\xff\xff\xff\xff\xff", strings.Repeat("\x00", 100), "\x16\x03\x01\x02\x00\x01", "GET", strings.Repeat("A", 100_000), "\r\n\r\n\r\n", f.call[:len(f.call)/2]} {
			conn := doortest.Dial(t, addr)
			_, _ = io.WriteString(conn, junk)
			_ = conn.CloseWrite()
			_, _ = io.Copy(io.Discard, conn)
		}
		f.ask(t, addr)
	})
}

// A client that ends its side and waits gets its answer at every door.
func TestHalfClosed(t *testing.T) {
	p := doortest.NewHeld()
	for _, f := range fronts[:4] {
		addr := doortest.Serve(t, f.make(doortest.Broker(t, p)))
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

// A door that shuts lets what runs end, tells the rest, and leaves nothing.
func TestShutdown(t *testing.T) {
	for _, f := range fronts[:4] {
		if f.name == "nexus" { // whose second send waits for the first
			continue
		}
		p := doortest.NewHeld()
		s := f.make(doortest.Broker(t, p))
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
