package transport_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wirectl/wirectl/transport"
)

// messengers returns both ends of a WebSocket.
func messengers(t *testing.T, ours, theirs transport.Options) (transport.Messenger, transport.Messenger) {
	t.Helper()
	l := listen(t, "ws://127.0.0.1:0", theirs)
	accepted := make(chan transport.Conn, 1)
	go func() {
		c, _ := l.Accept(bounded(t))
		accepted <- c
	}()
	a := dial(t, []string{l.Addr()}, ours).(transport.Messenger)
	b, ok := (<-accepted).(transport.Messenger)
	if !ok {
		t.Fatal("nothing was accepted")
	}
	t.Cleanup(func() { // each waits for the other
		go a.Close()
		b.Close()
		a.Close()
	})
	return a, b
}

// Messages keep their bounds and their kind, also empty ones.
func TestMessages(t *testing.T) {
	a, b := messengers(t, transport.Options{}, transport.Options{})
	sent := []transport.Message{
		{Text: true, Data: []byte("text")},
		{Data: []byte{0, 0xff}},
		{Text: true, Data: []byte{}},
		{Data: make([]byte, 100_000)},
	}
	go func() {
		for _, m := range sent {
			if err := a.WriteMessage(bounded(t), m); err != nil {
				t.Error(err)
			}
		}
	}()
	for _, want := range sent {
		got, err := b.ReadMessage(bounded(t))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// The stream view joins messages, and each Write is one.
func TestMessagesAsStream(t *testing.T) {
	a, b := messengers(t, transport.Options{}, transport.Options{})
	go func() {
		for _, text := range []string{"ab", "", "cde"} {
			_, _ = a.Write([]byte(text))
		}
		a.Close()
	}()
	got, err := io.ReadAll(b)
	if err != nil || string(got) != "abcde" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestMessageOverTheLimit(t *testing.T) {
	a, b := messengers(t, transport.Options{}, transport.Options{Limit: 10})
	go func() {
		_ = a.WriteMessage(context.WithoutCancel(t.Context()), transport.Message{Data: make([]byte, 11)})
	}()
	if _, err := b.ReadMessage(bounded(t)); err == nil || err == io.EOF {
		t.Errorf("read a message over the limit: %v", err)
	}
}

// A client's subprotocols and headers reach a server that is not of our making.
func TestHandshake(t *testing.T) {
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		http.Error(w, "no", http.StatusTeapot)
	}))
	defer server.Close()
	address := "ws" + strings.TrimPrefix(server.URL, "http") + "/here"
	err := tryDial(t, bounded(t), address, transport.Options{
		Subprotocols: []string{"latis", "other"},
		Header:       http.Header{"Authorization": {"Bearer x"}},
	})
	want := address + `: the server answered "418 I'm a teapot" instead of switching to WebSocket: check the path`
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if got.Get("Sec-WebSocket-Protocol") != "latis,other" || got.Get("Authorization") != "Bearer x" {
		t.Errorf("the request had %v", got)
	}
}

// A handshake is not taken elsewhere, and its headers are not.
func TestHandshakeRedirected(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another server was asked") }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	err := tryDial(t, bounded(t), "ws"+strings.TrimPrefix(server.URL, "http"), transport.Options{Header: http.Header{"X-Api-Key": {"x"}}})
	if err == nil || !strings.Contains(err.Error(), "307 Temporary Redirect") {
		t.Errorf("the error is %v", err)
	}
}

// A listener with a path serves no other, and pages of other hosts get nowhere.
func TestListenerRefuses(t *testing.T) {
	l := listen(t, "ws://127.0.0.1:0/agent", transport.Options{})
	other := strings.Replace(l.Addr(), "/agent", "/other", 1)
	if err := tryDial(t, bounded(t), other, transport.Options{}); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("another path: %v", err)
	}
	page := transport.Options{Header: http.Header{"Origin": {"https://elsewhere.example"}}}
	if err := tryDial(t, bounded(t), l.Addr(), page); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a page of another host: %v", err)
	}
}

// A page of another site, whose name was made to lead here, says that name in both
// Host and Origin. It gets in only where other machines may, too.
func TestForeignHost(t *testing.T) {
	for _, remote := range []bool{false, true} {
		l := listen(t, "ws://127.0.0.1:0", transport.Options{Remote: remote})
		for host, is := range map[string]bool{"evil.example:1": remote, "localhost:1": true, "[::1]:1": true} {
			want := http.StatusForbidden
			if is {
				want = http.StatusSwitchingProtocols
			}
			if got := upgrade(t, "http"+strings.TrimPrefix(l.Addr(), "ws"), host); got != want {
				t.Errorf("remote %t: %s gets %d, want %d", remote, host, got, want)
			}
		}
	}
}

// upgrade asks for a WebSocket as a page of that host does, and returns the status.
func upgrade(t *testing.T, url, host string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(bounded(t), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	req.Header = http.Header{
		"Origin": {"http://" + host}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"},
		"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
	}
	client := http.Transport{DisableKeepAlives: true}
	resp, err := client.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}
