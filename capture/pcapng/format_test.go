package pcapng_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/frame"
)

// example is the session of docs/capture-format.md.
func example(t *testing.T) []byte {
	t.Helper()
	at := func(ns int) time.Time { return time.Date(2026, time.November, 20, 9, 0, 0, ns, time.UTC) }
	label := func(_ *capture.Record, l *pcapng.Label) {
		l.Dissector = "protobuf"
		l.Info = append(l.Info, "STATE_GET 2"...)
	}
	var b bytes.Buffer
	w, err := pcapng.NewWriter(&b, capture.Session{Created: at(0), Protocol: "latis", Framing: "len32"}, label)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []capture.Record{
		{Kind: capture.Opened, Time: at(0), Frame: frame.Frame{Conn: 1}, Text: []byte("exec unit")},
		{Seq: 1, Time: at(1000), Written: at(1500), Frame: frame.Frame{
			Conn: 1, Dir: frame.C2U, Raw: []byte("\x00\x00\x00\x05\x0a\x01\x32\x62\x00"), Start: 4, End: 9,
		}},
		{Kind: capture.Exited, Time: at(2000), Status: 3, Frame: frame.Frame{Conn: 1}},
	} {
		if err := w.Write(&r); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// The bytes in the specification match the output of the writer.
func TestSpecification(t *testing.T) {
	doc, err := os.ReadFile("../../docs/capture-format.md")
	if err != nil {
		t.Fatal(err)
	}
	_, doc, _ = bytes.Cut(doc, []byte("```hex\n"))
	doc, _, _ = bytes.Cut(doc, []byte("```"))
	var digits strings.Builder
	for line := range strings.Lines(string(doc)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	if want := hex.EncodeToString(example(t)); digits.String() != want {
		t.Errorf("the specification has\n%s\nand what is written is\n%s", digits.String(), want)
	}
}
