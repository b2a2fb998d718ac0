package upstream_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/broker/provider/openai"
	"github.com/wirectl/wirectl/broker/provider/upstream"
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
				c := upstream.New(backend.URL, http.Header{"Idempotency-Key": {"k"}}, 0)
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
		p := openai.New(provider.Config{BaseURL: backend.URL})
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
