package mcphttp_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A forgetful server has sessions, and may forget them. Calls are answered by the name of their
// session.
type forgetful struct {
	mu       sync.Mutex
	version  string
	sessions int    // that have begun
	current  string // the session that it knows
	// begin returns the capabilities of a session and the status of the answer.
	begin func(number int) (capabilities string, status int)
	// named returns the id of a session.
	named   func(number int) string
	refused *sync.WaitGroup // every request is refused when all that it counts are there; or nil
	deaf    bool            // every call is refused
	stream  chan string     // the sessions whose stream of events was requested
}

func newForgetful(version string) *forgetful {
	return &forgetful{
		version: version, stream: make(chan string, 10),
		begin: func(int) (string, int) { return `{"tools":{},"logging":{}}`, http.StatusOK },
		named: func(number int) string { return fmt.Sprintf("s%d", number) },
	}
}

func (s *forgetful) serve(w http.ResponseWriter, r *http.Request, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := r.Header.Get("Mcp-Session-Id")
	switch {
	case r.Method == http.MethodDelete:
	case strings.Contains(body, `"initialize"`):
		capabilities, status := s.begin(s.sessions + 1)
		if status != http.StatusOK {
			http.Error(w, "not now", status)
			return
		}
		s.sessions++
		s.current = s.named(s.sessions)
		w.Header().Set("Mcp-Session-Id", s.current)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":%d}}\n\n", s.sessions)
		_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"protocolVersion\":%q,\"capabilities\":%s,\"serverInfo\":{\"version\":%d}}}\n\n", s.version, capabilities, s.sessions)
	case session != s.current || s.refused != nil || s.deaf && strings.Contains(body, "tools/call"):
		if refused := s.refused; refused != nil {
			refused.Done()
			s.mu.Unlock()
			refused.Wait()
			s.mu.Lock()
			s.refused = nil
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`)
	case r.Method == http.MethodGet:
		s.stream <- session
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		s.mu.Unlock()
		<-r.Context().Done()
		s.mu.Lock()
	case !strings.Contains(body, `"id"`):
		w.WriteHeader(http.StatusAccepted)
	default:
		answer := func(request string) string {
			id := request[strings.Index(request, `"id":`)+5:]
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%q}`, id[:strings.Index(id, ",")], session)
		}
		if body[0] != '[' {
			_, _ = io.WriteString(w, answer(body))
			return
		}
		_, _ = io.WriteString(w, "["+answer(body)+"]")
	}
}

func (s *forgetful) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = "none"
}

// begun returns a bridge whose client has begun a session.
func (s *forgetful) begun(t *testing.T) *bridge {
	b := dial(t, s.serve)
	b.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`)
	b.want(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":1}}`)
	b.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":%q,"capabilities":{"tools":{},"logging":{}},"serverInfo":{"version":1}}}`, s.version))
	b.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if session := <-s.stream; session != s.named(1) {
		t.Errorf("the stream is of %s", session)
	}
	return b
}

// sorted reads n lines in any order.
func (b *bridge) sorted(n int) (lines []string) {
	b.Helper()
	for range n {
		line, err := b.lines.ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	slices.Sort(lines)
	return lines
}

// Calls that a server refuses at the same time, since it has forgotten their session, share
// another one, in which each is sent once. The client does not see its beginning.
func TestForgotten(t *testing.T) {
	const calls = 5
	for _, version := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
		for _, id := range []string{"s%d", "same%.0d"} {
			t.Run(version+" "+id, func(t *testing.T) {
				s := newForgetful(version)
				s.named = func(number int) string { return fmt.Sprintf(id, number) }
				b := s.begun(t)
				for round := 2; round < 4; round++ { // as often as it forgets
					s.mu.Lock()
					s.refused = new(sync.WaitGroup)
					s.refused.Add(calls)
					s.mu.Unlock()
					b.log = nil
					session := s.named(round)
					var want, log []string
					for i := range calls {
						b.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{}}`, 10*round+i))
						want = append(want, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%q}`, 10*round+i, session))
						log = append(log, "POST Bearer t "+s.named(round-1)+" "+version, "POST Bearer t "+session+" "+version)
					}
					want = append(want, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":%d}}`, round))
					if got := b.sorted(calls + 1); !slices.Equal(got, want) {
						t.Errorf("the client gets %q, want %q", got, want)
					}
					if got := <-s.stream; got != session {
						t.Errorf("the stream is of %s", got)
					}
					log = append(log, "POST Bearer t", "POST Bearer t "+session+" "+version, "GET Bearer t "+session+" "+version)
					slices.Sort(log)
					b.mu.Lock()
					slices.Sort(b.log)
					b.mu.Unlock()
					b.wantLog(log...)
				}
				if text := "URL: the server has forgotten its session (HTTP 404 Not Found), so the bridge began another one: what the server kept for the first one, such as subscriptions, is lost"; !slices.Equal(b.notices, []string{text, text}) {
					t.Errorf("the notices are %q", b.notices)
				}
			})
		}
	}
}

