package unit_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/unit"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/latis"
	latisv1 "github.com/wirectl/wirectl/protocol/schema/latis/v1"
	"github.com/wirectl/wirectl/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A controller is the test's side of a connection to a unit. It feeds a tracker with all
// frames.
type controller struct {
	t       *testing.T
	conn    controlConn
	scanner *frame.Scanner
	tracker *session.Tracker
	seq     int64
	served  chan error
}

// controlConn is the interface that a controller requires of its connection.
type controlConn interface {
	net.Conn
	CloseWrite() error
	SetLinger(seconds int) error
}

// connect lets u serve a TCP connection and returns the other end of it.
func connect(t *testing.T, u *unit.Unit) *controller {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &controller{t: t, served: make(chan error, 1), tracker: session.New(latis.Protocol, session.Options{})}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		nc, err := l.Accept()
		l.Close() // before, it would reset connections that were not accepted yet
		if err == nil {
			err = u.Serve(ctx, nc.(*net.TCPConn))
		}
		c.served <- err
	}()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.conn = nc.(*net.TCPConn)
	if err := c.conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	c.scanner = frame.NewScanner(c.conn, frame.Len32)
	t.Cleanup(func() {
		c.conn.Close()
		cancel()
		if err := <-c.served; err != nil {
			t.Log(err) // some tests break the connection
		}
	})
	return c
}

// send sends the requests that the JSON describes, in one write.
func (c *controller) send(requests ...string) {
	c.t.Helper()
	var wire []byte
	for _, json := range requests {
		m := &latisv1.ConnectRequest{}
		if err := protojson.Unmarshal([]byte(json), m); err != nil {
			c.t.Fatal(err)
		}
		payload, err := proto.Marshal(m)
		if err != nil {
			c.t.Fatal(err)
		}
		c.feed(frame.C2U, payload)
		wire, _ = frame.Append(wire, frame.Len32, payload)
	}
	c.write(wire)
}

func (c *controller) write(wire []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(wire); err != nil {
		c.t.Fatal(err)
	}
}

func (c *controller) feed(dir frame.Dir, payload []byte) (m protocol.Message) {
	err := latis.Protocol.Parse(payload, &m)
	c.seq++
	f := session.Frame{Seq: c.seq, Time: time.Now(), Conn: 1, Dir: dir, Size: len(payload), Payload: payload, Fault: err}
	if f.Fault != nil {
		c.tracker.Feed(f, nil)
	} else {
		c.tracker.Feed(f, &m)
	}
	return m
}

// next returns the next response in the form "KIND id label text".
func (c *controller) next() string {
	c.t.Helper()
	if !c.scanner.Scan() {
		c.t.Fatalf("the connection ends: %v", c.scanner.Err())
	}
	m := c.feed(frame.U2C, c.scanner.Frame().Payload())
	return strings.Join(slices.DeleteFunc([]string{string(m.Kind), string(m.ID.Text), string(m.Label), string(m.Text)}, func(s string) bool { return s == "" }), " ")
}

// last returns the latest response.
func (c *controller) last() *latisv1.ConnectResponse {
	c.t.Helper()
	m := &latisv1.ConnectResponse{}
	if err := proto.Unmarshal(c.scanner.Frame().Payload(), m); err != nil {
		c.t.Fatal(err)
	}
	return m
}

// state returns the state in the latest ACK.
func (c *controller) state() map[string]string {
	c.t.Helper()
	return c.last().GetAck().GetState()
}

// expect reads that many responses and compares them, in order.
func (c *controller) expect(want ...string) {
	c.t.Helper()
	for _, w := range want {
		if got := c.next(); got != w {
			c.t.Fatalf("got %q, want %q", got, w)
		}
	}
}

// finish closes the controller's side, reads the rest, and returns it and the findings.
func (c *controller) finish() (rest []string, findings []string) {
	c.t.Helper()
	if err := c.conn.CloseWrite(); err != nil {
		c.t.Fatal(err)
	}
	for c.scanner.Scan() {
		m := c.feed(frame.U2C, c.scanner.Frame().Payload())
		rest = append(rest, string(m.Kind))
	}
	c.tracker.End(1, time.Now())
	for f := range c.tracker.Findings() {
		findings = append(findings, f.Name+": "+f.Message)
	}
	return rest, findings
}

