package client_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/peer/client"
	"github.com/wirectl/wirectl/protocol/theory"
)

// A runtime has five seconds for its Ack, and fifteen for whatever comes next. What
// it says in binary messages is read as text.
func TestTheoryWaits(t *testing.T) {
	const (
		ack   = `{"kind":"Ack","control":{"run_id":"r"}}`
		event = `{"kind":"Event","control":{"run_id":"r"},"data":{"phase":"keepalive"}}`
		final = `{"kind":"Response","control":{"run_id":"r","status":"success","cost_micro":0,"final":true},"outputs":{"a":1}}`
	)
	type step struct {
		after time.Duration
		text  string
	}
	for _, tt := range []struct {
		name  string
		steps []step
		want  string
		err   string
		took  time.Duration
	}{
		{"no Ack", nil, "", "the runtime did not acknowledge the request within 5s", 5 * time.Second},
		{"silence", []step{{time.Second, ack}}, "", "the runtime did not send anything within 15s", 16 * time.Second},
		{"kept alive", []step{{4 * time.Second, ack}, {14 * time.Second, event}, {14 * time.Second, event}, {14 * time.Second, final}}, `{"a":1}`, "", 46 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, end := runtime(t, func(ctx context.Context, ws *websocket.Conn) {
					for _, s := range tt.steps {
						time.Sleep(s.after)
						if err := ws.Write(ctx, websocket.MessageBinary, []byte(s.text)); err != nil {
							t.Error(err)
						}
					}
				})
				defer end()
				begun := time.Now()
				var got heard
				w := client.NewWatch(theory.Protocol, nil)
				err := client.NewTheory("ws://runtime", w, h).Run(client.RunRequest{RunID: []byte(`"r"`), Mode: "real"})(t.Context(), got.part)
				if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
					t.Errorf("the error is %v", err)
				}
				if took := time.Since(begun); strings.Join(got.text, "") != tt.want || took != tt.took {
					t.Errorf("heard %q after %v", got.text, took)
				}
			})
		})
	}
}

// An answer of an older dialect that tells an error is one.
func TestTheoryRunResult(t *testing.T) {
	for answer, want := range map[string]string{
		`{"status":"success","outputs":{"a":1}}`:                          "",
		`{"outputs":{"a":1}}`:                                             "",
		`{"status":"error","error":{"code":"ERR_INPUTS","message":"no"}}`: "ERR_INPUTS: no",
		`{"error":{"code":"ERR_INPUTS","message":"no"}}`:                  "ERR_INPUTS: no",
		`{"status":"success?","outputs":{"a":1}}`:                         `a RunResult has the status "success?" and no error`,
	} {
		t.Run(answer, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, end := runtime(t, func(ctx context.Context, ws *websocket.Conn) {
					_ = ws.Write(ctx, websocket.MessageText, []byte(`{"kind":"Ack","content":{"run_id":"r"}}`))
					_ = ws.Write(ctx, websocket.MessageText, []byte(`{"kind":"RunResult","content":`+answer+`}`))
				})
				defer end()
				var got heard
				request := client.RunRequest{RunID: []byte(`"r"`), Mode: "real", Dialect: theory.B}
				err := client.NewTheory("ws://runtime", client.NewWatch(theory.Protocol, nil), h).Run(request)(t.Context(), got.part)
				if want == "" && (err != nil || !slices.Equal(got.text, []string{`{"a":1}`})) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
					t.Errorf("heard %q, %v", got, err)
				}
			})
		})
	}
}

// A run is preempted when its time is over, also one that ends at that moment: then
// whoever asked for it reads the record, and nothing more is written to it.
func TestTheoryPreempts(t *testing.T) {
	const (
		ack       = `{"kind":"Ack","control":{"run_id":"r"}}`
		preempted = `{"kind":"Response","control":{"run_id":"r","status":"error"},"error":{"code":"ERR_PREEMPTED","message":"preempted"}}`
		final     = `{"kind":"Response","control":{"run_id":"r","status":"success"},"outputs":{}}`
	)
	for _, tt := range []struct {
		name string
		run  func(ctx context.Context, ws *websocket.Conn) (answer string)
		want heard
	}{
		{"obeyed", func(ctx context.Context, ws *websocket.Conn) string {
			if _, op, err := ws.Read(ctx); err != nil || !strings.Contains(string(op), `"op":"preempt"`) {
				t.Errorf("the control is %s, %v", op, err)
			}
			return preempted
		}, heard{asides: []string{"preempted"}}},
		{"crossed", func(context.Context, *websocket.Conn) string {
			time.Sleep(3 * time.Second)
			return final
		}, heard{text: []string{"{}"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, end := runtime(t, func(ctx context.Context, ws *websocket.Conn) {
					_ = ws.Write(ctx, websocket.MessageText, []byte(ack))
					_ = ws.Write(ctx, websocket.MessageText, []byte(tt.run(ctx, ws)))
				})
				defer end()
				begun := time.Now()
				var got heard
				var seen record
				w := client.NewWatch(theory.Protocol, &seen)
				request := client.RunRequest{RunID: []byte(`"r"`), Mode: "real", Cancel: client.CancelAfter{Time: 3 * time.Second}}
				err := client.NewTheory("ws://runtime", w, h).Run(request)(t.Context(), got.part)
				if took := time.Since(begun); err != nil || took != 3*time.Second || !slices.Equal(got.text, tt.want.text) || !slices.Equal(got.asides, tt.want.asides) {
					t.Errorf("heard %q after %v, %v", got, took, err)
				}
				if len(seen) < 3 {
					t.Errorf("the record has %q", seen)
				}
			})
		})
	}
}

// A record has the bytes of each frame.
type record []string

func (r *record) Write(c *capture.Record) error {
	*r = append(*r, string(c.Frame.Raw))
	return nil
}

// runtime serves WebSockets on pipes. It returns what reaches it, and what ends it.
func runtime(t *testing.T, run func(context.Context, *websocket.Conn)) (h client.HTTPOptions, end func()) {
	l := pipes{make(chan net.Conn), make(chan struct{})}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"theory.run.v1"}})
		if err != nil {
			t.Error(err)
			return
		}
		if _, request, err := ws.Read(r.Context()); err != nil || !strings.Contains(string(request), `"run_id":"r"`) {
			t.Errorf("the request is %s, %v", request, err)
		}
		run(r.Context(), ws)
		for err := error(nil); err == nil; { // until the client goes
			_, _, err = ws.Read(r.Context())
		}
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(l)
	}()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		l.conns <- theirs
		return ours, nil
	}}
	return client.HTTPOptions{Client: &http.Client{Transport: transport}}, func() {
		transport.CloseIdleConnections()
		s.Close()
		<-served
	}
}

// pipes is a listener whose connections are ends of pipes.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error   { close(p.ended); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A path at which nobody runs tools is told by its status.
func TestTheoryNotFound(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	th := client.NewTheory("ws"+strings.TrimPrefix(server.URL, "http")+"/nowhere", client.NewWatch(theory.Protocol, nil), client.HTTPOptions{})
	err := th.Run(client.RunRequest{})(t.Context(), func(client.Part) {})
	if err == nil || !strings.Contains(err.Error(), "404 Not Found") {
		t.Errorf("the error is %v", err)
	}
}
