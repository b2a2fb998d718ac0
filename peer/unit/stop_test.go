package unit_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
	quicgo "github.com/quic-go/quic-go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/unit"
	"github.com/wirectl/wirectl/transport"
	"github.com/wirectl/wirectl/transport/grpc"
	"github.com/wirectl/wirectl/transport/quic"
)

var schemes = slices.Concat(grpc.Schemes, quic.Schemes)

// stopped starts a unit at an address, sends it a prompt with ask, and stops the unit while it
// works on the prompt.
func stopped(t *testing.T, address string, ask func(address string) (read func() ([]byte, error))) func() ([]byte, error) {
	t.Helper()
	l, err := transport.Listen(t.Context(), address, transport.Options{Schemes: schemes, Notice: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	h := newHeld()
	ctx, stop := context.WithCancel(t.Context())
	listened := make(chan error, 1)
	go func() { listened <- unit.New(h, unit.Options{}).Listen(ctx, l) }()
	t.Cleanup(func() {
		if err := <-listened; err != nil {
			t.Error(err)
		}
	})
	read := ask(l.Addr())
	<-h.started
	stop()
	return read
}

// prompt is the frame of a prompt with the id 1.
const prompt = "\x00\x00\x00\x08\x0a\x011\x52\x03\x0a\x01x"

// When a unit is stopped, it sends an error for each open prompt, and then closes the
// connection as usual for the transport.
func TestStop(t *testing.T) {
	dialled := func(address string) func() ([]byte, error) {
		insecure := transport.TLS{Insecure: true}
		e, err := transport.Parse([]string{address}, transport.Options{Schemes: schemes, TLS: insecure, Subprotocols: []string{quic.GRPC}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := e.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_, _ = io.WriteString(c, prompt)
		return func() ([]byte, error) { return io.ReadAll(c) }
	}
	for _, address := range []string{"grpc://127.0.0.1:0", "quic://127.0.0.1:0"} {
		t.Run("grpc by "+address, func(t *testing.T) {
			all, err := stopped(t, address, dialled)()
			if s, told := status.FromError(err); !strings.Contains(string(all), "UNIT_STOPPED") || !told || s.Code() != codes.Unavailable {
				t.Errorf("read %q, %v", all, err)
			}
		})
	}
	t.Run("tcp", func(t *testing.T) {
		all, err := stopped(t, "tcp://127.0.0.1:0", dialled)()
		if err != nil || !strings.Contains(string(all), "UNIT_STOPPED") {
			t.Errorf("read %q, %v", all, err)
		}
		s := frame.NewScanner(strings.NewReader(string(all)), frame.Len32)
		n := 0
		for s.Scan() {
			n++
		}
		if s.Err() != nil || n != 2 {
			t.Errorf("%d frames, %v; want a part and an error", n, s.Err())
		}
	})
	t.Run("ws", func(t *testing.T) {
		read := stopped(t, "ws://127.0.0.1:0", func(address string) func() ([]byte, error) {
			c, _, err := websocket.Dial(t.Context(), address, nil) //nolint:bodyclose // there is none after an upgrade
			if err != nil {
				t.Fatal(err)
			}
			_ = c.Write(t.Context(), websocket.MessageBinary, []byte(prompt))
			return func() (all []byte, err error) {
				for err == nil {
					var m []byte
					_, m, err = c.Read(t.Context())
					all = append(all, m...)
				}
				return all, err
			}
		})
		all, err := read()
		if !strings.Contains(string(all), "UNIT_STOPPED") || websocket.CloseStatus(err) != websocket.StatusGoingAway {
			t.Errorf("read %q, %v", all, err)
		}
	})
	t.Run("quic", func(t *testing.T) {
		read := stopped(t, "quic://127.0.0.1:0", func(address string) func() ([]byte, error) {
			own := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{quic.Frames}} //nolint:gosec // it is this test's
			c, err := quicgo.DialAddr(t.Context(), strings.TrimPrefix(address, "quic://"), own, nil)
			if err != nil {
				t.Fatal(err)
			}
			s, err := c.OpenStreamSync(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(s, prompt)
			return func() ([]byte, error) {
				all, _ := io.ReadAll(s)
				<-c.Context().Done()
				return all, context.Cause(c.Context())
			}
		})
		all, err := read()
		var closed *quicgo.ApplicationError
		if !strings.Contains(string(all), "UNIT_STOPPED") || !errors.As(err, &closed) || !closed.Remote || closed.ErrorCode != 0 {
			t.Errorf("read %q, %v", all, err)
		}
	})
}

// A controller that does not read does not delay the end.
func TestStopUnread(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	ctx, stop := context.WithCancel(t.Context())
	working := make(chan struct{})
	u := unit.New(unit.AgentFunc(func(_ context.Context, _ *unit.Prompt, emit func(string) error) (map[string]string, error) {
		close(working)
		return nil, emit("nobody reads this")
	}), unit.Options{})
	served := make(chan error, 1)
	go func() { served <- u.Serve(ctx, pipe{theirs}) }()
	_, _ = io.WriteString(ours, prompt)
	<-working
	stop()
	if err := <-served; err == nil {
		t.Error("what was not read was served")
	}
}
