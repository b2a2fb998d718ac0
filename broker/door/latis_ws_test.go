package door_test

import (
	"context"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/peer/unit"
	"github.com/wirectl/wirectl/test/kit/doortest"
	"github.com/wirectl/wirectl/transport"
)

// The unit and the broker read frames and bare messages in the binary messages of a WebSocket, and
// answer alike. A fault closes with a code for it, after the answers to open prompts.
func TestLatisOverWebSocket(t *testing.T) {
	const (
		bare = "\x0a\x011\x52\x04\x0a\x02hi" // PROMPT_SEND "hi" with the id 1
		ping = "\x00\x00\x00\x07\x0a\x012\x62\x02\x08\x01"
	)
	ends := map[string]func(*testing.T) string{
		"unit": func(t *testing.T) string {
			l, err := transport.Listen(t.Context(), "ws://127.0.0.1:0", transport.Options{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			listened := make(chan error, 1)
			go func() { listened <- unit.New(unit.Echo{}, unit.Options{}).Listen(ctx, l) }()
			t.Cleanup(func() {
				stop()
				if err := <-listened; err != nil {
					t.Error(err)
				}
			})
			return l.Addr()
		},
		"serve": func(t *testing.T) string {
			held := doortest.NewHeld()
			go func() {
				for {
					select {
					case call := <-held.Calls:
						call.Finish("Echo: hi")
					case <-t.Context().Done():
						return
					}
				}
			}()
			return "ws://" + doortest.Serve(t, web.NewWS(controllers(doortest.Broker(t, held)), nil))
		},
	}
	for _, tt := range []struct {
		name   string
		binary []string // what the controller sends
		framed bool     // whether answers have lengths
		parts  []string // of what comes back
		code   websocket.StatusCode
	}{
		{"a frame", []string{prompt}, true, []string{"Echo: hi", completed}, websocket.StatusNormalClosure},
		{"a frame in two messages", []string{prompt[:2], prompt[2:7], prompt[7:]}, true, []string{"Echo: hi", completed}, websocket.StatusNormalClosure},
		{"two frames in a message", []string{ping + prompt}, true, []string{"\x0a\x012", "Echo: hi", completed}, websocket.StatusNormalClosure},
		{"a bare message", []string{bare}, false, []string{"Echo: hi", completed}, websocket.StatusNormalClosure},
		{"nothing, and two bare messages", []string{"", ping[4:], bare}, false, []string{"\x0a\x012", "Echo: hi", completed}, websocket.StatusNormalClosure},
		{"no message", []string{"\xff\xff\xff\xff\xff\xff"}, true, nil, websocket.StatusProtocolError},
		{"a prompt, and no message", []string{bare, "\xff\xff\xff\xff\xff\xff"}, false, []string{"Echo: hi", completed}, websocket.StatusProtocolError},
		{"a frame, and one over the limit", []string{prompt, "\x02\x00\x00\x00xx"}, true, []string{"Echo: hi", completed}, websocket.StatusProtocolError},
	} {
		for name, start := range ends {
			t.Run(name+" "+tt.name, func(t *testing.T) {
				ws, _, err := websocket.Dial(t.Context(), start(t), nil) //nolint:bodyclose // there is none after an upgrade
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = ws.CloseNow() }() // it may be closed already
				for _, m := range tt.binary {
					if err := ws.Write(t.Context(), websocket.MessageBinary, []byte(m)); err != nil {
						t.Fatal(err)
					}
				}
				all := ""
				for _, part := range tt.parts {
					for !strings.Contains(all, part) {
						_, m, err := ws.Read(t.Context())
						if err != nil {
							t.Fatalf("%v after %q, before %q", err, all, part)
						}
						if framed := m[0] == 0; framed != tt.framed {
							t.Errorf("the answer %q has a length: %t", m, framed)
						}
						all += string(m)
					}
				}
				if tt.code == websocket.StatusNormalClosure {
					if err := ws.Close(websocket.StatusNormalClosure, ""); err != nil {
						t.Error(err)
					}
					return
				}
				_, m, err := ws.Read(t.Context())
				for err == nil {
					_, m, err = ws.Read(t.Context())
				}
				if code := websocket.CloseStatus(err); code != tt.code || !strings.Contains(err.Error(), "broke its framing") {
					t.Errorf("closed with %v after %q", err, m)
				}
			})
		}
	}
}