// Other messages than requests are sent again, too, unless they only make sense in the session
// that is lost.
func TestForgottenMessages(t *testing.T) {
	for line, want := range map[string]string{
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`:                                    `[{"jsonrpc":"2.0","id":1,"result":"s2"}]`,
		`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`:                 `{"jsonrpc":"2.0","id":9,"result":"s2"}`,
		`{"jsonrpc":"2.0","id":"of-server","result":{}}`:                                "the answer to request \"of-server\"",
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`: "notifications/cancelled",
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`:               "notifications/progress",
	} {
		s := newForgetful("2025-03-26")
		b := s.begun(t)
		s.forget()
		var sending sync.WaitGroup
		sending.Go(func() { b.send(line) })
		if want[0] == '[' || want[0] == '{' {
			b.want(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":2}}`)
			if sending.Wait(); want[0] == '{' {
				b.send(`{"jsonrpc":"2.0","id":9,"method":"ping"}`)
			}
			b.want(want)
			continue
		}
		sending.Wait()
		text := "URL: the server refused " + want + `: HTTP 404 Not Found: "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32001,\"message\":\"Session not found\"},\"id\":null}"`
		b.send(`{"jsonrpc":"2.0","id":9,"method":"ping"}`)
		b.want(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":2}}`, `{"jsonrpc":"2.0","id":9,"result":"s2"}`)
		if b.notices[0] != text {
			t.Errorf("%s: the notice is %q, want %q", line, b.notices[0], text)
		}
	}
}

// A call fails with the reason if no session can replace its own.
func TestForgottenForGood(t *testing.T) {
	const lost = `{"jsonrpc":"2.0","id":%d,"error":{"code":-32603,"message":"HTTP 404 Not Found: \"` + `{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"error\\\":{\\\"code\\\":-32001,\\\"message\\\":\\\"Session not found\\\"},\\\"id\\\":null}` + `\": the server has forgotten its session, and another could not begin: %s"}}`
	for name, tt := range map[string]struct {
		change   func(s *forgetful)
		want     string // for the first call
		begins   int    // how often initialize is sent for it, and for a second call
		survives bool   // the second call is answered
	}{
		"another version": {
			func(s *forgetful) { s.version = "2025-11-25" },
			fmt.Sprintf(lost, 1, "the server answered initialize with the version 2025-11-25, and other capabilities or another version than before (2025-06-18): restart the client"), 1, false,
		},
		"other capabilities": {
			func(s *forgetful) {
				s.begin = func(int) (string, int) { return `{"tools":{"listChanged":true},"logging":{}}`, 200 }
			},
			fmt.Sprintf(lost, 1, "the server answered initialize with the version 2025-06-18, and other capabilities or another version than before (2025-06-18): restart the client"), 1, false,
		},
		"a server that starts": {
			func(s *forgetful) {
				s.begin = func(int) (string, int) {
					s.begin = func(int) (string, int) { return `{"logging":{},"tools":{}}`, 200 }
					return "", 503
				}
			},
			fmt.Sprintf(lost, 1, `HTTP 503 Service Unavailable: \"not now\"`), 2, true,
		},
		"no such page": {
			func(s *forgetful) { s.begin = func(int) (string, int) { return "", 404 } },
			fmt.Sprintf(lost, 1, `HTTP 404 Not Found: \"not now\"`), 2, false,
		},
		"404 again": {
			func(s *forgetful) { s.deaf = true },
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"Session not found"}}`, 2, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newForgetful("2025-06-18")
			b := s.begun(t)
			s.forget()
			s.mu.Lock()
			tt.change(s)
			s.mu.Unlock()
			begins := b.posts("POST Bearer t")
			if got := b.call(1); got != tt.want {
				t.Errorf("the answer is %s\nwant %s", got, tt.want)
			}
			if got := b.call(2); strings.Contains(got, `"result"`) != tt.survives {
				t.Errorf("the second answer is %s", got)
			}
			if begins = b.posts("POST Bearer t") - begins; begins != tt.begins {
				t.Errorf("the bridge has begun %d sessions, want %d", begins, tt.begins)
			}
		})
	}
}

// posts counts the requests that were logged so.
func (b *bridge) posts(as string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.log {
		if line == as {
			n++
		}
	}
	return n
}

// call calls a tool, and returns the answer.
func (b *bridge) call(id int) string {
	b.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{}}`, id))
	for {
		if line := b.sorted(1)[0]; !strings.Contains(line, "notifications/message") {
			return line
		}
	}
}

// A 404 without a session, or in a version without sessions, is a failure as any other.
func TestNeverKnown(t *testing.T) {
	for name, tt := range map[string]struct{ first, line string }{
		"stateless":           {``, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`},
		"without a session":   {`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`},
		"without a handshake": {``, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			b := dial(t, func(w http.ResponseWriter, _ *http.Request, body string) {
				switch {
				case strings.Contains(body, `"initialize"`):
					_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18"}}`)
				case strings.Contains(body, `"id":2`):
					_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":2,"result":{}}`)
				default:
					http.NotFound(w, nil)
				}
			})
			if b.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`); tt.first != "" {
				b.send(tt.first)
				b.sorted(2)
			} else {
				b.want(`{"jsonrpc":"2.0","id":2,"result":{}}`)
			}
			requests := len(b.log)
			b.send(tt.line)
			b.want(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"HTTP 404 Not Found: \"404 page not found\""}}`)
			if len(b.log) != requests+1 {
				t.Errorf("the requests are %q", b.log)
			}
		})
	}
}
