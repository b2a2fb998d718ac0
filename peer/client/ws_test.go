package client_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/peer/client"
	"github.com/wirectl/wirectl/transport"
)

// Over WebSocket each message is one text message, without a line's end. One that
// comes with an end of line, or in a binary message, is understood, too.
func TestACPOverWebSocket(t *testing.T) {
	l, err := transport.Listen(t.Context(), "ws://127.0.0.1:0", transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		nc, err := l.Accept(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		peer := nc.(transport.Messenger)
		for _, say := range []struct {
			want    string
			answers []transport.Message
		}{
			{`"method":"initialize"`, []transport.Message{{Text: true, Data: []byte(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}`)}}},
			{`"method":"session/new"`, []transport.Message{{Data: []byte(`{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}` + "\n")}}},
			{`"method":"session/prompt"`, []transport.Message{
				{Text: true, Data: []byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hello"}}}}`)},
				{Text: true, Data: []byte(`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`)},
			}},
		} {
			m, err := peer.ReadMessage(t.Context())
			if err != nil || !m.Text || !strings.Contains(string(m.Data), say.want) || strings.Contains(string(m.Data), "\n") {
				t.Errorf("got %q, %v, want %s", m.Data, err, say.want)
				return
			}
			for _, answer := range say.answers {
				if err := peer.WriteMessage(t.Context(), answer); err != nil {
					t.Error(err)
				}
			}
		}
		if m, err := peer.ReadMessage(t.Context()); err != io.EOF {
			t.Errorf("then came %q, %v", m.Data, err)
		}
	}()
	e, err := transport.Parse([]string{l.Addr()}, transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := e.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := client.NewWatch(client.ACP.Protocol, nil)
	r, err := client.DialRPC(t.Context(), nc, client.ACP, w, client.RPCOptions{Version: "v", Dir: "/a b"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.NewSession(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got heard
	if err := r.Prompt("hi")(t.Context(), got.part); err != nil || strings.Join(got.text, "") != "hello" {
		t.Errorf("heard %q, %v", got, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	<-served
	if peer, own := w.Findings(); len(peer)+len(own) > 0 {
		t.Errorf("found %v and %v", peer, own)
	}
}

// An event is no longer than any other answer may be, in one line or in many.
func TestLongEvent(t *testing.T) {
	const mebi = 1 << 20
	for name, body := range map[string]string{
		"a line":     "data: " + strings.Repeat("x", 17*mebi) + "\n\n",
		"many lines": strings.Repeat("data: "+strings.Repeat("x", mebi)+"\n", 17) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, body)
			}))
			defer s.Close()
			w := client.NewWatch(client.Plain.Protocol, nil)
			r, err := client.DialHTTP(t.Context(), s.URL, client.Plain, w, client.RPCOptions{}, client.HTTPOptions{Client: s.Client()})
			if err != nil {
				t.Fatal(err)
			}
			err = r.Call("m", nil)(t.Context(), func(client.Part) {})
			if want := "the peer broke its protocol: an event is over the limit of 16777216 bytes"; err == nil || err.Error() != want {
				t.Errorf("the error is %.200v", err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// older is a server of MCP that takes no post at its URL, where a GET yields the events
// that bring all answers, and first the endpoint to post to; "" for none.
func older(endpoint string, log *[]string) *httptest.Server {
	events := make(chan string, 10)
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*log = append(*log, r.Method+" "+r.URL.String())
		switch {
		case r.Method == http.MethodPost && r.URL.Path == "/messages":
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, "Accepted")
			switch {
			case strings.Contains(string(body), `"id":1`):
				events <- `{"jsonrpc":"2.0","id":1,"result":{}}`
			case strings.Contains(string(body), `"id":2`):
				events <- `{"jsonrpc":"2.0","id":2,"result":{"ok":true}}`
			}
		case r.Method == http.MethodGet && endpoint != "":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "event: endpoint\r\ndata: "+endpoint+"\r\n\r\n")
			for {
				w.(http.Flusher).Flush()
				select {
				case data := <-events:
					_, _ = io.WriteString(w, "event: message\ndata: "+data+"\n\n")
				case <-r.Context().Done():
					return
				}
			}
		default:
			http.Error(w, "no post here", http.StatusMethodNotAllowed)
		}
	}))
}

// A client of an older server of MCP posts where the server says, and nowhere else.
func TestOlderHTTP(t *testing.T) {
	for _, tt := range []struct{ endpoint, err string }{
		{"/messages?sessionId=1", ""},
		{"http://example.org/messages", "the peer broke its protocol: the server says to post to http://example.org/messages, which is another server"},
		{"", "HTTP 405 Method Not Allowed: no post here"},
	} {
		var log []string
		s := older(tt.endpoint, &log)
		r, err := client.DialHTTP(t.Context(), s.URL+"/sse", client.MCP, client.NewWatch(client.MCP.Protocol, nil), client.RPCOptions{Version: "v"}, client.HTTPOptions{Client: s.Client()})
		if err == nil {
			var got heard
			if err := r.Call("tools/list", nil)(t.Context(), got.part); err != nil || !slices.Equal(got.text, []string{`{"ok":true}`}) {
				t.Errorf("heard %q, %v", got, err)
			}
			err = r.Close()
		}
		s.Close()
		if (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%q: the error is %v, want %s", tt.endpoint, err, tt.err)
		}
		if want := []string{"POST /sse", "GET /sse", "POST /messages?sessionId=1", "POST /messages?sessionId=1", "POST /messages?sessionId=1"}; tt.err == "" && !slices.Equal(log, want) {
			t.Errorf("the requests are %q, want %q", log, want)
		}
	}
}

// Keys do not follow a redirect to another server.
func TestRedirect(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another server was asked") }))
	defer other.Close()
	s := httptest.NewServer(http.RedirectHandler(other.URL+"/mcp", http.StatusTemporaryRedirect))
	defer s.Close()
	o := client.HTTPOptions{Client: s.Client(), Header: http.Header{"X-Api-Key": {"secret"}}}
	_, err := client.DialHTTP(t.Context(), s.URL, client.MCP, client.NewWatch(client.MCP.Protocol, nil), client.RPCOptions{Version: "v"}, o)
	if err == nil || !strings.Contains(err.Error(), "it redirects to another server, "+other.URL+"/mcp") {
		t.Errorf("the error is %v", err)
	}
}
