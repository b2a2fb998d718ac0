package transport_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/test/kit/transporttest"
	"github.com/wirectl/wirectl/transport"
)

// One suite runs over everything that can run offline, with real processes and
// real sockets.
func TestBehaviour(t *testing.T) {
	for name, tr := range map[string]transporttest.Transport{
		"exec":  {Dial: dialChild, OurEnd: true, TheirEnd: true},
		"stdio": {Dial: dialStdio, OurEnd: true, TheirEnd: true},
		"tcp":   {Dial: behind("tcp://127.0.0.1:0"), OurEnd: true, TheirEnd: true},
		"tls":   {Dial: behind("tls://127.0.0.1:0"), OurEnd: true, TheirEnd: true},
		"unix": {Dial: func(t *testing.T, peer transporttest.Far) transport.Conn {
			return behind("unix://"+filepath.Join(t.TempDir(), "s"))(t, peer)
		}, OurEnd: true, TheirEnd: true},
		"ws":  {Dial: behind("ws://127.0.0.1:0/agent")},
		"wss": {Dial: behind("wss://localhost:0")},
	} {
		t.Run(name, func(t *testing.T) { transporttest.Run(t, tr) })
	}
}

func behind(address string) func(*testing.T, transporttest.Far) transport.Conn {
	return transporttest.Behind(address, transport.Options{}, nil)
}

// childRole has this test's own program act as a far side, so that the processes
// of the suite are real ones.
const childRole = "WIRECTL_TEST_FAR"

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		n, _ := strconv.Atoi(role)
		if err := transporttest.Act(transporttest.Far(n), os.Stdin, os.Stdout, os.Stdout.Close); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child is the command line of a program that acts as peer.
func child(peer transporttest.Far) []string {
	return []string{"--", "env", childRole + "=" + strconv.Itoa(int(peer)), "GORACE=atexit_sleep_ms=0", os.Args[0]}
}

func dialChild(t *testing.T, peer transporttest.Far) transport.Conn {
	return dial(t, child(peer), transport.Options{})
}

// dialStdio gives the endpoint stdio two pipes, behind which peer acts.
func dialStdio(t *testing.T, peer transporttest.Far) transport.Conn {
	ourIn, theirOut := pipe(t)
	theirIn, ourOut := pipe(t)
	c := dial(t, []string{"stdio"}, transport.Options{Stdin: ourIn, Stdout: ourOut})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = transporttest.Act(peer, theirIn, theirOut, theirOut.Close)
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

var (
	bounded = transporttest.Bounded
	dial    = transporttest.Dial
	listen  = transporttest.Listen
)
