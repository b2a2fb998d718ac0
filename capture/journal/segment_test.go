package journal

import (
	"testing"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// Appended records share no memory with the original, even if the payload is not part of its
// bytes.
func TestAppendKeepsCopies(t *testing.T) {
	raw, data := []byte("raw"), []byte("data")
	r := capture.Record{Frame: frame.Frame{Raw: raw, Meta: &frame.Meta{Apart: true, Data: data}}}
	var s batch
	if !s.appendRecord(&r) {
		t.Fatal("an empty segment has no room")
	}
	copy(raw, "XXX")
	copy(data, "XXXX")
	r.Meta.Apart = false
	if kept := &s.records[0]; string(kept.Raw) != "raw" || string(kept.Payload()) != "data" {
		t.Errorf("%q, %q", kept.Raw, kept.Payload())
	}
}

// A holding counts its holders.
type holding int

func (h *holding) Hold()    { *h++ }
func (h *holding) Release() { *h-- }

// aRun returns n frames that lie one after the other.
func aRun(n, size int, memory capture.Memory) *capture.Run {
	data := make([]byte, n*size)
	r := &capture.Run{Shared: capture.Record{Seq: 7, Protocol: "mcp"}, Memory: memory}
	for i := range n {
		r.Frames = append(r.Frames, frame.Frame{Raw: data[i*size : (i+1)*size], End: size, Offset: int64(i * size)})
	}
	return r
}

// A held run is not copied, and is released when the segment is reset.
func TestAppendRunHolds(t *testing.T) {
	var held holding
	r := aRun(4, 100, &held)
	var s batch
	if n := s.appendRun(r, 1); n != 3 || held != 1 {
		t.Fatalf("%d records, held %d times", n, held)
	}
	if last := &s.records[2]; last.Seq != 10 || last.Offset != 300 || last.Protocol != "mcp" || &last.Raw[0] != &r.Frames[3].Raw[0] {
		t.Errorf("the last is %+v", last)
	}
	if s.reset(); held != 0 || len(s.records) != 0 {
		t.Errorf("%d records, held %d times", len(s.records), held)
	}
}

// The size of a segment is bounded, and no frame is lost between two segments.
func TestAppendRunIsBounded(t *testing.T) {
	var held holding
	for _, r := range []*capture.Run{aRun(2000, 10, &held), aRun(2000, 10, nil), aRun(20, 100_000, &held), aRun(20, 100_000, nil)} {
		for done, segments := 0, 0; done < len(r.Frames); segments++ {
			var s batch
			n := s.appendRun(r, done)
			if n == 0 || segments == 20 || int64(len(s.records)) > segmentRecords || s.size() > 1<<20 {
				t.Fatalf("segment %d takes %d records and %d bytes", segments, n, s.size())
			}
			done += n
		}
	}
}
