package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/transport"
)

// sockets returns the two ends of a WebSocket.
func sockets(t *testing.T) (near, far transport.Messenger) {
	t.Helper()
	ctx := t.Context()
	l, err := transport.Listen(ctx, "ws://127.0.0.1:0", transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	e, err := transport.Parse([]string{l.Addr()}, transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan transport.Conn, 1)
	go func() {
		c, _ := l.Accept(ctx)
		accepted <- c
	}()
	c, err := e.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s := <-accepted
	t.Cleanup(func() { c.Close(); s.Close() })
	return c.(transport.Messenger), s.(transport.Messenger)
}

// plain returns the two ends of a WebSocket; the far one has the library's type.
func plain(t *testing.T) (near transport.Conn, far *websocket.Conn) {
	t.Helper()
	l, err := transport.Listen(t.Context(), "ws://127.0.0.1:0", transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	far, _, err = websocket.Dial(t.Context(), l.Addr(), nil) //nolint:bodyclose // the library has read what there is of it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.CloseNow() })
	if near, err = l.Accept(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	return near, far
}

// run runs a relay until the test ends, and waits for it then.
func run(t *testing.T, cfg relay.Config) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = relay.Run(ctx, cfg)
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// A message stays one message, text stays text, and each is recorded as a frame.
func TestMessages(t *testing.T) {
	t.Parallel()
	controller, near := sockets(t)
	unit, far := sockets(t)
	var m memory
	run(t, relay.Config{Controller: near, Unit: far, Sink: m.sink()})
	for _, want := range []transport.Message{
		{Text: true, Data: []byte(`{"kind":"Request","control":{"run_id":"r","mode":"mock"},"inputs":{},"outputs":{}}`)},
		{Data: []byte{0, 255}},
		{Data: bytes.Repeat([]byte("long "), 1<<18)},
	} {
		if err := controller.WriteMessage(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		got, err := unit.ReadMessage(t.Context())
		if err != nil || got.Text != want.Text || !bytes.Equal(got.Data, want.Data) {
			t.Fatalf("%d bytes, text %v, %v; want %d, %v", len(got.Data), got.Text, err, len(want.Data), want.Text)
		}
	}
	await(t, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.records) == 4
	})
}

// A close code on one WebSocket is passed to the other. A peer that decides by the code whether
// to reconnect decides as without a relay.
func TestGoodbye(t *testing.T) {
	for _, said := range []websocket.CloseError{
		{Code: websocket.StatusNormalClosure, Reason: "done"},
		{Code: websocket.StatusGoingAway, Reason: "a new version comes"},
		{Code: websocket.StatusNoStatusRcvd},
		{Code: websocket.StatusInternalError, Reason: "out of disk"},
		{Code: 4003, Reason: "log in again"},
	} {
		for _, fromUnit := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d from the unit %t", said.Code, fromUnit), func(t *testing.T) {
				near, leaves := plain(t)
				far, hears := plain(t)
				cfg := relay.Config{Controller: near, Unit: far}
				if fromUnit {
					cfg.Controller, cfg.Unit = far, near
				}
				run(t, cfg)
				go func() { _ = leaves.Close(said.Code, said.Reason) }()
				var heard websocket.CloseError
				if _, _, err := hears.Read(t.Context()); !errors.As(err, &heard) || heard != said {
					t.Errorf("heard %v, want %v", err, said)
				}
			})
		}
	}
}

// Between a stream and messages, payloads are moved: each frame becomes a message.
func TestUnlike(t *testing.T) {
	t.Parallel()
	controller, near := sockets(t)
	unit, far := pair(t)
	var m memory
	run(t, relay.Config{Controller: near, Unit: far, Framing: frame.Line, Sink: m.sink()})
	if err := controller.WriteMessage(t.Context(), transport.Message{Text: true, Data: []byte(`{"a":1}`)}); err != nil {
		t.Fatal(err)
	}
	hear(t, unit, `{"a":1}`+"\n")
	say(t, unit, `{"b":`)
	say(t, unit, "2}\n")
	got, err := controller.ReadMessage(t.Context())
	if err != nil || string(got.Data) != `{"b":2}` || !got.Text {
		t.Fatalf("%q, text %v, %v", got.Data, got.Text, err)
	}
}

// The messages of Latis hold whole frames.
func TestUnlikeLatis(t *testing.T) {
	t.Parallel()
	controller, near := sockets(t)
	unit, far := pair(t)
	run(t, relay.Config{Controller: near, Unit: far, Framing: frame.Len32})
	const get = "\x00\x00\x00\x05\x0a\x012\x62\x00"
	if err := controller.WriteMessage(t.Context(), transport.Message{Data: []byte(get)}); err != nil {
		t.Fatal(err)
	}
	hear(t, unit, get)
	say(t, unit, get)
	got, err := controller.ReadMessage(t.Context())
	if err != nil || string(got.Data) != get || got.Text {
		t.Fatalf("%q, text %v, %v", got.Data, got.Text, err)
	}
}

