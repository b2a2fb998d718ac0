package store_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/store"
)

// A frame that is too large to be read for a line has its id there all the same,
// and is read when it is looked at.
func TestLargeFrame(t *testing.T) {
	text := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + strings.Repeat("x", 1<<20) + `"}}`
	var file bytes.Buffer
	w, err := pcapng.NewWriter(&file, capture.Session{Framing: "line", Protocol: "mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := capture.Record{Seq: 1}
	r.Frame = frame.Frame{Raw: []byte(text + "\n"), End: len(text), Conn: 1, Dir: frame.C2U}
	if err := w.Write(&r); err != nil {
		t.Fatal(err)
	}
	s := filled(t, store.Options{}, open(t, file.Bytes()))
	if f := s.Frames(0, 1).List[0]; f.ID != "7" || f.Summary != "(too large for a line)" {
		t.Errorf("the line has %q, %q", f.ID, f.Summary)
	}
	if d := s.Detail(1); d.ID != "7" || len(d.JSON) < len(text) {
		t.Errorf("the detail has %q and %d bytes", d.ID, len(d.JSON))
	}
}
