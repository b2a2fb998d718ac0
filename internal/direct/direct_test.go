package direct_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/internal/direct"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair returns the ends of a connection, the first of them a direct one.
func pair(t *testing.T) (*direct.Conn, net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	a, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return direct.Over(a), b
}

// What is written arrives, whatever its size, and waits for a reader that is slow;
// the end of a stream is one.
func TestConn(t *testing.T) {
	for name, ends := range map[string]func() (*direct.Conn, net.Conn){
		"socket": func() (*direct.Conn, net.Conn) { return pair(t) },
		"pipe":   func() (*direct.Conn, net.Conn) { a, b := net.Pipe(); return direct.Over(a), b },
	} {
		c, peer := ends()
		echoed := make(chan struct{})
		go func() {
			_, _ = io.Copy(peer, peer) // which of the two closes first is a matter of luck
			peer.Close()
			close(echoed)
		}()
		for _, size := range []int{1, 60_000, 5_000_000} {
			sent := bytes.Repeat([]byte("direct "), size/7+1)
			wrote := make(chan error, 1)
			go func() {
				for rest := sent; len(rest) > 0; {
					n, err := c.Write(rest[:min(len(rest), 60_000)])
					if rest = rest[n:]; err != nil {
						wrote <- err
						return
					}
				}
				wrote <- nil
			}()
			got := make([]byte, len(sent))
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) || <-wrote != nil {
				t.Errorf("%s, %d bytes: they came otherwise, %v", name, size, err)
			}
		}
		if n, err := c.Write(nil); n != 0 || err != nil {
			t.Errorf("%s: to write nothing is %d, %v", name, n, err)
		}
		if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
			if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("%s: the end is %d, %v", name, n, err)
			}
		}
		c.Close()
		<-echoed
	}
}

// Failures are those of the connection below: deadlines, a reset, a close.
func TestFailures(t *testing.T) {
	c, peer := pair(t)
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a deadline: %v", err)
	}
	_ = c.SetReadDeadline(time.Time{})
	_ = c.SetWriteDeadline(time.Now().Add(time.Millisecond))
	full := make([]byte, 60_000)
	var err error
	for err == nil {
		_, err = c.Write(full)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a deadline of writing: %v", err)
	}
	_ = peer.(*net.TCPConn).SetLinger(0)
	peer.Close()
	_ = c.SetWriteDeadline(time.Time{})
	var op *net.OpError
	if _, err := c.Read(full); !errors.As(err, &op) || op.Timeout() {
		t.Errorf("a reset: %v", err)
	}
	if _, err := c.Write(full); !errors.As(err, &op) || op.Timeout() {
		t.Errorf("a reset, to a writer: %v", err)
	}
	c.Close()
	if _, err := c.Read(full); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a close: %v", err)
	}
	if _, err := c.Write(full); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a close, to a writer: %v", err)
	}
}

// To read and to write takes no memory.
func TestNoMemory(t *testing.T) {
	c, peer := pair(t)
	p := make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		_, _ = c.Write(p)
		_, _ = peer.Read(p)
		_, _ = peer.Write(p)
		_, _ = c.Read(p)
	}); n > 0 {
		t.Errorf("it takes %v pieces", n)
	}
}

// A file reads as it does without.
func TestFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	want := bytes.Repeat([]byte("direct "), 10_000)
	if err := os.WriteFile(name, want, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := iotest.TestReader(direct.OverFile(f), want); err != nil {
		t.Error(err)
	}
	if _, err := f.Seek(7, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(direct.OverFile(f)); !bytes.Equal(got, want[7:]) || err != nil {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
}

// What goes wrong is told as that of a file is.
func TestFileErrors(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := direct.OverFile(dir)
	for _, when := range []string{"a folder", "closed"} {
		_, got := d.Read(make([]byte, 1))
		_, want := dir.Read(make([]byte, 1))
		if got == nil || want == nil || got.Error() != want.Error() {
			t.Errorf("%s: %v, not %v", when, got, want)
		}
		dir.Close()
	}
}
