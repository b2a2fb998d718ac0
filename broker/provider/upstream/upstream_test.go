package upstream_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/broker/provider/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// timesOut fails unless connecting to the backend takes too long.
func timesOut(t *testing.T, url string) {
	t.Helper()
	c := upstream.New(url, http.Header{}, 50*time.Millisecond)
	defer c.CloseIdleConnections()
	_, err := c.Post(t.Context(), "/", []byte("{}"), &provider.Request{}) //nolint:bodyclose // there is none
	var pe *provider.Error
	if !errors.As(err, &pe) || pe.Cause != provider.TimedOut || !pe.Again() {
		t.Errorf("%s: %v", url, err)
	}
}

// A backend whose TLS never begins is given up when the time to connect is up,
// and the call may be made elsewhere.
func TestConnectTimeout(t *testing.T) {
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	timesOut(t, "https://"+ln.Addr().String())
}

// A backend that is not there is a failure of its own kind.
func TestUnreachable(t *testing.T) {
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	_, err = upstream.New("http://"+ln.Addr().String(), http.Header{}, 0).Post(t.Context(), "/", nil, &provider.Request{}) //nolint:bodyclose // there is none
	var pe *provider.Error
	if !errors.As(err, &pe) || pe.Cause != provider.Unreachable {
		t.Error(err)
	}
}

// seen is what those who look on are told of an answer.
type seen struct{ answer, events string }

func (s *seen) Sent(string, []byte)              {}
func (s *seen) Received(status int, body []byte) { s.answer += fmt.Sprint(status, " ", string(body)) }
func (s *seen) Event(_ int, data []byte)         { s.events += string(data) }
func (s *seen) Ended(error)                      {}

// What answers the request for a stream and is none is seen as it came.
func TestNoStream(t *testing.T) {
	for answer, want := range map[string]seen{
		"<html>\n\n":             {answer: "200 <html>\n\n"},
		"{\n\"error\": \"x\"}\n": {answer: "200 {\n\"error\": \"x\"}\n"},
		"data: x\n\n":            {events: "x"},
	} {
		backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
		c := upstream.New(backend.URL, http.Header{}, 0)
		var got seen
		r := &provider.Request{Exchange: &got}
		resp, err := c.Post(t.Context(), "/", []byte("{}"), r) //nolint:bodyclose // Events closes it
		if err != nil {
			t.Fatal(err)
		}
		err = upstream.Events(t.Context(), resp, r, func([]byte) (bool, error) { return false, nil })
		var pe *provider.Error
		if got != want || !errors.As(err, &pe) || (pe.Cause == provider.Overloaded) != (got.events == "") {
			t.Errorf("%q: seen %q, %v", answer, got, err)
		}
		c.CloseIdleConnections()
		backend.Close()
	}
}
