package client_test

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/client"
	"github.com/wirectl/wirectl/protocol/latis"
	latisv1 "github.com/wirectl/wirectl/protocol/schema/latis/v1"
)

// TestNothingAfterTheEnd lets a unit go on with a prompt that was given up: who
// gave it up hears no more of it, and may use what was heard.
func TestNothingAfterTheEnd(t *testing.T) {
	over := make(chan struct{})
	nc := listen(t, func(nc net.Conn) {
		if requests := frame.NewScanner(nc, frame.Len32); !requests.Scan() {
			t.Errorf("there is no prompt: %v", requests.Err())
		}
		sendAnswer(t, nc, `{"id":"1","responseChunk":{"content":"heard"}}`)
		<-over
		sendAnswer(t, nc, `{"id":"1","responseChunk":{"content":"too late"}}`)
	})
	l := client.DialLatis(nc, client.NewWatch(latis.Protocol, nil))
	ctx, giveUp := context.WithCancel(t.Context())
	var h heard
	err := l.Prompt(client.LatisPrompt{Content: "hi"})(ctx, func(p client.Part) {
		h.part(p)
		giveUp()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the prompt ends with %v", err)
	}
	h.text = append(h.text, "end")
	close(over)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if want := []string{"heard", "end"}; !slices.Equal(h.text, want) {
		t.Errorf("heard was %q, and not %q", h.text, want)
	}
}

// Each request has its answer; another is a fault of the unit, and an error is told.
func TestLatisAnswers(t *testing.T) {
	prompt := func(l *client.Latis) client.Call {
		return l.Prompt(client.LatisPrompt{Content: "hi", Metadata: map[string]string{"k": "v"}})
	}
	create := func(l *client.Latis) client.Call {
		return func(ctx context.Context, out func(client.Part)) error {
			id, err := l.CreateSession(ctx, map[string]string{"k": "v"})
			out(client.Part{Text: id})
			return err
		}
	}
	resume := func(l *client.Latis) client.Call {
		return func(ctx context.Context, out func(client.Part)) error {
			state, err := l.ResumeSession(ctx, "s")
			out(client.Part{Text: state["k"]})
			return err
		}
	}
	const (
		asked  = `{"id":"1","promptSend":{"content":"hi","metadata":{"k":"v"}}}`
		pinged = ""
		pong   = `{"id":"1","pong":{"pingTimestamp":"5"}}`
		ack    = `{"id":"1","ack":{"sessionId":"s","state":{"k":"v"}}}`
	)
	for _, tt := range []struct {
		name    string
		call    func(*client.Latis) client.Call
		request string
		answers []string
		want    []string
		err     string
	}{
		{"a prompt", prompt, asked, []string{`{"id":"1","responseChunk":{"content":"a"}}`, `{"id":"1","responseComplete":{"metadata":{"m":"n"}}}`}, []string{"a", "metadata"}, ""},
		{"a prompt, and its end names it inside", prompt, asked, []string{`{"responseComplete":{"requestId":"1"}}`}, nil, ""},
		{"a prompt that fails", prompt, asked, []string{`{"id":"1","error":{"code":"BUSY","message":"later"}}`}, nil, "BUSY: later"},
		{"a prompt and a pong", prompt, asked, []string{pong}, nil, `the peer broke its protocol: PONG is not an answer to the request "1"`},
		{"a prompt and nothing", prompt, asked, []string{`{"id":"1"}`}, nil, `the peer broke its protocol: a message of no known kind is not an answer to the request "1"`},
		{"a prompt and no text", prompt, asked, []string{"\x0a\x011\xa2\x01\x03\x12\x01\xff"}, nil, "the peer broke its protocol: response_chunk.content at byte 8: invalid UTF-8"},
		{"a ping and an ack", (*client.Latis).Ping, pinged, []string{ack}, nil, `the peer broke its protocol: ACK is not an answer to the request "1"`},
		{"a ping and another's pong", (*client.Latis).Ping, pinged, []string{pong}, nil, "the peer broke its protocol: the PONG repeats the timestamp 5, and the PING had "},
		{"a state", (*client.Latis).State, `{"id":"1","stateGet":{}}`, []string{`{"id":"1","stateUpdate":{"busy":true,"state":{"k":"v"}}}`}, []string{`{"busy":true,"state":{"k":"v"}}`}, ""},
		{"a state and an ack", (*client.Latis).State, `{"id":"1","stateGet":{}}`, []string{ack}, nil, `the peer broke its protocol: ACK is not an answer to the request "1"`},
		{"a session", create, `{"id":"1","sessionCreate":{"metadata":{"k":"v"}}}`, []string{ack}, []string{"s"}, ""},
		{"a session without a name", create, `{"id":"1","sessionCreate":{"metadata":{"k":"v"}}}`, []string{`{"id":"1","ack":{}}`}, []string{""}, "the peer broke its protocol: the ACK of SESSION_CREATE names no session"},
		{"a session and a pong", create, `{"id":"1","sessionCreate":{"metadata":{"k":"v"}}}`, []string{pong}, []string{""}, `the peer broke its protocol: PONG is not an answer to the request "1"`},
		{"a session again", resume, `{"id":"1","sessionResume":{"sessionId":"s"}}`, []string{ack}, []string{"v"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nc := listen(t, func(nc net.Conn) {
				requests := frame.NewScanner(nc, frame.Len32)
				if !requests.Scan() {
					t.Errorf("there is no request: %v", requests.Err())
					return
				}
				got, want := &latisv1.ConnectRequest{}, &latisv1.ConnectRequest{}
				if err := proto.Unmarshal(requests.Frame().Payload(), got); err != nil {
					t.Error(err)
				}
				if tt.request == pinged { // when is not known
					want = &latisv1.ConnectRequest{Id: "1", Payload: &latisv1.ConnectRequest_Ping{Ping: got.GetPing()}}
				} else if err := protojson.Unmarshal([]byte(tt.request), want); err != nil {
					t.Error(err)
				}
				if !proto.Equal(got, want) {
					t.Errorf("the request is %v, want %v", got, want)
				}
				for _, answer := range tt.answers {
					sendAnswer(t, nc, answer)
				}
			})
			l := client.DialLatis(nc, client.NewWatch(latis.Protocol, nil))
			var got []string
			err := tt.call(l)(t.Context(), func(p client.Part) { got = append(got, cmp.Or(p.Name, p.Text, string(p.JSON))) })
			if (err == nil) != (tt.err == "") || err != nil && !strings.HasPrefix(err.Error(), tt.err) {
				t.Errorf("the error is %v, want %q", err, tt.err)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("heard was %q, and not %q", got, tt.want)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A subscription lasts as long as its context, and its end is confirmed.
func TestLatisSubscription(t *testing.T) {
	for answer, want := range map[string]string{
		`{"id":"2","ack":{}}`:  "",
		`{"id":"2","pong":{}}`: `the peer broke its protocol: PONG is not an answer to the request "2"`,
	} {
		nc := listen(t, func(nc net.Conn) {
			requests := frame.NewScanner(nc, frame.Len32)
			for _, answer := range []string{`{"id":"1","stateUpdate":{}}`, answer} {
				if !requests.Scan() {
					t.Errorf("there is no request: %v", requests.Err())
					return
				}
				sendAnswer(t, nc, answer)
			}
			last := &latisv1.ConnectRequest{}
			if err := proto.Unmarshal(requests.Frame().Payload(), last); err != nil || !last.GetStateSubscribe().GetUnsubscribe() {
				t.Errorf("the last request is %v, %v", last, err)
			}
		})
		l := client.DialLatis(nc, client.NewWatch(latis.Protocol, nil))
		ctx, enough := context.WithCancel(t.Context())
		err := l.Subscribe()(ctx, func(client.Part) { enough() })
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", answer, err, want)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// sendAnswer sends the response that the JSON describes, or else what it is itself.
func sendAnswer(t *testing.T, nc net.Conn, answer string) {
	payload := []byte(answer)
	if answer[0] == '{' {
		var err error
		if payload, err = latis.Protocol.AppendPayload(nil, payload); err != nil {
			t.Error(err)
			return
		}
	}
	wire, err := frame.Append(nil, frame.Len32, payload)
	if err == nil {
		_, err = nc.Write(wire)
	}
	if err != nil {
		t.Error(err)
	}
}

// A unit that goes on after a cancel is at fault after a while, unless the caller
// wants to see the end.
func TestLatisAwaitEnd(t *testing.T) {
	for await, want := range map[bool]string{
		true:  "",
		false: "the peer broke its protocol: the request was cancelled but had not ended 5s later",
	} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			var unit sync.WaitGroup
			defer unit.Wait()
			unit.Go(func() {
				defer theirs.Close()
				requests := frame.NewScanner(theirs, frame.Len32)
				chunk := func() { sendAnswer(t, theirs, `{"id":"1","responseChunk":{"content":"on"}}`) }
				if !requests.Scan() {
					t.Errorf("there is no prompt: %v", requests.Err())
				}
				chunk()
				if !requests.Scan() {
					t.Errorf("there is no cancel: %v", requests.Err())
				}
				time.Sleep(4 * time.Second)
				chunk()
				time.Sleep(time.Minute)
				if await {
					sendAnswer(t, theirs, `{"id":"1","responseComplete":{}}`)
				}
			})
			l := client.DialLatis(pipe{ours}, client.NewWatch(latis.Protocol, nil))
			call := l.Prompt(client.LatisPrompt{Content: "hi", Cancel: client.CancelAfter{Parts: 1}, AwaitEnd: await})
			if err := call(t.Context(), func(client.Part) {}); (err == nil) != (want == "") || err != nil && err.Error() != want {
				t.Errorf("to await the end: %v: %v, want %q", await, err, want)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