// behaves ends the session and checks that there are no findings.
func (c *controller) behaves() {
	c.t.Helper()
	rest, findings := c.finish()
	if len(rest) > 0 || len(findings) > 0 {
		c.t.Errorf("there is more: %q, and findings: %q", rest, findings)
	}
}

// held is an agent whose prompts wait to be released.
type held struct {
	started chan string
	release chan struct{}
}

func newHeld() *held { return &held{make(chan string, 100), make(chan struct{})} }

func (h *held) Answer(ctx context.Context, p *unit.Prompt, emit func(string) error) (map[string]string, error) {
	if err := emit("Looking..."); err != nil {
		return nil, err
	}
	h.started <- p.ID
	select {
	case <-h.release:
		return nil, emit(" done")
	case <-ctx.Done():
		return nil, emit(" too late")
	}
}

func TestEcho(t *testing.T) {
	c := connect(t, unit.New(unit.Echo{}, unit.Options{}))
	c.send(`{"id":"1","promptSend":{"content":"analyze this"}}`)
	c.expect("RESPONSE_CHUNK 1 Echo: analyze this", "RESPONSE_COMPLETE 1")
	c.behaves()
}

// The flow in the protocol's document: the state is sent while a prompt streams, and a cancel
// takes effect in the middle of it.
func TestDocumentedFlow(t *testing.T) {
	h := newHeld()
	c := connect(t, unit.New(h, unit.Options{}))
	c.send(`{"id":"1","promptSend":{"content":"analyze this"}}`)
	c.expect("RESPONSE_CHUNK 1 Looking...")
	c.send(`{"id":"2","stateGet":{}}`)
	c.expect("STATE_UPDATE 2")
	c.send(`{"id":"3","promptCancel":{"targetId":"1"}}`)
	c.expect("ACK 3", "RESPONSE_CANCELLED 1")
	c.behaves()
}

// Each message has exactly one answer, and the right one.
func TestAnswers(t *testing.T) {
	for _, tt := range []struct {
		name    string
		request []string
		want    []string
	}{
		{"a ping", []string{`{"id":"1","ping":{"timestamp":"-5"}}`}, []string{"PONG 1"}},
		{"a ping without a timestamp", []string{`{"id":"1","ping":{}}`}, []string{"PONG 1"}},
		{"a state", []string{`{"id":"1","stateGet":{}}`}, []string{"STATE_UPDATE 1"}},
		{"a subscription", []string{`{"id":"1","stateSubscribe":{}}`, `{"id":"2","stateSubscribe":{"unsubscribe":true}}`}, []string{"STATE_UPDATE 1", "ACK 2"}},
		{"an empty prompt", []string{`{"id":"1","promptSend":{}}`}, []string{"ERROR 1 INVALID_PROMPT the prompt is empty"}},
		{"an unknown target", []string{`{"id":"1","promptCancel":{"targetId":"99"}}`}, []string{`ERROR 1 UNKNOWN_TARGET no prompt "99" is being worked on`}},
		{"an unknown session", []string{`{"id":"1","sessionResume":{"sessionId":"x"}}`, `{"id":"2","sessionDestroy":{"sessionId":"x"}}`}, []string{`ERROR 1 UNKNOWN_SESSION no session "x"`, `ERROR 2 UNKNOWN_SESSION no session "x"`}},
		{"no payload", []string{`{"id":"1"}`}, []string{"ERROR 1 UNSUPPORTED the message has no payload that this unit knows"}},
		{"an id that is taken", []string{`{"id":"1","stateSubscribe":{}}`, `{"id":"1","stateGet":{}}`}, []string{"STATE_UPDATE 1", `ERROR 1 DUPLICATE_ID the id "1" is that of a request which is still open`}},
		{"a ping with such an id", []string{`{"id":"1","stateSubscribe":{}}`, `{"id":"1","ping":{}}`}, []string{"STATE_UPDATE 1", `ERROR 1 DUPLICATE_ID the id "1" is that of a request which is still open`}},
		{"no id", []string{`{"promptSend":{"content":"x"}}`, `{"id":"2","ping":{}}`}, []string{"PONG 2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := connect(t, unit.New(unit.Echo{}, unit.Options{}))
			c.send(tt.request...)
			c.expect(tt.want...)
			if rest, _ := c.finish(); len(rest) > 0 {
				t.Errorf("there is more: %q", rest)
			}
		})
	}
}

