// Package transporttest tries what every transport has to do: one suite of
// behaviour, run over each of them.
package transporttest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/transport"
)

// A Far is what the suite has at the other end of a connection.
type Far int

const (
	Echoes   Far = iota // gives back what it gets, and ends when that ends
	Answers             // gives back what it got once that has ended
	Endures             // takes what comes and says nothing
	Speaks              // says "bye" and ends its direction, then takes what still comes
	Vanishes            // ends at once
)

// A Transport is what the suite is run over.
type Transport struct {
	// Dial connects to a peer, and sees to it that both are gone after the test.
	Dial func(t *testing.T, peer Far) transport.Conn
	// OurEnd and TheirEnd say that the side that dials, and the other, can end its
	// direction alone.
	OurEnd, TheirEnd bool
}

// Run runs the suite over a transport.
func Run(t *testing.T, tr Transport) {
	for name, test := range map[string]func(*testing.T, Transport){
		"echo":                  testEcho,
		"our half-close":        testHalfCloseOurs,
		"their half-close":      testHalfCloseTheirs,
		"both directions":       testBothDirectionsAtOnce,
		"close while reading":   testCloseWhileReading,
		"the far side vanishes": testFarSideVanishes,
	} {
		t.Run(name, func(t *testing.T) { test(t, tr) })
	}
}

// Bounded is a context that ends long after any test should have.
func Bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Dial dials an endpoint for the length of a test.
func Dial(t *testing.T, words []string, opts transport.Options) transport.Conn {
	t.Helper()
	e, err := transport.Parse(words, opts)
	if err != nil {
		t.Fatal(err)
	}
	c, err := e.Dial(Bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Listen listens for the length of a test.
func Listen(t *testing.T, address string, opts transport.Options) transport.Listener {
	t.Helper()
	l, err := transport.Listen(Bounded(t), address, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// Behind returns a Dial to a listener of ours behind which the peer acts. If the
// listener makes a certificate, the dialler trusts that one. Either end is seen
// through wrap, unless that is nil.
func Behind(address string, opts transport.Options, wrap func(transport.Conn) transport.Conn) func(*testing.T, Far) transport.Conn {
	if wrap == nil {
		wrap = func(c transport.Conn) transport.Conn { return c }
	}
	return func(t *testing.T, peer Far) transport.Conn {
		t.Helper()
		theirs, ours := opts, opts
		theirs.Notice = func(text string) {
			_, ours.TLS.Pin, _ = strings.Cut(text, "--tls-pin ")
		}
		l := Listen(t, address, theirs)
		ended := make(chan error, 1)
		go func() {
			c, err := l.Accept(Bounded(t))
			if err == nil {
				c = wrap(c)
				err = Act(peer, c, c, c.CloseWrite)
				c.Close()
			}
			ended <- err
		}()
		t.Cleanup(func() {
			if err := <-ended; err != nil {
				t.Logf("the far side: %v", err)
			}
		})
		return wrap(Dial(t, []string{l.Addr()}, ours))
	}
}

func testEcho(t *testing.T, tr Transport) {
	c := tr.Dial(t, Echoes)
	for _, text := range []string{"a", "second", "\x00\xff\n"} {
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(text))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
			t.Fatalf("wrote %q and read %q, %v", text, got, err)
		}
	}
}

// What was said before the end still arrives, and the end arrives behind it.
func testHalfCloseOurs(t *testing.T, tr Transport) {
	c := tr.Dial(t, Answers)
	if _, err := c.Write([]byte("a question")); err != nil {
		t.Fatal(err)
	}
	err := c.CloseWrite()
	if !tr.OurEnd {
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
}

// The far side's end does not end our direction.
func testHalfCloseTheirs(t *testing.T, tr Transport) {
	if !tr.TheirEnd {
		t.Skip("the transport has no half-close")
	}
	c := tr.Dial(t, Speaks)
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
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
}

// A far side that sends back what it gets stops reading when nobody reads from
// it: the two directions must not wait for each other.
func testBothDirectionsAtOnce(t *testing.T, tr Transport) {
	const size = 8 << 20
	c := tr.Dial(t, Echoes)
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
}

func testCloseWhileReading(t *testing.T, tr Transport) {
	c := tr.Dial(t, Endures)
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
}

func testFarSideVanishes(t *testing.T, tr Transport) {
	c := tr.Dial(t, Vanishes)
	if got, err := io.ReadAll(c); len(got) > 0 || err != nil {
		t.Fatalf("read %q, %v", got, err)
	}
}

// Act is what a far side does with its end of a connection.
func Act(peer Far, in io.Reader, out io.Writer, endWrite func() error) error {
	switch peer {
	case Echoes:
		_, err := io.Copy(out, in)
		return errors.Join(err, endWrite())
	case Answers:
		b, err := io.ReadAll(in)
		_, werr := out.Write(b)
		return errors.Join(err, werr, endWrite())
	case Speaks:
		_, err := io.WriteString(out, "bye")
		err = errors.Join(err, endWrite())
		_, rerr := io.Copy(io.Discard, in)
		return errors.Join(err, rerr)
	case Endures:
		_, err := io.Copy(io.Discard, in)
		return err
	}
	return nil
}

// Framed returns a view of a connection that takes nothing but len32 frames: each
// Write is one, and Read yields what is in them.
func Framed(c transport.Conn) transport.Conn { return &framed{Conn: c} }

type framed struct {
	transport.Conn
	left int // of the frame that Read is in
}

func (f *framed) Write(p []byte) (int, error) {
	if _, err := f.Conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(p))), p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *framed) Read(p []byte) (int, error) {
	for f.left == 0 {
		var head [4]byte
		if _, err := io.ReadFull(f.Conn, head[:]); err != nil {
			return 0, err
		}
		f.left = int(binary.BigEndian.Uint32(head[:]))
	}
	n, err := f.Conn.Read(p[:min(len(p), f.left)])
	f.left -= n
	return n, err
}
