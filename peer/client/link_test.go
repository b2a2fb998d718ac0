package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wirectl/wirectl/peer/client"
	"github.com/wirectl/wirectl/protocol/latis"
	"github.com/wirectl/wirectl/protocol/rlm"
	"github.com/wirectl/wirectl/transport"
)

// A call whose peer does not read ends with its context, if a moment later.
func TestUnread(t *testing.T) {
	type asked struct {
		call  client.Call
		close func() error
	}
	request := client.RLMRequest{Prompts: []json.RawMessage{[]byte(`"hi"`)}}
	dialPlain := func(nc transport.Conn) asked {
		w := client.NewWatch(client.Plain.Protocol, nil)
		r, err := client.DialRPC(t.Context(), nc, client.Plain, w, client.RPCOptions{NoHandshake: true})
		if err != nil {
			t.Fatal(err)
		}
		return asked{r.Call("m", nil), r.Close}
	}
	for name, ask := range map[string]func(net.Conn) asked{
		"latis": func(nc net.Conn) asked {
			l := client.DialLatis(pipe{nc}, client.NewWatch(latis.Protocol, nil))
			return asked{l.Prompt(client.LatisPrompt{Content: "hi"}), l.Close}
		},
		"rlm": func(nc net.Conn) asked {
			c := client.NewRLM(dialed{pipe{nc}}, client.NewWatch(rlm.Protocol, nil))
			return asked{c.Ask(request), func() error { return nil }}
		},
		"jsonrpc":   func(nc net.Conn) asked { return dialPlain(pipe{nc}) },
		"websocket": func(nc net.Conn) asked { return dialPlain(messages{pipe{nc}}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer theirs.Close()
				late := errors.New("too late")
				ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, late)
				defer cancel()
				begun := time.Now()
				a := ask(ours)
				if err := a.call(ctx, func(client.Part) {}); !errors.Is(err, late) {
					t.Errorf("the call ends with %v", err)
				}
				if err := a.close(); err != nil {
					t.Error(err)
				}
				if took := time.Since(begun); took > 3*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// A pipe is one end of a pipe as a connection.
type pipe struct{ net.Conn }

func (pipe) CloseWrite() error { return errors.ErrUnsupported }

// messages are the writes of a pipe.
type messages struct{ pipe }

func (m messages) ReadMessage(context.Context) (transport.Message, error) {
	data, err := io.ReadAll(m.pipe)
	return transport.Message{Data: data}, err
}

// WriteMessage closes the pipe at the end of ctx, as a WebSocket does.
func (m messages) WriteMessage(ctx context.Context, message transport.Message) error {
	defer context.AfterFunc(ctx, func() { m.Close() })()
	_, err := m.Write(message.Data)
	return err
}
