package upstream_test

import (
	"errors"
	"net"
	"net/http"
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
