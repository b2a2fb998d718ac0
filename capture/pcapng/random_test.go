package pcapng_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"slices"
	"testing"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
)

// Records can be read again from their places, in any order, with the same result.
func TestRandom(t *testing.T) {
	file := slices.Concat(write(t, session, records()), bigEndian(write(t, session, records())))
	r, err := pcapng.NewReader(bytes.NewReader(file), 0)
	if err != nil {
		t.Fatal(err)
	}
	type placed struct {
		at  int64
		rec capture.Record
	}
	var list []placed
	for {
		var rec capture.Record
		if err := r.Next(&rec); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if rec.Kind == capture.Frame {
			list = append(list, placed{r.Place(), rec.Clone()})
		}
	}
	random := pcapng.NewRandom(bytes.NewReader(file), 0)
	check := func() {
		t.Helper()
		for _, p := range list {
			got := capture.Record{Protocol: p.rec.Protocol, Framing: p.rec.Framing}
			if err := random.ReadAt(p.at, &got); err != nil {
				t.Fatal(err)
			}
			got.Conn = p.rec.Conn
			if got = got.Clone(); !reflect.DeepEqual(got, p.rec) {
				t.Errorf("at %d there is %+v, and there was %+v", p.at, got, p.rec)
			}
		}
	}
	check()
	slices.Reverse(list)
	check()
	var rec capture.Record
	for _, at := range []int64{0, 1, int64(len(file)) - 2, int64(len(file)) + 9} {
		if err := random.ReadAt(at, &rec); err == nil {
			t.Errorf("at %d it reads a frame: %+v", at, rec)
		}
	}
	if err := pcapng.NewRandom(bytes.NewReader(file), 16).ReadAt(list[0].at, &rec); !errors.Is(err, capture.ErrMalformed) {
		t.Errorf("over the limit: %v", err)
	}
}
