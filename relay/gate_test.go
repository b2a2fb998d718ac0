package relay_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/relay/fault"
	"github.com/wirectl/wirectl/session/query"
)

// gate starts a relay with a gate, and returns a memory of the gate's notes.
func gate(t *testing.T, cfg relay.GateConfig) (*running, *relay.Gate, *memory) {
	t.Helper()
	told := &memory{}
	cfg.Sink = told.sink()
	g := relay.NewGate(cfg)
	return start(t, relay.Config{Gate: g, Framing: frame.Line, Protocol: jsonrpc.MCP}), g, told
}

// said waits until a memory holds n notes, and returns them.
func (m *memory) said(n int) (texts []string) {
	for len(texts) < n {
		texts = texts[:0]
		m.mu.Lock()
		for _, r := range m.records {
			texts = append(texts, string(r.Text))
		}
		m.mu.Unlock()
	}
	return texts
}

func plan(t *testing.T, rules ...string) *fault.Plan {
	t.Helper()
	p := &fault.Plan{}
	for _, text := range rules {
		r, err := fault.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		p.Rules = append(p.Rules, r)
	}
	return p
}

func call(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":"p%d"}}}`, id, id) + "\n"
}

func send(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

func line(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	got, err := r.ReadString('\n')
	if err != nil || got != want {
		t.Errorf("got %q, %v\nwant %q", got, err, want)
	}
}

// A gate without faults and commands changes nothing, however the stream is split.
func TestGatePasses(t *testing.T) {
	r, _, told := gate(t, relay.GateConfig{})
	unit := bufio.NewReader(r.unit)
	text := call(1)
	for _, piece := range []string{text[:3], text[3:], "no JSON\n", "\n\n", "no end"} {
		send(t, r.controller, piece)
	}
	if err := r.controller.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(unit)
	if want := text + "no JSON\n\n\nno end"; err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
	send(t, r.unit, "back\n")
	r.unit.Close()
	if got, _ := io.ReadAll(r.controller); string(got) != "back\n" {
		t.Errorf("%q", got)
	}
	<-r.done
	if len(told.records) > 0 {
		t.Errorf("it told %q", told.said(1))
	}
}

// Faults change only the frames that they match, and each change is recorded.
func TestGateFaults(t *testing.T) {
	r, _, told := gate(t, relay.GateConfig{Faults: plan(t, "drop nth 2 when dir==c2u", "duplicate when dir==u2c and kind==result")})
	unit, controller := bufio.NewReader(r.unit), bufio.NewReader(r.controller)
	send(t, r.controller, call(1)+call(2)+call(3))
	line(t, unit, call(1))
	line(t, unit, call(3))
	result := `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n"
	send(t, r.unit, result)
	line(t, controller, result)
	line(t, controller, result)
	got := strings.Join(told.said(2), "; ")
	if want := "fault: drop: c2u tools/call 2; fault: duplicate: u2c result 1"; got != want {
		t.Errorf("it told %q, want %q", got, want)
	}
}

// A gate cannot change HTTP on a stream, because it has no frames. The stream passes at once,
// with one warning.
func TestGatePassesHTTP(t *testing.T) {
	g := relay.NewGate(relay.GateConfig{Faults: plan(t, "drop nth 1")})
	r := start(t, relay.Config{Gate: g})
	const (
		request = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
		answer  = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
	)
	for range 2 {
		say(t, r.controller, request)
		hear(t, r.unit, request)
		say(t, r.unit, answer)
		hear(t, r.controller, answer)
	}
	r.controller.Close()
	r.unit.Close()
	<-r.done
	if said := r.told; len(said) != 1 || !strings.Contains(said[0], "speaks HTTP or WebSocket") {
		t.Errorf("it was said %q", said)
	}
}

// A fault may cut a frame and close both directions.
func TestGateCuts(t *testing.T) {
	r, _, _ := gate(t, relay.GateConfig{Faults: plan(t, "cut 5 nth 2")})
	send(t, r.controller, call(1)+call(2)+call(3))
	got, err := io.ReadAll(r.unit)
	if want := call(1) + call(2)[:5]; err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
	<-r.done
}

// A fault can send a cancel after a part, for the exchange of that part.
func TestGateCancelFault(t *testing.T) {
	r, _, _ := gate(t, relay.GateConfig{Faults: plan(t, "cancel 2")})
	unit, controller := bufio.NewReader(r.unit), bufio.NewReader(r.controller)
	send(t, r.controller, call(7))
	line(t, unit, call(7))
	part := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p7","progress":1}}` + "\n"
	send(t, r.unit, part+part)
	line(t, controller, part)
	line(t, controller, part)
	got, err := unit.ReadString('\n')
	if err != nil || !strings.Contains(got, `"notifications/cancelled"`) || !strings.Contains(got, `"requestId":7`) {
		t.Errorf("%q, %v", got, err)
	}
}

// Matching frames are held, and others pass them. Held frames are released unchanged, replaced
// or dropped. The end of the stream waits for them.
func TestGateHolds(t *testing.T) {
	where, err := query.Parse("kind==tools/call and id>1", fault.Fields)
	if err != nil {
		t.Fatal(err)
	}
	r, g, told := gate(t, relay.GateConfig{Hold: where})
	unit := bufio.NewReader(r.unit)
	send(t, r.controller, call(2)+call(3)+call(4)+call(1))
	line(t, unit, call(1))
	if err := r.controller.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	told.said(6)
	notes, err := g.Control(t.Context(), tap.Command{Do: tap.Waiting})
	if err != nil || len(notes) != 3 || string(notes[0].Payload)+"\n" != call(2) {
		t.Fatalf("%+v, %v", notes, err)
	}
	for _, c := range []tap.Command{
		{Do: tap.Edit, Held: 2, Payload: json.RawMessage(`{"edited":true}`)},
		{Do: tap.Drop, Held: 3},
		{Do: tap.Release, Held: 1},
	} {
		if _, err := g.Control(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
	line(t, unit, `{"edited":true}`+"\n")
	line(t, unit, call(2))
	if rest, err := io.ReadAll(unit); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	if _, err := g.Control(t.Context(), tap.Command{Do: tap.Release, Held: 1}); err == nil {
		t.Error("it goes twice")
	}
	if got := told.said(9)[8]; got != `{"tap":"released","held":1,"how":"released","dir":"c2u"}` {
		t.Errorf("it told %s", got)
	}
}

// An empty condition releases the held frames, and holds no others.
func TestGateUnholds(t *testing.T) {
	r, g, told := gate(t, relay.GateConfig{})
	unit := bufio.NewReader(r.unit)
	if _, err := g.Control(t.Context(), tap.Command{Do: tap.Hold, Where: "knd==x"}); err == nil {
		t.Error("it takes a condition that is none")
	}
	if _, err := g.Control(t.Context(), tap.Command{Do: tap.Hold, Where: "kind==tools/call"}); err != nil {
		t.Fatal(err)
	}
	send(t, r.controller, call(1)+call(2))
	told.said(4)
	if _, err := g.Control(t.Context(), tap.Command{Do: tap.Hold}); err != nil {
		t.Fatal(err)
	}
	line(t, unit, call(1))
	line(t, unit, call(2))
	send(t, r.controller, call(3))
	line(t, unit, call(3))
}

// At the limit of held frames, the gate warns and stops reading from that side until frames are
// released.
func TestGateHoldsSoMuch(t *testing.T) {
	where, _ := query.Parse("kind==tools/call", fault.Fields)
	r, g, _ := gate(t, relay.GateConfig{Hold: where})
	const most = 10_000
	go func() {
		for id := range most + 2 {
			_, _ = io.WriteString(r.controller, call(id))
		}
	}()
	want := "the limit of held frames is reached: the controller is not read until some are released"
	for told := []string(nil); len(told) == 0 || told[0] != want; runtime.Gosched() {
		r.mu.Lock()
		told = r.told
		r.mu.Unlock()
	}
	notes, _ := g.Control(t.Context(), tap.Command{Do: tap.Waiting})
	if len(notes) != most {
		t.Errorf("%d frames wait", len(notes))
	}
	if _, err := g.Control(t.Context(), tap.Command{Do: tap.Hold}); err != nil {
		t.Fatal(err)
	}
	unit := bufio.NewReader(r.unit)
	for id := range most + 2 {
		line(t, unit, call(id))
	}
}

// Held frames of a connection that ends are dropped, and block nothing.
func TestGateEnds(t *testing.T) {
	where, _ := query.Parse("kind==tools/call", fault.Fields)
	r, g, told := gate(t, relay.GateConfig{Hold: where})
	send(t, r.controller, call(1))
	told.said(2)
	r.controller.Close()
	r.unit.Close()
	<-r.done
	if notes, err := g.Control(t.Context(), tap.Command{Do: tap.Waiting}); err != nil || len(notes) > 0 {
		t.Errorf("%v, %v", notes, err)
	}
}

// Viewers learn that held frames were dropped with their connection.
func TestGateGivesUp(t *testing.T) {
	where, _ := query.Parse("id==1", fault.Fields)
	r, _, told := gate(t, relay.GateConfig{Hold: where, Faults: plan(t, "cut 5 nth 1")})
	send(t, r.controller, call(1)+call(2))
	<-r.done
	said := told.said(1)
	if got, want := said[len(said)-1], `{"tap":"released","held":1,"how":"gone","dir":"c2u"}`; got != want {
		t.Errorf("it told %s, want %s", got, want)
	}
}

// A frame is never reported as held after it was reported as gone.
func TestGateTellsInOrder(t *testing.T) {
	where, _ := query.Parse("kind==tools/call", fault.Fields)
	var g *relay.Gate
	gone := make(chan error, 1)
	hasty := func() {
		go func() {
			_, err := g.Control(context.Background(), tap.Command{Do: tap.Hold})
			gone <- err
		}()
		for i := 0; i < 1000 && len(gone) == 0; i++ { // enough time, if nothing blocks it
			runtime.Gosched()
		}
	}
	r, made, told := gate(t, relay.GateConfig{Hold: where, Altered: hasty})
	g = made
	send(t, r.controller, call(1))
	if err := <-gone; err != nil {
		t.Error(err)
	}
	var taps []string
	for _, text := range told.said(3) {
		if n, ok := tap.ParseNote(&capture.Record{Kind: capture.Note, Text: []byte(text)}); ok {
			taps = append(taps, n.Tap)
		}
	}
	if !slices.Equal(taps, []string{tap.Held, tap.Released}) {
		t.Errorf("it told %q", taps)
	}
}

// Viewers can inject, cancel and resend. The first of these marks the session as altered.
func TestGateControl(t *testing.T) {
	altered := 0
	find := func(seq int64) (capture.Record, bool) {
		raw := []byte(call(9))
		return capture.Record{Seq: seq, Frame: frame.Frame{Raw: raw, End: len(raw) - 1, Dir: frame.C2U}}, seq == 3
	}
	r, g, told := gate(t, relay.GateConfig{Altered: func() { altered++ }, Find: find})
	unit, controller := bufio.NewReader(r.unit), bufio.NewReader(r.controller)
	send(t, r.controller, call(1))
	line(t, unit, call(1))
	control := func(c tap.Command) string {
		_, err := g.Control(t.Context(), c)
		if err != nil {
			return err.Error()
		}
		return ""
	}
	if got := control(tap.Command{Do: tap.Inject, To: "controller", Payload: json.RawMessage(`{"a":1}`)}); got != "" {
		t.Error(got)
	}
	line(t, controller, `{"a":1}`+"\n")
	if got := control(tap.Command{Do: tap.Cancel, ID: json.RawMessage("1")}); got != "" {
		t.Error(got)
	}
	if got, err := unit.ReadString('\n'); err != nil || !strings.Contains(got, `"requestId":1`) {
		t.Errorf("%q, %v", got, err)
	}
	if got := control(tap.Command{Do: tap.Cancel, ID: json.RawMessage("2")}); got != "no open exchange has that id" {
		t.Error(got)
	}
	if got := control(tap.Command{Do: tap.Resend, Seq: 3}); got != "" {
		t.Error(got)
	}
	line(t, unit, `{"jsonrpc":"2.0","id":2000000002,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":"p9~2"}}}`+"\n")
	if got := control(tap.Command{Do: tap.Resend, Seq: 4}); got != "frame 4 is not in the history" {
		t.Error(got)
	}
	if got := control(tap.Command{Do: tap.Resend, Conn: 5, Seq: 3}); got != "" {
		t.Error(got)
	}
	if got := control(tap.Command{Do: tap.Cancel, Conn: 5, ID: json.RawMessage("1")}); got != "there is no connection 5" {
		t.Error(got)
	}
	if altered != 1 {
		t.Errorf("it was marked %d times", altered)
	}
	got := strings.Join(told.said(4), "; ")
	want := "sent to the controller by request: a frame of a viewer's; sent to the unit by request: a cancel of 1; " +
		"sent to the unit by request: frame 3 once more; sent to the unit by request: frame 3 once more"
	if got != want {
		t.Errorf("it told %q", got)
	}
	r.controller.Close()
	r.unit.Close()
	<-r.done
	if got := control(tap.Command{Do: tap.Cancel, ID: json.RawMessage("1")}); got != "there is no connection" {
		t.Error(got)
	}
}