// The content of answers is correct, and not just their kind.
func TestWhatAnswersSay(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	c := connect(t, unit.New(unit.AgentFunc(func(context.Context, *unit.Prompt, func(string) error) (map[string]string, error) {
		close(started)
		<-release
		return map[string]string{"k\xff": "v\xff", "model": "m"}, nil
	}), unit.Options{}))
	begun := time.Now().UnixNano()
	c.send(`{"id":"1","ping":{"timestamp":"-5"}}`)
	c.expect("PONG 1")
	if p := c.last().GetPong(); p.PingTimestamp != -5 || p.PongTimestamp < begun {
		t.Errorf("the PING of -5, sent at %d, got %v", begun, p)
	}
	c.send(`{"id":"2","stateGet":{}}`)
	c.expect("STATE_UPDATE 2")
	if c.last().GetStateUpdate().Busy {
		t.Error("the unit is busy with nothing")
	}
	c.send(`{"id":"3","promptSend":{"content":"x"}}`)
	<-started
	c.send(`{"id":"4","stateGet":{}}`)
	c.expect("STATE_UPDATE 4")
	if !c.last().GetStateUpdate().Busy {
		t.Error("the unit is not busy with a prompt")
	}
	close(release)
	c.expect("RESPONSE_COMPLETE 3")
	m := c.last().GetResponseComplete()
	if want := map[string]string{"k\uFFFD": "v\uFFFD", "model": "m"}; m.RequestId != "3" || !maps.Equal(m.Metadata, want) {
		t.Errorf("the end is %v, want the metadata %q of 3", m, want)
	}
	c.behaves()
}

// An invalid message is answered if it has an id, and the connection continues.
func TestUnreadable(t *testing.T) {
	c := connect(t, unit.New(unit.Echo{}, unit.Options{}))
	c.write([]byte("\x00\x00\x00\x08\x0a\x011\x52\x03\x0a\x01\xff")) // the content is not UTF-8
	c.write([]byte("\x00\x00\x00\x03\x0a\x7fx"))                     // the id is truncated
	c.send(`{"id":"2","ping":{}}`)
	c.expect("ERROR 1 BAD_REQUEST the message is not a ConnectRequest of latis.v1: prompt_send.content at byte 7: invalid UTF-8", "PONG 2")
}

func TestSubscription(t *testing.T) {
	h := newHeld()
	c := connect(t, unit.New(h, unit.Options{}))
	c.send(`{"id":"s","stateSubscribe":{}}`)
	c.expect("STATE_UPDATE s")
	c.send(`{"id":"1","promptSend":{"content":"x"}}`)
	c.expect("STATE_UPDATE s", "RESPONSE_CHUNK 1 Looking...")
	c.send(`{"id":"2","promptSend":{"content":"x"}}`)
	c.expect("RESPONSE_CHUNK 2 Looking...")
	c.send(`{"id":"3","promptCancel":{"targetId":"1"}}`)
	c.expect("ACK 3", "RESPONSE_CANCELLED 1")
	close(h.release)
	c.expect("RESPONSE_CHUNK 2  done", "RESPONSE_COMPLETE 2", "STATE_UPDATE s")
	c.send(`{"id":"4","stateSubscribe":{"unsubscribe":true}}`, `{"id":"5","promptSend":{"content":"x"}}`)
	c.expect("ACK 4", "RESPONSE_CHUNK 5 Looking...", "RESPONSE_CHUNK 5  done", "RESPONSE_COMPLETE 5")
	c.behaves()
}

