package provider_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/mask"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/llm"
)

// A paid request is sent once. If a backend reads a request and dies, on a connection that
// has served before, the request is not sent again. A key that would make net/http retry is
// not passed on.
func TestSentOnce(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		for name, die := range map[string]func(*httptest.Server, http.ResponseWriter){
			"reset":  func(*httptest.Server, http.ResponseWriter) { panic(http.ErrAbortHandler) },
			"closed": func(s *httptest.Server, _ http.ResponseWriter) { s.CloseClientConnections() },
		} {
			t.Run(fmt.Sprint(name, " ", map[bool]string{false: "HTTP/1.1", true: "HTTP/2"}[http2]), func(t *testing.T) {
				var mu sync.Mutex
				seen := map[string]int{}
				var backend *httptest.Server
				backend = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					mu.Lock()
					seen[string(body)]++
					mu.Unlock()
					if err != nil || r.Header.Get("Idempotency-Key") != "" || r.ProtoMajor != map[bool]int{false: 1, true: 2}[http2] {
						t.Errorf("%s %v, %v", r.Proto, r.Header, err)
					}
					if strings.HasPrefix(string(body), "die") {
						die(backend, w)
					}
				}))
				backend.EnableHTTP2 = http2
				backend.StartTLS()
				defer backend.Close()
				c := provider.NewClient(backend.URL, http.Header{"Idempotency-Key": {"k"}}, 0)
				c.As(backend.Client())
				defer c.CloseIdleConnections()
				for i := range 20 {
					for _, body := range []string{fmt.Sprint("live ", i), fmt.Sprint("die ", i)} {
						resp, err := c.Post(t.Context(), "/", nil, []byte(body), &provider.Request{})
						if err == nil {
							_, _ = io.Copy(io.Discard, resp.Body)
							resp.Body.Close()
						}
						if (err == nil) != strings.HasPrefix(body, "live") {
							t.Errorf("%s: %v", body, err)
						}
					}
				}
				mu.Lock()
				defer mu.Unlock()
				for body, n := range seen {
					if n != 1 {
						t.Errorf("%q was sent %d times", body, n)
					}
				}
				if len(seen) != 40 {
					t.Errorf("%d of 40 were sent", len(seen))
				}
			})
		}
	}
}