// Each message is a frame, even if the configured framing would split it differently.
func TestMessagesNamed(t *testing.T) {
	t.Parallel()
	controller, near := sockets(t)
	unit, far := sockets(t)
	var m memory
	run(t, relay.Config{Controller: near, Unit: far, Framing: frame.Line, Sink: m.sink()})
	for _, text := range []string{"{\"a\":\n1}", `{"b":2}`} {
		if err := controller.WriteMessage(t.Context(), transport.Message{Text: true, Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
		if got, err := unit.ReadMessage(t.Context()); err != nil || string(got.Data) != text {
			t.Fatalf("%q, %v", got.Data, err)
		}
	}
	await(t, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.records) == 3 // including that of the beginning
	})
}

// A gate changes messages like frames, whichever of the ends use messages.
func TestMessagesGated(t *testing.T) {
	t.Parallel()
	twice := func() *relay.Gate { return relay.NewGate(relay.GateConfig{Faults: plan(t, "duplicate when id==2")}) }
	const one, two = `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	write := func(t *testing.T, c transport.Messenger) {
		for _, text := range []string{one, two} {
			if err := c.WriteMessage(t.Context(), transport.Message{Text: true, Data: []byte(text)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	read := func(t *testing.T, c transport.Messenger) {
		for _, want := range []string{one, two, two} {
			got, err := c.ReadMessage(t.Context())
			if err != nil || !got.Text || string(got.Data) != want {
				t.Fatalf("%q, text %v, %v; want %q", got.Data, got.Text, err, want)
			}
		}
	}
	t.Run("both", func(t *testing.T) {
		t.Parallel()
		controller, near := sockets(t)
		unit, far := sockets(t)
		run(t, relay.Config{Controller: near, Unit: far, Framing: frame.Line, Gate: twice()})
		write(t, controller)
		read(t, unit)
		write(t, unit)
		read(t, controller)
	})
	t.Run("one", func(t *testing.T) {
		t.Parallel()
		controller, near := sockets(t)
		unit, far := pair(t)
		run(t, relay.Config{Controller: near, Unit: far, Framing: frame.Line, Gate: twice()})
		write(t, controller)
		hear(t, unit, one+"\n"+two+"\n"+two+"\n")
		say(t, unit, one+"\n"+two+"\n")
		read(t, controller)
	})
	t.Run("unnamed", func(t *testing.T) {
		t.Parallel()
		_, near := sockets(t)
		_, far := sockets(t)
		_, err := relay.Run(t.Context(), relay.Config{Controller: near, Unit: far, Gate: twice()})
		if !errors.Is(err, relay.ErrNoFramingToGate) {
			t.Error(err)
		}
	})
}

// A WebSocket cannot be told that the other side has ended, and may still have answers. It is
// closed after the grace period.
func TestUnlikeEnds(t *testing.T) {
	controller, near := pair(t)
	unit, far := sockets(t)
	run(t, relay.Config{Controller: near, Unit: far, Framing: frame.Line, Grace: 50 * time.Millisecond})
	say(t, controller, "ask\nlast")
	if err := controller.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ask", "last"} {
		if got, err := unit.ReadMessage(t.Context()); err != nil || string(got.Data) != want {
			t.Fatalf("%q, %v", got.Data, err)
		}
	}
	if _, err := unit.ReadMessage(t.Context()); err != io.EOF {
		t.Errorf("it is closed with %v", err)
	}
}

// Without a framing, the ends of messages in a stream are unknown.
func TestUnlikeRefused(t *testing.T) {
	t.Parallel()
	_, near := sockets(t)
	_, far := pair(t)
	if _, err := relay.Run(t.Context(), relay.Config{Controller: near, Unit: far}); !errors.Is(err, relay.ErrNoFraming) {
		t.Error(err)
	}
}

// If a stream breaks its framing, the WebSocket on the other side is closed with 1002. If a
// message does not fit the framing, its own WebSocket is closed with 1007.
func TestFramingFaults(t *testing.T) {
	for _, ofUnit := range []bool{false, true} {
		for _, test := range []struct {
			code    websocket.StatusCode
			framing frame.Framing
			stream  string // what the stream sends before it ends
			message string // what the WebSocket sends
		}{
			{websocket.StatusProtocolError, frame.Len32, "\x00\x00\x00\x09cut", ""},
			{websocket.StatusProtocolError, frame.Header, "Content-Length: 9\r\n\r\ncut", ""},
			{websocket.StatusInvalidFramePayloadData, frame.Line, "", "two\nlines"},
		} {
			t.Run(fmt.Sprintf("%d by %s, of the unit %t", test.code, test.framing.Name(), ofUnit), func(t *testing.T) {
				near, socket := plain(t)
				stream, far := pair(t)
				cfg := relay.Config{Controller: near, Unit: far, Framing: test.framing, Grace: time.Minute}
				if ofUnit {
					cfg.Controller, cfg.Unit = far, near
				}
				run(t, cfg)
				if test.message != "" {
					if err := socket.Write(t.Context(), websocket.MessageText, []byte(test.message)); err != nil {
						t.Fatal(err)
					}
				} else {
					say(t, stream, test.stream)
					shut(t, stream)
				}
				for {
					if _, _, err := socket.Read(t.Context()); err != nil {
						if websocket.CloseStatus(err) != test.code {
							t.Errorf("closed with %v, want %d", err, test.code)
						}
						break
					}
				}
			})
		}
	}
}