// Many prompts are answered concurrently, each under its own id.
func TestManyPrompts(t *testing.T) {
	const n = 1000
	h := &held{make(chan string, n), make(chan struct{})}
	c := connect(t, unit.New(h, unit.Options{}))
	var requests []string
	for i := range n {
		requests = append(requests, fmt.Sprintf(`{"id":"%d","promptSend":{"content":"x"}}`, i))
	}
	c.send(requests...)
	for range n {
		<-h.started
	}
	close(h.release)
	ended := map[string]bool{}
	for range 3 * n {
		if kind, id, _ := strings.Cut(c.next(), " "); kind == "RESPONSE_COMPLETE" {
			ended[id] = true
		}
	}
	if len(ended) != n {
		t.Errorf("%d of %d prompts ended", len(ended), n)
	}
	c.behaves()
}

// An *unit.Error of the agent reaches the controller; other errors stay hidden.
func TestErrors(t *testing.T) {
	c := connect(t, unit.New(unit.AgentFunc(func(_ context.Context, p *unit.Prompt, _ func(string) error) (map[string]string, error) {
		if p.Content == "known" {
			return nil, fmt.Errorf("in the agent: %w", &unit.Error{Code: "RATE_LIMITED", Message: "try again later"})
		}
		return nil, errors.New("key sk-secret was refused at /home/me")
	}), unit.Options{}))
	c.send(`{"id":"1","promptSend":{"content":"known"}}`)
	c.expect("ERROR 1 RATE_LIMITED try again later")
	c.send(`{"id":"2","promptSend":{"content":"unknown"}}`)
	c.expect("ERROR 2 AGENT_FAILED the agent failed")
	c.behaves()
}

func TestBusy(t *testing.T) {
	h := newHeld()
	c := connect(t, unit.New(h, unit.Options{MaxPrompts: 1}))
	c.send(`{"id":"1","promptSend":{"content":"x"}}`, `{"id":"2","promptSend":{"content":"x"}}`)
	got := []string{c.next(), c.next()}
	slices.Sort(got)
	if want := []string{"ERROR 2 BUSY there are 1 prompts in flight already", "RESPONSE_CHUNK 1 Looking..."}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	close(h.release)
	c.expect("RESPONSE_CHUNK 1  done", "RESPONSE_COMPLETE 1")
	c.behaves()
}

// The prompts in flight have a limit for their total size, including their metadata. A single
// prompt may exceed it, and ended prompts do not count.
func TestBusyWithBytes(t *testing.T) {
	h := newHeld()
	c := connect(t, unit.New(h, unit.Options{MaxPromptBytes: 10}))
	c.send(`{"id":"1","promptSend":{"content":"twelve bytes"}}`)
	c.expect("RESPONSE_CHUNK 1 Looking...")
	c.send(`{"id":"2","promptSend":{"content":"x"}}`)
	c.expect("ERROR 2 BUSY the prompts in flight have 12 bytes already, and this one has 1; 10 are allowed")
	c.send(`{"id":"3","promptCancel":{"targetId":"1"}}`)
	c.expect("ACK 3", "RESPONSE_CANCELLED 1")
	c.send(`{"id":"4","promptSend":{"content":"x","metadata":{"key":"value"}}}`)
	c.expect("RESPONSE_CHUNK 4 Looking...")
	c.send(`{"id":"5","promptSend":{"content":"xx"}}`)
	c.expect("ERROR 5 BUSY the prompts in flight have 9 bytes already, and this one has 2; 10 are allowed")
	c.send(`{"id":"6","promptSend":{"content":"x"}}`)
	c.expect("RESPONSE_CHUNK 6 Looking...")
	close(h.release)
	for range 4 {
		c.next()
	}
	c.behaves()
}

// A session outlives its connection: it is resumed on the next one.
func TestSessions(t *testing.T) {
	u := unit.New(unit.AgentFunc(func(_ context.Context, p *unit.Prompt, emit func(string) error) (map[string]string, error) {
		return nil, emit(fmt.Sprint(p.Session != ""))
	}), unit.Options{SessionTTL: time.Hour})
	c := connect(t, u)
	c.send(`{"id":"1","sessionCreate":{"metadata":{"name":"first"}}}`)
	id, isAck := strings.CutPrefix(c.next(), "ACK 1 ")
	if !isAck || id == "" {
		t.Fatalf("the session is %q", id)
	}
	c.send(`{"id":"2","promptSend":{"content":"x"}}`)
	c.expect("RESPONSE_CHUNK 2 true", "RESPONSE_COMPLETE 2")
	c.behaves()

	again := connect(t, u)
	again.send(`{"id":"1","sessionResume":{"sessionId":"` + id + `"}}`)
	again.expect("ACK 1 " + id)
	if got := again.state(); got["name"] != "first" || got["prompts"] != "1" {
		t.Errorf("the state is %v", got)
	}
	again.send(`{"id":"2","sessionDestroy":{"sessionId":"`+id+`"}}`, `{"id":"3","sessionResume":{"sessionId":"`+id+`"}}`)
	again.expect("ACK 2 "+id, fmt.Sprintf("ERROR 3 UNKNOWN_SESSION no session %q", id))
	again.behaves()
}

