package transport_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/transport"
)

// childRole has this test's own program act as a far side, so that the processes
// of the suite are real ones.
const childRole = "WIRECTL_TEST_FAR"

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		n, _ := strconv.Atoi(role)
		if err := act(far(n), os.Stdin, os.Stdout, os.Stdout.Close); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child is the command line of a program that acts as peer.
func child(peer far) []string {
	return []string{"--", "env", childRole + "=" + strconv.Itoa(int(peer)), "GORACE=atexit_sleep_ms=0", os.Args[0]}
}

func dialChild(t *testing.T, peer far) transport.Conn {
	return dial(t, child(peer), transport.Options{})
}

func dial(t *testing.T, words []string, opts transport.Options) transport.Conn {
	t.Helper()
	e, err := transport.Parse(words, opts)
	if err != nil {
		t.Fatal(err)
	}
	c, err := e.Dial(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// dialListener dials a listener of ours behind which peer acts.
func dialListener(address string) func(*testing.T, far) transport.Conn {
	return func(t *testing.T, peer far) transport.Conn {
		return dialFar(t, peer, address, transport.Options{}, &transport.Options{})
	}
}

// dialPinned does so over TLS, and trusts the certificate that the listener makes.
func dialPinned(address string) func(*testing.T, far) transport.Conn {
	return func(t *testing.T, peer far) transport.Conn {
		var theirs, ours transport.Options
		theirs.Notice = func(text string) {
			_, ours.TLS.Pin, _ = strings.Cut(text, "--tls-pin ")
		}
		return dialFar(t, peer, address, theirs, &ours)
	}
}

func dialFar(t *testing.T, peer far, address string, theirs transport.Options, ours *transport.Options) transport.Conn {
	t.Helper()
	l := listen(t, address, theirs)
	ended := make(chan error, 1)
	go func() {
		c, err := l.Accept(bounded(t))
		if err == nil {
			err = act(peer, c, c, c.CloseWrite)
			c.Close()
		}
		ended <- err
	}()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Logf("the far side: %v", err)
		}
	})
	return dial(t, []string{l.Addr()}, *ours)
}

func listen(t *testing.T, address string, opts transport.Options) transport.Listener {
	t.Helper()
	l, err := transport.Listen(bounded(t), address, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// dialStdio gives the endpoint stdio two pipes, behind which peer acts.
func dialStdio(t *testing.T, peer far) transport.Conn {
	ourIn, theirOut := pipe(t)
	theirIn, ourOut := pipe(t)
	c := dial(t, []string{"stdio"}, transport.Options{Stdin: ourIn, Stdout: ourOut})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = act(peer, theirIn, theirOut, theirOut.Close)
		_ = theirIn.SetReadDeadline(time.Unix(1, 0))
		theirOut.Close()
	}()
	t.Cleanup(func() {
		c.Close()
		<-ended
	})
	return c
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}
