package convert_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/frame"
)

// Notes stand in front of the frame that they came before, and those behind the
// last frame at the end.
func TestNotes(t *testing.T) {
	note := func(text string) capture.Record {
		return capture.Record{Kind: capture.Note, Text: []byte(text), Frame: frame.Frame{Conn: 3}}
	}
	n := convert.KeepNotes(&script{records: []capture.Record{
		note("first"), note("second"), line(1, frame.C2U, asked), line(1, frame.C2U, asked), note("last"),
	}})
	var rec capture.Record
	for n.Next(&rec) == nil { // all is read before anything is written
	}
	if err := n.Next(&rec); err != io.EOF { //nolint:errorlint // a reader's own
		t.Error(err)
	}
	var out bytes.Buffer
	for seq := range int64(2) {
		out.Write(n.AppendTo(nil, seq+1))
		out.WriteString("frame\n")
	}
	check(t, n.WriteRest(&out))
	want := []string{"first", "second", "frame", "frame", "last", ""}
	for i, got := range strings.SplitAfter(out.String(), "\n") {
		if !strings.Contains(got, want[i]) {
			t.Errorf("line %d is %q, want %q", i, got, want[i])
		}
	}
}