// Destroying a session cancels its prompts.
func TestDestroyCancels(t *testing.T) {
	c := connect(t, unit.New(newHeld(), unit.Options{}))
	c.send(`{"id":"1","sessionCreate":{}}`)
	id := strings.TrimPrefix(c.next(), "ACK 1 ")
	c.send(`{"id":"2","promptSend":{"content":"x"}}`)
	c.expect("RESPONSE_CHUNK 2 Looking...")
	c.send(`{"id":"3","sessionDestroy":{"sessionId":"` + id + `"}}`)
	got := []string{c.next(), c.next()}
	slices.Sort(got)
	if want := []string{"ACK 3 " + id, "RESPONSE_CANCELLED 2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	c.behaves()
}

// The agent's context ends when the controller is gone.
func TestGone(t *testing.T) {
	stopped := make(chan struct{})
	c := connect(t, unit.New(unit.AgentFunc(func(ctx context.Context, _ *unit.Prompt, emit func(string) error) (map[string]string, error) {
		defer close(stopped)
		for emit("more") == nil {
		}
		return nil, nil
	}), unit.Options{}))
	c.send(`{"id":"1","promptSend":{"content":"x"}}`)
	c.expect("RESPONSE_CHUNK 1 more")
	c.conn.Close()
	<-stopped
}

// A framing fault ends the connection, after the pending answers.
func TestFraming(t *testing.T) {
	c := connect(t, unit.New(unit.Echo{}, unit.Options{}))
	c.send(`{"id":"1","ping":{}}`)
	c.expect("PONG 1")
	c.write([]byte("HTTP/1.1 400 Bad Request\r\n"))
	err := <-c.served
	c.served <- err
	if !errors.Is(err, frame.ErrTooLarge) {
		t.Errorf("Serve returned %v", err)
	}
}

// Golden frames, as real peers write them.
func TestBytes(t *testing.T) {
	c := connect(t, unit.New(unit.Echo{}, unit.Options{}))
	c.send(`{"id":"1","promptSend":{"content":"analyze this"}}`)
	c.next()
	want := "\x00\x00\x00\x1d\x0a\x011\xa2\x01\x17\x0a\x011\x12\x12Echo: analyze this"
	if got := string(c.scanner.Frame().Raw); got != want {
		t.Errorf("got  %x\nwant %x", got, want)
	}
	c.next()
	if got, want := string(c.scanner.Frame().Raw), "\x00\x00\x00\x09\x0a\x011\xaa\x01\x03\x0a\x011"; got != want {
		t.Errorf("got  %x\nwant %x", got, want)
	}
}

// Long and unusual texts are returned unchanged. The length of a payload takes one byte or
// several.
func TestSizes(t *testing.T) {
	c := connect(t, unit.New(unit.Echo{}, unit.Options{}))
	for _, n := range []int{1, 90, 110, 111, 112, 113, 114, 115, 120, 127, 128, 129, 16370, 16380, 16384, 1<<20 - 6} {
		content := strings.Repeat("x", n)
		c.send(`{"id":"1","promptSend":{"content":"` + content + `"}}`)
		c.expect("RESPONSE_CHUNK 1 Echo: "+content, "RESPONSE_COMPLETE 1")
		if got := binary.BigEndian.Uint32(c.scanner.Frame().Raw); int(got) != len(c.scanner.Frame().Payload()) {
			t.Errorf("a length of %d", got)
		}
	}
	c.behaves()
}
