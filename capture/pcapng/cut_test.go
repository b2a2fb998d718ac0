package pcapng_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
)

// ends returns the length of a capture after its header and after each record.
func ends(t *testing.T, records []capture.Record) []int {
	t.Helper()
	var at []int
	for n := range len(records) + 1 {
		at = append(at, len(write(t, session, records[:n])))
	}
	return at
}

// small is a session without the long frame, which would add many similar cuts.
func small() []capture.Record {
	var all []capture.Record
	for _, r := range records() {
		if len(r.Raw) < 1000 {
			all = append(all, r)
		}
	}
	return all
}

// If a recorder crashes, the capture may end anywhere. All complete records are read, and the
// error says that the capture is cut and where.
func TestCutAtEveryByte(t *testing.T) {
	want := small()
	data := write(t, session, want)
	at := ends(t, want)
	for cut := range data {
		got, _, err := read(bytes.NewReader(data[:cut]))
		whole := 0
		for whole < len(want) && at[whole+1] <= cut {
			whole++
		}
		if len(got) != whole {
			t.Errorf("cut at %d: %d records, want %d", cut, len(got), whole)
		}
		// A record and its new interface are two blocks.
		if clean := errors.Is(err, io.EOF); clean && cut != at[whole] && !introduces(want[whole]) {
			t.Errorf("cut at %d passes for a clean end", cut)
		}
		var e *capture.Error
		if err != io.EOF && (!errors.As(err, &e) || e.Err != capture.ErrCut || e.Offset > int64(cut)) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
}

// introduces reports whether a record of the test session is the first in its connection.
func introduces(r capture.Record) bool { return r.Kind == capture.Opened || r.Seq == 1 }

// In a compressed capture, everything flushed before the cut is read.
func TestCutOfCompressed(t *testing.T) {
	want := small()
	var b bytes.Buffer
	z, err := pcapng.Compress(&b)
	if err != nil {
		t.Fatal(err)
	}
	w, err := pcapng.NewWriter(z, session, nil)
	if err != nil {
		t.Fatal(err)
	}
	var flushed []int
	for i := range want {
		if err := errors.Join(w.Write(&want[i]), z.Flush()); err != nil {
			t.Fatal(err)
		}
		flushed = append(flushed, b.Len())
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for cut := range b.Len() {
		got, _, err := read(bytes.NewReader(b.Bytes()[:cut]))
		if !errors.Is(err, capture.ErrCut) {
			t.Errorf("cut at %d: %v", cut, err)
		}
		whole := 0
		for whole < len(want) && flushed[whole] <= cut {
			whole++
		}
		if len(got) < whole {
			t.Errorf("cut at %d: %d records, want %d", cut, len(got), whole)
		}
		if diff := cmp.Diff(want[:len(got)], got, same); diff != "" {
			t.Errorf("cut at %d: %s", cut, diff)
		}
	}
	if got, _, err := read(bytes.NewReader(b.Bytes())); err != io.EOF || len(got) != len(want) {
		t.Errorf("whole: %d records, %v", len(got), err)
	}
}

// Damaged compression is reported as a damaged capture. A failing read is not.
func TestDamagedCompression(t *testing.T) {
	var b bytes.Buffer
	z, err := pcapng.Compress(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(write(t, session, records())); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(b.Bytes())
	copy(damaged[len(damaged)/2:], "\xff\xff\xff\xff\xff\xff\xff\xff")
	if _, _, err := read(bytes.NewReader(damaged)); !errors.Is(err, capture.ErrMalformed) || !strings.Contains(err.Error(), "the compression is damaged: ") {
		t.Error(err)
	}
	gone := errors.New("gone")
	failing := io.MultiReader(bytes.NewReader(b.Bytes()[:b.Len()/2]), iotest.ErrReader(gone))
	if _, _, err := read(failing); !errors.Is(err, gone) || errors.Is(err, capture.ErrMalformed) {
		t.Error(err)
	}
}

// A failing source is distinguished from one that ends.
func TestReadError(t *testing.T) {
	data := write(t, session, small())
	broken := errors.New("the disk is gone")
	got, _, err := read(io.MultiReader(bytes.NewReader(data[:len(data)-5]), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || errors.Is(err, capture.ErrCut) || len(got) != len(small())-1 {
		t.Errorf("%d records, %v", len(got), err)
	}
}
