package client_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/peer/client"
	"github.com/wirectl/wirectl/protocol/rlm"
	"github.com/wirectl/wirectl/transport"
)

// dialed is an endpoint whose connection is there already.
type dialed struct{ conn transport.Conn }

func (d dialed) String() string                               { return "the test" }
func (d dialed) Dial(context.Context) (transport.Conn, error) { return d.conn, nil }

// What brokers answer, and what is made of it.
func TestRLM(t *testing.T) {
	one := client.RLMRequest{Model: "m", Prompts: []json.RawMessage{[]byte(`"a<b"`)}}
	two := client.RLMRequest{Prompts: []json.RawMessage{[]byte(`"a"`), []byte(`[]`)}, Batch: true}
	const completion = `{"error":null,"chat_completion":{"response":"yes"}}`
	for _, tt := range []struct {
		name              string
		ask               client.RLMRequest
		request, response string
		want, err         string
	}{
		{"a prompt", one, `{"correlation_id":"wirectl-1","model":"m","prompt":"a<b"}`, `{"correlation_id":"wirectl-1","error":null,"results":[` + completion + `]}`, "yes\n", ""},
		{
			"a batch", two, `{"correlation_id":"wirectl-1","prompts":["a",[]]}`,
			`{"correlation_id":"wirectl-1","error":null,"results":[{"error":"too long","chat_completion":null},` + completion + `]}`, "Error: too long\nyes\n", "prompt 1: too long",
		},
		{"an error", one, "", `{"correlation_id":"wirectl-1","error":"Internal broker error","results":null}`, "", "Internal broker error"},
		{"an error of the item", one, "", `{"correlation_id":"wirectl-1","error":null,"results":[{"error":"Unknown model 'm'","chat_completion":null}]}`, "", "Unknown model 'm'"},
		{"too few results", two, "", `{"correlation_id":"wirectl-1","error":null,"results":[` + completion + `]}`, "", "the peer broke its protocol: 1 results for 2 prompts"},
		{"neither", one, "", `{"correlation_id":"wirectl-1","error":null,"results":[{"error":null,"chat_completion":null}]}`, "", "the peer broke its protocol: result 1 has neither"},
		{"no JSON", one, "", `HTTP`, "", "the peer broke its protocol: "},
		{"nothing", one, "", "", "", "the peer ended the connection"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nc := listen(t, func(nc net.Conn) {
				var head [4]byte
				_, _ = io.ReadFull(nc, head[:])
				payload := make([]byte, binary.BigEndian.Uint32(head[:]))
				_, _ = io.ReadFull(nc, payload)
				if tt.request != "" && string(payload) != tt.request {
					t.Errorf("asked %s, want %s", payload, tt.request)
				}
				if tt.response != "" {
					_, _ = nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(tt.response))), tt.response...))
				}
				_ = nc.(*net.TCPConn).CloseWrite()
			})
			var got heard
			err := client.NewRLM(dialed{nc}, client.NewWatch(rlm.Protocol, nil)).Ask(tt.ask)(t.Context(), got.part)
			if strings.Join(got.text, "") != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.HasPrefix(err.Error(), tt.err) {
				t.Errorf("heard %q, %v, want %q, %q", got.text, err, tt.want, tt.err)
			}
		})
	}
}

// Calls are counted and timed; one that the peer refuses does not end the rest.
func TestLoad(t *testing.T) {
	n := 0
	l := client.Run(t.Context(), 10, 1, func(_ context.Context, out func(client.Part)) error {
		n++
		out(client.Part{Text: "x"})
		if n == 3 {
			return &client.PeerError{Message: "no"}
		}
		return nil
	})
	if l.Calls != 10 || l.Failed != 1 || l.Err == nil || len(l.First) != 10 {
		t.Errorf("the load is %+v", l)
	}
	l = client.Run(t.Context(), 10, 1, func(context.Context, func(client.Part)) error { return io.ErrUnexpectedEOF })
	if l.Calls != 1 {
		t.Errorf("%d calls were made of a peer that is gone", l.Calls)
	}
	if got := client.Quantile([]time.Duration{1, 2, 3, 4}, 0.5); got != 2 {
		t.Errorf("the median is %v", got)
	}
}

func TestParseCancelAfter(t *testing.T) {
	for text, want := range map[string]client.CancelAfter{"3": {Parts: 3}, "200ms": {Time: 200 * time.Millisecond}} {
		if got, err := client.ParseCancelAfter(text); got != want || err != nil {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "soon", "0s"} {
		if _, err := client.ParseCancelAfter(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
