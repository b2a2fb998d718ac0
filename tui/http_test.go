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

// over is a request or an answer of HTTP, which has an empty object.
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

// wrapping are bytes of the carrier itself, which no frame follows.
func wrapping(conn int, dir frame.Dir) capture.Record {
	return capture.Record{Time: time.Unix(1, 0), Frame: frame.Frame{
		Conn: conn, Dir: dir, Raw: []byte("\r\n"), Gap: true, Meta: &frame.Meta{Signal: frame.Wrapping},
	}}
}

func ended(conn int, dir frame.Dir) capture.Record {
	return capture.Record{Kind: capture.HalfClosed, Time: time.Unix(2, 0), Frame: frame.Frame{Conn: conn, Dir: dir}}
}

// What the views call an exchange of HTTP is what a filter finds it by: its kind,
// which has a space in it and is completed with that, and its id. One whose client
// left is among those that were cancelled.
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
	sc.shows(" models · json/http ", "⊘ cancelled", "╳ abandoned", "● done")
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
