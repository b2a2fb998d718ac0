package pcapng_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
)

// Whatever the bytes are, reading ends without a panic; and what was read,
// written again, reads the same.
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
		s.Protocol, s.Framing = "", "" // joined captures have one for each section
		got, _, _ := read(bytes.NewReader(rewrite(t, s, want)))
		onlyFramesAreNamed(want)
		onlyFramesAreNamed(got)
		if diff := cmp.Diff(want, got, same); diff != "" {
			t.Error(diff)
		}
	})
}

// onlyFramesAreNamed forgets how other records than frames are to be read, which
// they have from their session: they have no place of their own for it.
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

// rewrite returns the capture of what was read.
func rewrite(t *testing.T, s capture.Session, records []capture.Record) []byte {
	var b bytes.Buffer
	w, err := pcapng.NewWriter(&b, s, nil)
	if err != nil {
		t.Skip(err) // a description that joined what another writer had in several places
	}
	for i := range records {
		if err := w.Write(&records[i]); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}
