package pcapng_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
)

// Any input is read without a panic. The records are the same after they are written and read
// again.
func FuzzReader(f *testing.F) {
	data := write(f, session, small())
	f.Add(data)
	f.Add(bigEndian(data))
	f.Add(write(f, capture.Session{}, nil))
	f.Add(bytes.ReplaceAll(data, []byte(`"content-length"`), []byte(`"Content-length"`)))
	f.Add([]byte("\x28\xb5\x2f\xfd"))
	f.Fuzz(func(t *testing.T, data []byte) {
		want, s, err := read(bytes.NewReader(data))
		if err == nil {
			t.Fatal("no error, not even io.EOF")
		}
		for i := range want {
			checkBounds(t, &want[i])
		}
		s.Protocol, s.Framing = "", "" // in joined captures, each section has its own
		got, _, _ := read(bytes.NewReader(rewrite(t, s, want)))
		onlyFramesAreNamed(want)
		onlyFramesAreNamed(got)
		if diff := cmp.Diff(want, got, same); diff != "" {
			t.Error(diff)
		}
	})
}

// onlyFramesAreNamed clears the protocol and framing of records that are not frames. Such
// records only inherit them from their session and cannot store their own.
func onlyFramesAreNamed(records []capture.Record) {
	for i := range records {
		if records[i].Kind != capture.Frame {
			records[i].Protocol, records[i].Framing = "", ""
		}
	}
}

func checkBounds(t *testing.T, r *capture.Record) {
	if r.Start < 0 || r.Start > r.End || r.End > len(r.Raw) {
		t.Errorf("payload [%d:%d] of %d bytes", r.Start, r.End, len(r.Raw))
	}
}

// rewrite writes the records to a new capture.
func rewrite(t *testing.T, s capture.Session, records []capture.Record) []byte {
	var b bytes.Buffer
	w, err := pcapng.NewWriter(&b, s, nil)
	if err != nil {
		t.Skip(err) // the description no longer fits in one option
	}
	for i := range records {
		if err := w.Write(&records[i]); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}
