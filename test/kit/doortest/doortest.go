// Package doortest has helpers for the tests of the front doors.
package doortest

import (
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/llm"
)

// Broker returns a broker with the model mock of a provider; nil is an echo.
func Broker(t testing.TB, p provider.Provider) *broker.Broker {
	t.Helper()
	if p == nil {
		p = provider.NewMock(provider.MockConfig{})
	}
	b, err := broker.New(broker.Config{
		Default: "mock",
		Models:  []broker.Model{{Name: "mock", Routes: []broker.Route{{Backend: &broker.Backend{Name: "mock", Provider: p}}}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A Server serves a door.
type Server interface {
	Serve(ctx context.Context, ln net.Listener) error
	Shutdown(ctx context.Context)
}

// Serve serves until the test ends, and returns the address.
func Serve(t testing.TB, s Server) string {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(context.Background(), ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Shutdown(ctx)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// Dial connects for as long as the test runs.
func Dial(t testing.TB, addr string) *net.TCPConn {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(context.Background(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second)) // so that no test hangs
	return conn.(*net.TCPConn)
}

// Ask makes a request on a new connection. If the answer is cut, it returns the error as the
// answer.
func Ask(t testing.TB, method, url, body string, header http.Header) (status int, got http.Header, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close, req.Header = true, header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, resp.Header, err.Error()
	}
	return resp.StatusCode, resp.Header, string(out)
}

// Zero replaces the number of a key, which changes each time, by 0.
func Zero(text, key string) string {
	return regexp.MustCompile(`"`+key+`":[0-9.]+`).ReplaceAllString(text, `"`+key+`":0`)
}

// A Held is a provider whose calls wait for the test.
type Held struct{ Calls chan *Call }

// A Call is a call of a [Held].
type Call struct {
	*provider.Request
	// Ended yields the cause of the call's cancellation, nil if it finished.
	Ended chan error

	part, text chan string
	over       chan struct{}
}

// NewHeld returns a Held. The test must receive its calls.
func NewHeld() *Held { return &Held{make(chan *Call, 64)} }

// Say emits a part, unless the call has ended.
func (c *Call) Say(text string) {
	select {
	case c.part <- text:
	case <-c.over:
	}
}

// Finish ends a call with a text.
func (c *Call) Finish(text string) { c.text <- text }

// Complete waits.
func (h *Held) Complete(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	call := &Call{r, make(chan error, 1), make(chan string), make(chan string, 1), make(chan struct{})}
	defer close(call.over)
	h.Calls <- call
	err := call.wait(ctx, c)
	call.Ended <- err
	return err
}

func (c *Call) wait(ctx context.Context, into *provider.Completion) error {
	for {
		select {
		case text := <-c.part:
			if err := c.Emit(provider.Part{Delta: llm.Delta{Text: provider.Quote(text)}}); err != nil {
				return err
			}
		case text := <-c.text:
			into.Text, into.Finish = provider.Quote(text), "stop"
			if c.Emit != nil {
				return c.Emit(provider.Part{Delta: llm.Delta{Text: into.Text}})
			}
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
