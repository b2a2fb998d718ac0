package tui_test

import (
	"io"
	"testing"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/tui"
)

// A script is a session of records.
type script []capture.Record

func (*script) Session() *capture.Session { return &capture.Session{} }

func (s *script) Next(rec *capture.Record) error {
	if len(*s) == 0 {
		return io.EOF
	}
	*rec, *s = (*s)[0], (*s)[1:]
	return nil
}

// over returns an HTTP request or answer with an empty object.
func over(conn int, dir frame.Dir, start string) capture.Record {
	body := []byte("{}")
	return capture.Record{
		Protocol: "json", Framing: frame.HTTP, Time: time.Unix(1, 0),
		Frame: frame.Frame{
			Conn: conn, Dir: dir, Stream: 1, Raw: body, End: len(body),
			Meta: &frame.Meta{Framing: frame.HTTP, Head: &frame.Head{Start: start}},
		},
	}
}

// wrapping returns bytes of the carrier that belong to no frame.
func wrapping(conn int, dir frame.Dir) capture.Record {
	return capture.Record{Time: time.Unix(1, 0), Frame: frame.Frame{
		Conn: conn, Dir: dir, Raw: []byte("\r\n"), Gap: true, Meta: &frame.Meta{Signal: frame.Wrapping},
	}}
}

func ended(conn int, dir frame.Dir) capture.Record {
	return capture.Record{Kind: capture.HalfClosed, Time: time.Unix(2, 0), Frame: frame.Frame{Conn: conn, Dir: dir}}
}

// A filter finds an HTTP exchange by its kind and id as the views show them. The kind has a
// space in it and can be completed. An exchange whose client disconnected counts as
// cancelled.
func TestFiltersOverHTTP(t *testing.T) {
	s := store.New(store.Options{})
	t.Cleanup(func() { s.Close() })
	const ask = "POST /v1/chat/completions HTTP/1.1"
	records := script{
		over(1, frame.C2U, ask), over(1, frame.U2C, "HTTP/1.1 200 OK"),
		over(2, frame.C2U, "POST /v1/messages HTTP/1.1"), over(3, frame.C2U, ask),
		ended(3, frame.U2C), ended(3, frame.C2U), wrapping(2, frame.U2C), ended(2, frame.C2U), ended(2, frame.U2C),
	}
	if err := s.Take(t.Context(), decode.Input{Capture: &records}, decode.Config{Workers: 1}); err != nil {
		t.Fatal(err)
	}
	sc := newScreen(t, s, tui.Config{Name: "models"}, 120, 30)
	sc.shows(" models · json/http ", "⊘ cancelled", "✖ died", "reason: the unit closed the connection", "● done")
	sc.press("2")
	for _, tt := range []struct {
		keys []string
		want string
	}{
		{[]string{"kind==", "tab", "\"", "tab", "chat", "tab"}, `filter kind=="POST /v1/chat/completions" · 2 of 5 frames`},
		{[]string{"dir==c2u and kind==\"POST /v1/m", "tab"}, `filter dir==c2u and kind=="POST /v1/messages" · 1 of 5 frames`},
		{[]string{"id==1"}, `filter id==1 · 4 of 5 frames`},
		{[]string{"kind==200"}, `filter kind==200 · 1 of 5 frames`},
		{[]string{"cancelled"}, `filter cancelled · 1 of 5 frames`},
	} {
		sc.press("f")
		sc.press(append(tt.keys, "enter")...)
		sc.shows(tt.want)
		sc.press("x")
	}
}

// A cut is a script that is interrupted: open exchanges stay open.
type cut struct{ script }

func (c *cut) Next(rec *capture.Record) error {
	if err := c.script.Next(rec); err != io.EOF {
		return err
	}
	return capture.ErrCut
}

// While a model answers, its row shows the end of its text, and then the tools that it
// calls and the finish reason. Its input is shown below.
func TestModelSpeaks(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	message := func(dir frame.Dir, head *frame.Head, body string) capture.Record {
		at = at.Add(time.Second)
		return capture.Record{Protocol: "anthropic", Framing: frame.HTTP, Time: at, Frame: frame.Frame{
			Conn: 1, Dir: dir, Stream: 1, Raw: []byte(body), End: len(body), Meta: &frame.Meta{Framing: frame.HTTP, Head: head},
		}}
	}
	ask := message(frame.C2U, &frame.Head{Start: "POST /v1/messages HTTP/1.1", Fields: []frame.Field{{Name: "anthropic-version", Value: "1"}}},
		`{"model":"claude-x","system":"brief","tools":[{"name":"price"}],"messages":[{"role":"user","content":"hi"}]}`)
	say := func(text string) capture.Record {
		return message(frame.U2C, nil, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+text+`"}}`)
	}
	records := []capture.Record{
		ask, say(`The tide\n`), say(` turns \u2014 late`),
		message(frame.U2C, nil, `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","name":"price","input":{}}}`),
		message(frame.U2C, nil, `{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"input_tokens":30,"output_tokens":8}}`),
		message(frame.U2C, nil, `{"type":"message_stop"}`),
	}
	for n, want := range map[int][]string{
		3: {"claude-x The tide turns — late", "model claude-x · first token after 1.00s", "prompt: 1 system text 7 B (~2 tokens), 1 tool 16 B (~4 tokens), 1 message 4 B (~1 tokens)", "tool price: 16 B"},
		6: {"claude-x → price tool_use", "tokens: 30 input, 8 output · model claude-x · stopped: tool_use · calls: price"},
	} {
		s := store.New(store.Options{})
		t.Cleanup(func() { s.Close() })
		_ = s.Take(t.Context(), decode.Input{Capture: &cut{records[:n:n]}}, decode.Config{Workers: 1})
		sc := newScreen(t, s, tui.Config{Name: "models"}, 150, 40)
		sc.shows(want...)
		if n == len(records) {
			sc.press("4")
			sc.shows("MODEL", "claude-x")
		}
	}
}