// A request to a backend that reads it and dies fails as a hop that is shown. It is not
// repeated, whatever the configuration allows: it may have been paid.
func TestDiedIsAHop(t *testing.T) {
	for retries := range 3 {
		var seen atomic.Int64
		backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "die") {
				seen.Add(1)
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"hi"}}]}`)
		}))
		p := provider.NewOpenAI(provider.Config{BaseURL: backend.URL})
		b, err := broker.New(broker.Config{Models: []broker.Model{{Name: "m", Routes: []broker.Route{{
			Backend: &broker.Backend{Name: "p", Provider: p, Retries: retries, Backoff: time.Millisecond},
		}}}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ask := func(text string) (*broker.Call, error) {
			c := &broker.Call{Model: "m", Body: fmt.Appendf(nil, `{"messages":[{"role":"user","content":%q}]}`, text)}
			return c, b.Do(t.Context(), c)
		}
		if _, err := ask("live"); err != nil { // its connection is kept
			t.Fatal(err)
		}
		c, err := ask("die")
		failed := slices.IndexFunc(c.Hops, func(h broker.Hop) bool { return h.Err == nil || !h.Sent }) < 0
		if err == nil || !failed || len(c.Hops) != 1 || seen.Load() != 1 {
			t.Errorf("%d retries: the backend saw %d, %v, hops %v", retries, seen.Load(), err, c.Hops)
		}
		p.CloseIdleConnections()
		backend.Close()
	}
}

// timesOut fails unless connecting to the backend takes too long.
func timesOut(t *testing.T, url string) {
	t.Helper()
	c := provider.NewClient(url, http.Header{}, 50*time.Millisecond)
	defer c.CloseIdleConnections()
	_, err := c.Post(t.Context(), "/", nil, []byte("{}"), &provider.Request{}) //nolint:bodyclose // there is no body
	var pe *provider.Error
	if !errors.As(err, &pe) || pe.Cause != provider.TimedOut || !pe.Again() {
		t.Errorf("%s: %v", url, err)
	}
}

// A backend whose TLS handshake never begins fails after the connect timeout, and the call
// may be made elsewhere.
func TestConnectTimeout(t *testing.T) {
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	timesOut(t, "https://"+ln.Addr().String())
}

// An unreachable backend is a failure of its own kind.
func TestUnreachable(t *testing.T) {
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	_, err = provider.NewClient("http://"+ln.Addr().String(), http.Header{}, 0).Post(t.Context(), "/", nil, nil, &provider.Request{}) //nolint:bodyclose // there is none
	var pe *provider.Error
	if !errors.As(err, &pe) || pe.Cause != provider.Unreachable {
		t.Error(err)
	}
}

// seen is what observers get of an answer.
type seen struct{ answer, events string }

func (s *seen) Sent(string, []byte)              {}
func (s *seen) Passed(string)                    {}
func (s *seen) Received(status int, body []byte) { s.answer += fmt.Sprint(status, " ", string(body)) }
func (s *seen) Event(_ int, data []byte)         { s.events += string(data) }
func (s *seen) Ended(error)                      {}

// A whole answer to a request for a stream is observed as it arrived.
func TestNoStream(t *testing.T) {
	for answer, want := range map[string]seen{
		"<html>\n\n":             {answer: "200 <html>\n\n"},
		"{\n\"error\": \"x\"}\n": {answer: "200 {\n\"error\": \"x\"}\n"},
		"data: x\n\n":            {events: "x"},
		"data: x\r\rdata: y\r\r": {events: "xy"},
	} {
		backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
		c := provider.NewClient(backend.URL, http.Header{}, 0)
		var got seen
		r := &provider.Request{Exchange: &got}
		resp, err := c.Post(t.Context(), "/", nil, []byte("{}"), r) //nolint:bodyclose // Events closes it
		if err != nil {
			t.Fatal(err)
		}
		err = provider.Events(t.Context(), resp, r, func([]byte) (bool, error) { return false, nil }, func([]byte) error { return provider.Malformed("x") })
		var pe *provider.Error
		if got != want || !errors.As(err, &pe) || (pe.Cause == provider.Overloaded) != (got.events == "") {
			t.Errorf("%q: seen %q, %v", answer, got, err)
		}
		c.CloseIdleConnections()
		backend.Close()
	}
}

// A stream that answers a request for a whole answer is recorded as events, and the key
// that two events share is masked. JSON and HTML with that content type are read as such.
func TestUnaskedStream(t *testing.T) {
	const key = "sk-planted"
	for _, tt := range []struct {
		status       int
		kind, answer string
		want         seen
		isError      bool
	}{
		{200, "text/event-stream", `data: {"delta":{"text":"sk-pl"}}` + "\n\n" + `data: {"delta":{"text":"anted"}}` + "\n\n", seen{events: `{"delta":{"text":"*****"}}{"delta":{"text":"*****"}}`}, true},
		{500, "Text/Event-Stream; charset=utf-8", `data: {"delta":{"text":"sk-pl"}}` + "\n\n" + `data: {"delta":{"text":"anted"}}` + "\n\n", seen{events: `{"delta":{"text":"*****"}}{"delta":{"text":"*****"}}`}, true},
		{200, "text/event-stream", `{"a":"sk-planted"}`, seen{answer: `200 {"a":"**********"}`}, false},
		{500, "text/event-stream", `<p>sk-planted`, seen{answer: `500 <p>**********`}, true},
		{200, "application/json", "data: x\n\n", seen{answer: "200 data: x\n\n"}, false},
	} {
		backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", tt.kind)
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.answer)
		}))
		c := provider.NewClient(backend.URL, http.Header{}, 0)
		var got seen
		r := &provider.Request{Exchange: &got, Secrets: new(mask.Secrets)}
		r.Secrets.Add(key)
		err := c.Ask(t.Context(), "/", nil, []byte("{}"), r, func([]byte) error { return nil })
		var pe *provider.Error
		if got != tt.want || (err != nil) != tt.isError || tt.isError && (!errors.As(err, &pe) || pe.Cause != provider.Overloaded) {
			t.Errorf("%d %s %q: seen %q, %v", tt.status, tt.kind, tt.answer, got, err)
		}
		c.CloseIdleConnections()
		backend.Close()
	}
}

// An answer or event over the limit has its own error, and does not look like a broken
// connection. Reading allocates less than twice the limit.
func TestTooLarge(t *testing.T) {
	const limit, event = 64 << 20, 8 << 20
	line := []byte("data: " + strings.Repeat("x", 1<<16-8) + "\n\n")
	for about, tt := range map[string]struct {
		write     func(w io.Writer)
		want      string
		mostBytes uint64 // 0 means any number, because events are soon garbage
	}{
		"an answer": {func(w io.Writer) {
			for range limit/len(line) + 1 {
				_, _ = w.Write(line)
			}
		}, "it exceeds the limit of 67108864 bytes", 2 * limit},
		"an answer of known length": {func(w io.Writer) {
			w.(http.ResponseWriter).Header().Set("Content-Length", fmt.Sprint(limit+1))
			_, _ = w.Write(line)
		}, "it exceeds the limit of 67108864 bytes", limit},
		"a stream": {func(w io.Writer) {
			for range limit/len(line) + 1 {
				_, _ = w.Write(line)
			}
		}, "it exceeds the limit of 67108864 bytes", 0},
		"an event of one line": {func(w io.Writer) {
			_, _ = io.WriteString(w, "data: ")
			for range event/len(line) + 1 {
				_, _ = w.Write(line[6 : len(line)-2])
			}
		}, "an event exceeds the limit of 8388608 bytes", 0},
		"an event of many lines": {func(w io.Writer) {
			for range event/len(line) + 2 {
				_, _ = w.Write(line[:len(line)-1])
			}
		}, "an event exceeds the limit of 8388608 bytes", 0},
	} {
		backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { tt.write(w) }))
		c := provider.NewClient(backend.URL, http.Header{}, 0)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := &provider.Request{}
		var err error
		if strings.HasPrefix(about, "an answer") {
			err = c.Ask(t.Context(), "/", nil, []byte("{}"), r, func([]byte) error { return nil })
		} else {
			var resp *provider.Response
			if resp, err = c.Post(t.Context(), "/", nil, []byte("{}"), r); err != nil {
				t.Fatal(err)
			}
			err = provider.Events(t.Context(), resp, r, func([]byte) (bool, error) { return false, nil }, nil)
		}
		runtime.ReadMemStats(&after)
		var pe *provider.Error
		if !errors.As(err, &pe) || pe.Cause != provider.Internal || pe.Again() || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", about, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used >= tt.mostBytes && tt.mostBytes > 0 {
			t.Errorf("%s: reading it took %d bytes", about, used)
		}
		c.CloseIdleConnections()
		backend.Close()
	}
}

// A prompt that is too long has its own code, whatever words the backend uses. Nothing else
// of its message is kept.
func TestTooLong(t *testing.T) {
	for _, tt := range []struct {
		status     int
		body, want string
	}{
		{400, `{"error":{"code":"context_length_exceeded","message":"secret"}}`, llm.TooLong},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, llm.TooLong},
		{400, `{"error":{"status":"INVALID_ARGUMENT","message":"The input token count (2000000) exceeds the maximum number of tokens allowed (1048576)."}}`, llm.TooLong},
		{400, `{"error":{"type":"BadRequestError","message":"This model's maximum context length is 4096 tokens."}}`, llm.TooLong},
		{400, `{"error":{"type":"exceed_context_size_error","message":"x"}}`, llm.TooLong},
		{400, `{"error":{"type":"invalid_request_error","message":"temperature must be a number"}}`, "invalid_request_error"},
		{429, `{"error":{"type":"rate_limit_error","message":"too much for the context window"}}`, "rate_limit_error"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.body)
		}))
		c := provider.NewClient(s.URL, http.Header{}, 0)
		_, err := c.Post(t.Context(), "/", nil, []byte("{}"), &provider.Request{}) //nolint:bodyclose // there is no body
		var pe *provider.Error
		if !errors.As(err, &pe) || pe.Code != tt.want || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "210000") {
			t.Errorf("%s: %v", tt.body, err)
		}
		c.CloseIdleConnections()
		s.Close()
	}
}
