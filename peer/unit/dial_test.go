package unit_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/unit"
	"github.com/wirectl/wirectl/protocol/latis"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/transport"
)

// logged receives the log of a unit.
type logged chan string

func (l logged) Write(p []byte) (int, error) { l <- string(p); return len(p), nil }

func (l logged) await(t *testing.T, text string) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case line := <-l:
			if strings.Contains(line, text) {
				return
			}
		case <-timeout:
			t.Fatalf("the log never says %q", text)
		}
	}
}

// accept accepts the connection of a unit that dials.
func accept(t *testing.T, l net.Listener) *controller {
	t.Helper()
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return &controller{t: t, conn: nc.(*net.TCPConn), scanner: frame.NewScanner(nc, frame.Len32), tracker: session.New(latis.Protocol, session.Options{})}
}

// A unit and the controller that it dials may start in any order. If the connection breaks, the
// session continues.
func TestDial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close() // nothing listens yet
	e, err := transport.Parse([]string{"tcp://" + address}, transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log := make(logged, 100)
	u := unit.New(newHeld(), unit.Options{SessionTTL: time.Hour, Log: slog.New(slog.NewTextHandler(log, nil))})
	ended := make(chan error, 1)
	go func() { ended <- u.Dial(t.Context(), e) }()
	log.await(t, "nothing listens there")
	if l, err = net.Listen("tcp", address); err != nil {
		t.Skipf("the port was taken meanwhile: %v", err)
	}
	defer l.Close()

	c := accept(t, l)
	c.send(`{"id":"1","sessionCreate":{"metadata":{"name":"first"}}}`)
	id := strings.TrimPrefix(c.next(), "ACK 1 ")
	c.send(`{"id":"2","promptSend":{"content":"x"}}`)
	c.expect("RESPONSE_CHUNK 2 Looking...")
	if err := c.conn.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	c.conn.Close()
	log.await(t, "reconnecting")

	again := accept(t, l)
	again.send(`{"id":"1","sessionResume":{"sessionId":"`+id+`"}}`, `{"id":"2","sessionDestroy":{"sessionId":"`+id+`"}}`)
	again.expect("ACK 1 "+id, "ACK 2 "+id)
	again.behaves()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// nowhere is an endpoint that never accepts.
type nowhere struct{ tried int }

func (*nowhere) String() string { return "tcp://nowhere" }

func (n *nowhere) Dial(context.Context) (transport.Conn, error) {
	n.tried++
	return nil, syscall.ECONNREFUSED
}

// A unit retries less and less often until the controller listens or the context ends.
func TestDialWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n := &nowhere{}
		if err := unit.New(unit.Echo{}, unit.Options{}).Dial(ctx, n); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Error(err)
		}
		if n.tried < 10 || n.tried > 20 {
			t.Errorf("tried %d times in a minute", n.tried)
		}
	})
}

// once is an endpoint that can be reached a single time.
type once struct {
	nowhere
	conn transport.Conn
}

func (o *once) Dial(ctx context.Context) (transport.Conn, error) {
	if c := o.conn; c != nil {
		o.conn = nil
		return c, nil
	}
	return o.nowhere.Dial(ctx)
}

// A unit waits for a controller that has gone only if it has left a session, and only for the
// session's TTL.
func TestDialGivesUp(t *testing.T) {
	const session = "\x00\x00\x00\x05\x0a\x011\x72\x00" // the frame that creates it
	for _, tt := range []struct {
		name string
		conn breaking
		err  error
		want time.Duration
		log  string
	}{
		{"with a session", breaking{session, syscall.ECONNRESET}, syscall.ECONNREFUSED, 10 * time.Minute, "for=10m0s error=\"frame 2 at byte 9: connection reset"},
		{"with a session, and in order", breaking{session, io.EOF}, syscall.ECONNREFUSED, 10 * time.Minute, "for=10m0s\n"},
		{"without", breaking{"", syscall.ECONNRESET}, syscall.ECONNRESET, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				var log strings.Builder
				u := unit.New(unit.Echo{}, unit.Options{SessionTTL: 10 * time.Minute, Log: slog.New(slog.NewTextHandler(&log, nil))})
				if err := u.Dial(t.Context(), &once{conn: &tt.conn}); !errors.Is(err, tt.err) {
					t.Error(err)
				}
				if !strings.Contains(log.String(), tt.log) {
					t.Errorf("the log is %s, and has no %q", &log, tt.log)
				}
				if waited := time.Since(begun); waited != tt.want {
					t.Errorf("waited for %v", waited)
				}
			})
		})
	}
}

// breaking is a connection that ends with an error after its data.
type breaking struct {
	says string
	end  error
}

func (c *breaking) Read(p []byte) (int, error) {
	if c.says == "" {
		return 0, c.end
	}
	n := copy(p, c.says)
	c.says = c.says[n:]
	return n, nil
}

func (*breaking) Write(p []byte) (int, error) { return len(p), nil }
func (*breaking) CloseWrite() error           { return nil }
func (*breaking) Close() error                { return nil }
