package segment_test

import (
	"testing"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/internal/segment"
	"github.com/wirectl/wirectl/frame"
)

// What is kept of a record shares nothing with it, also where its payload is no
// part of its bytes.
func TestAppendKeepsCopies(t *testing.T) {
	raw, data := []byte("raw"), []byte("data")
	r := capture.Record{Frame: frame.Frame{Raw: raw, Meta: &frame.Meta{Apart: true, Data: data}}}
	var s segment.Segment
	if !s.Append(&r) {
		t.Fatal("an empty segment has no room")
	}
	copy(raw, "XXX")
	copy(data, "XXXX")
	r.Meta.Apart = false
	if kept := &s.Records[0]; string(kept.Raw) != "raw" || string(kept.Payload()) != "data" {
		t.Errorf("%q, %q", kept.Raw, kept.Payload())
	}
}
