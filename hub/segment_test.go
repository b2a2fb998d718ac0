package hub

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// packed returns records in the segments of a packer.
func packed(t *testing.T, records ...capture.Record) (list []segment) {
	t.Helper()
	p := packer{put: func(s segment) error { list = append(list, s); return nil }}
	for _, r := range records {
		check(t, p.Write(&r))
	}
	check(t, p.flush())
	return list
}

// wide returns the record of a frame of that size, which compresses well.
func wide(size int) capture.Record {
	return capture.Record{Kind: capture.Frame, Seq: 1, Time: time.Unix(1, 0), Frame: frame.Frame{Raw: make([]byte, size), End: size}}
}

// A segment of a few kilobytes that would take gigabytes, or that is not a capture, is refused
// before it takes the memory.
func TestDecompress(t *testing.T) {
	good := packed(t, wide(100<<10))[0]
	zeros := encoder().EncodeAll(make([]byte, 32<<20), nil)
	var streamed bytes.Buffer
	w, err := zstd.NewWriter(&streamed, zstd.WithWindowSize(64<<20))
	check(t, err)
	_, err = w.Write(make([]byte, 1<<20))
	check(t, err, w.Close())
	for name, c := range map[string]struct {
		data []byte
		want string // the error; if it is "", there is none
	}{
		"whole":                 {good.Data, ""},
		"two that were joined":  {bytes.Repeat(good.Data, 2), ""},
		"as many as are legal":  {bytes.Repeat(good.Data, int(maxSection/good.plain)), ""},
		"one more":              {bytes.Repeat(good.Data, int(maxSection/good.plain)+1), "over the limit of 64 MiB"},
		"gigabytes of sections": {bytes.Repeat(good.Data, 1<<14), "over the limit of 64 MiB"},
		"gigabytes of zeros":    {bytes.Repeat(zeros, 100), "not a section"},
		"zeros after a section": {append(bytes.Clone(good.Data), bytes.Repeat(zeros, 100)...), "not a block length"},
		"a large window":        {streamed.Bytes(), "window size exceeded"},
		"compressed twice":      {encoder().EncodeAll(good.Data, nil), "not a section"},
		"cut":                   {good.Data[:len(good.Data)-9], "is cut"},
		"empty":                 {nil, "not a section"},
		"text":                  {[]byte("this is no segment"), "not a section"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := decompress(c.data)
		runtime.ReadMemStats(&after)
		if err == nil && c.want == "" {
			var n int64
			n, err = io.Copy(io.Discard, r)
			if want := good.plain * int64(len(c.data)/len(good.Data)); n != want {
				t.Errorf("%s: %d bytes, want %d", name, n, want)
			}
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
			t.Errorf("%s took %d MiB", name, took>>20)
		}
	}
}

// A sender sends nothing that a hub skips: records that are too long are counted as lost, and
// segments are joined only up to the limit, also those in a spool.
func TestLargeRecords(t *testing.T) {
	s, err := newSpool(t.TempDir(), Info{ID: "a", Org: "o", Host: "h", Kind: "k"}, 1<<30)
	check(t, err)
	p := packer{put: s.enqueue}
	long := wide(maxSection)
	if err := p.Write(&long); err == nil || !strings.Contains(err.Error(), "records of up to 64 MiB") {
		t.Errorf("a record of over 64 MiB: %v", err)
	}
	for range 3 {
		r := wide(30 << 20)
		check(t, p.Write(&r))
	}
	check(t, s.release())
	s, err = openSpool(s.dir)
	check(t, err)
	defer s.release() //nolint:errcheck // the test has ended
	sender := publisher{queue: s, at: s.at}
	for _, want := range []int64{2, 3} {
		seg, err := sender.next(t.Context(), 1<<20)
		check(t, err)
		if _, err := decompress(seg.Data); seg.Number != want || seg.Lost != 1 || err != nil {
			t.Errorf("up to segment %d, with %d lost: %v; want %d and 1", seg.Number, seg.Lost, err, want)
		}
	}
}

// The pieces of a segment that is too large are dropped as soon as that is known, and the
// segment after them is read.
func TestTooManyPieces(t *testing.T) {
	var a Assembler
	take := func(number, piece string) (*Whole, error) {
		m := nats.NewMsg(Segments)
		m.Data = make([]byte, 1<<20)
		for name, value := range map[string]string{headerNumber: number, headerFrames: number, headerPiece: piece} {
			m.Header.Set(name, value)
		}
		return a.Take(m)
	}
	errs := 0
	for n := range 200 {
		w, err := take("1", fmt.Sprintf("%d/200", n+1))
		if w != nil || a.Waiting() > maxSection {
			t.Fatalf("after %d pieces: %v, %d bytes wait", n+1, w, a.Waiting())
		}
		if err != nil {
			errs++
		}
	}
	if w, err := take("2", "1/1"); errs != 1 || a.Waiting() > 0 || err != nil || w == nil || w.Number != 2 || w.Missing != 1 {
		t.Errorf("%d errors; then %+v, %v", errs, w, err)
	}
}
