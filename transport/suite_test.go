package transport_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/wirectl/wirectl/transport"
)

// A far is what the suite has at the other end of a connection.
type far int

const (
	echoes   far = iota // gives back what it gets, and ends when that ends
	answers             // gives back what it got once that has ended
	endures             // takes what comes and says nothing
	speaks              // says "bye" and ends its direction, then counts what it still gets
	vanishes            // ends at once
)

// A transportCase is one transport, tried against every far side.
type transportCase struct {
	name      string
	dial      func(t *testing.T, peer far) transport.Conn
	halfClose bool
}

var cases = []transportCase{
	{"exec", dialChild, true},
	{"tcp", dialListener("tcp://127.0.0.1:0"), true},
	{"unix", func(t *testing.T, peer far) transport.Conn {
		return dialListener("unix://"+filepath.Join(t.TempDir(), "s"))(t, peer)
	}, true},
	{"stdio", dialStdio, true},
	{"tls", dialPinned("tls://127.0.0.1:0"), true},
	{"ws", dialListener("ws://127.0.0.1:0/agent"), false},
	{"wss", dialPinned("wss://localhost:0"), false},
}

// everywhere runs a test of behaviour over every transport.
func everywhere(t *testing.T, test func(t *testing.T, tc transportCase)) {
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) { test(t, tc) })
	}
}

// bounded is a context that ends long after any test should have.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestEcho(t *testing.T) {
	everywhere(t, func(t *testing.T, tc transportCase) {
		c := tc.dial(t, echoes)
		for _, text := range []string{"a", "second", "\x00\xff\n"} {
			if _, err := c.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(text))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
				t.Fatalf("wrote %q and read %q, %v", text, got, err)
			}
		}
	})
}

// What was said before the end still arrives, and the end arrives behind it.
func TestHalfCloseOurs(t *testing.T) {
	everywhere(t, func(t *testing.T, tc transportCase) {
		c := tc.dial(t, answers)
		if _, err := c.Write([]byte("a question")); err != nil {
			t.Fatal(err)
		}
		err := c.CloseWrite()
		if !tc.halfClose {
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Fatalf("CloseWrite says %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(c); err != nil || string(got) != "a question" {
			t.Fatalf("read %q, %v", got, err)
		}
	})
}

// The far side's end does not end our direction.
func TestHalfCloseTheirs(t *testing.T) {
	everywhere(t, func(t *testing.T, tc transportCase) {
		if !tc.halfClose {
			t.Skip("the transport has no half-close")
		}
		c := tc.dial(t, speaks)
		if got, err := io.ReadAll(c); err != nil || string(got) != "bye" {
			t.Fatalf("read %q, %v", got, err)
		}
		for range 3 {
			if _, err := c.Write([]byte("still here")); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
	})
}

// A far side that sends back what it gets stops reading when nobody reads from
// it: the two directions must not wait for each other.
func TestBothDirectionsAtOnce(t *testing.T) {
	const size = 8 << 20
	everywhere(t, func(t *testing.T, tc transportCase) {
		c := tc.dial(t, echoes)
		sent := make([]byte, size)
		random := rand.NewChaCha8([32]byte{1})
		_, _ = random.Read(sent)
		wrote := make(chan error, 1)
		go func() {
			_, err := c.Write(sent)
			wrote <- err
		}()
		got := make([]byte, size)
		if _, err := io.ReadFull(c, got); err != nil {
			t.Fatal(err)
		}
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(sent, got) {
			t.Fatal("other bytes came back")
		}
	})
}

func TestCloseWhileReading(t *testing.T) {
	everywhere(t, func(t *testing.T, tc transportCase) {
		c := tc.dial(t, endures)
		read := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			read <- err
		}()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-read; err == nil {
			t.Fatal("a read from a closed connection succeeded")
		}
		if err := c.Close(); err != nil {
			t.Fatalf("closed again: %v", err)
		}
	})
}

func TestFarSideVanishes(t *testing.T) {
	everywhere(t, func(t *testing.T, tc transportCase) {
		c := tc.dial(t, vanishes)
		if got, err := io.ReadAll(c); len(got) > 0 || err != nil {
			t.Fatalf("read %q, %v", got, err)
		}
	})
}

// act is what a far side does with its end of a connection.
func act(peer far, in io.Reader, out io.Writer, endWrite func() error) error {
	switch peer {
	case echoes:
		_, err := io.Copy(out, in)
		return errors.Join(err, endWrite())
	case answers:
		b, err := io.ReadAll(in)
		_, werr := out.Write(b)
		return errors.Join(err, werr, endWrite())
	case speaks:
		_, err := io.WriteString(out, "bye")
		err = errors.Join(err, endWrite())
		_, rerr := io.Copy(io.Discard, in)
		return errors.Join(err, rerr)
	case endures:
		_, err := io.Copy(io.Discard, in)
		return err
	}
	return nil
}
