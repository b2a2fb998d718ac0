package track_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// A capture tells how the unit ended, and what it wrote last; the controller may leave
// first, or have the unit told to. Over HTTP answers come on any connection.
func TestHowUnitsEnd(t *testing.T) {
	line := func(dir frame.Dir, text string) capture.Record {
		raw := []byte(text + "\n")
		return capture.Record{Protocol: "mcp", Framing: "line", Time: time.Unix(1, 0), Frame: frame.Frame{Dir: dir, Raw: raw, End: len(raw) - 1}}
	}
	call := line(frame.C2U, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"slow"}}`)
	left := func(dir frame.Dir) capture.Record {
		return capture.Record{Kind: capture.HalfClosed, Frame: frame.Frame{Dir: dir}}
	}
	wrote := func(text string) capture.Record { return capture.Record{Kind: capture.Stderr, Text: []byte(text)} }
	exit := func(dir frame.Dir) capture.Record {
		return capture.Record{Kind: capture.Exited, Status: 3, Frame: frame.Frame{Dir: dir}}
	}
	killed := capture.Record{Kind: capture.Signalled, Status: 9, Text: []byte("killed")}
	web := http(0, "mcp", "POST /mcp HTTP/1.1", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"slow"}}`)
	web.Time = time.Unix(1, 0)
	const open = " while a request was open: tools/call slow (id 3)"
	for _, tt := range []struct {
		about   string
		records []capture.Record
		want    string
	}{
		{
			"a status",
			[]capture.Record{call, wrote("one\ntwo\n\nthr"), left(frame.U2C), wrote("ee\nfour\nfive\nsix\xff"), exit(0), left(frame.C2U)},
			"the unit ended with status 3" + open + `; its last lines on standard error: "two", "three", "four", "five", "six` + "\uFFFD\"",
		},
		{"a signal", []capture.Record{call, killed, left(frame.U2C), left(frame.C2U)}, "the unit was ended by signal 9 (killed)" + open},
		{"an end", []capture.Record{call, left(frame.U2C), left(frame.C2U)}, "the unit ended the connection" + open},
		{"a status and half an end", []capture.Record{call, left(frame.U2C), exit(0)}, "the unit ended with status 3" + open},
		{"half an end", []capture.Record{call, left(frame.U2C)}, "unanswered"},
		{"the controller", []capture.Record{call, left(frame.C2U), exit(0), left(frame.U2C)}, "unanswered"},
		{"a unit that was told to", []capture.Record{call, left(frame.U2C), exit(frame.C2U), left(frame.C2U)}, "unanswered"},
		{"HTTP", []capture.Record{web, left(frame.U2C), left(frame.C2U)}, "unanswered"},
		{"no end", []capture.Record{call}, "unanswered"},
	} {
		var got []string
		for f := range follow(t, &script{records: tt.records}).List[0].Findings() {
			if f.Name == "died-with-open-requests" {
				got = append(got, f.Message)
			} else {
				got = append(got, f.Name)
			}
		}
		if strings.Join(got, "; ") != tt.want {
			t.Errorf("%s: found %q rather than %q", tt.about, got, tt.want)
		}
	}
}

// Of what a unit writes to standard error only the end is kept.
func TestStderrIsBounded(t *testing.T) {
	var s script
	for i := range 3000 {
		s.records = append(s.records, capture.Record{Kind: capture.Stderr, Text: fmt.Appendf(nil, "%5000d\n", i), Frame: frame.Frame{Conn: i % 5}})
	}
	_, f := look(t, &s)
	if n := f.KeptOfUnits(); n > 5*(16<<10) {
		t.Errorf("%d bytes are kept", n)
	}
}
