package pcapng_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/frame"
)

// frames returns a session of n frames with payloads of the given size.
func frames(n, size int) []capture.Record {
	raw, _ := frame.Append(nil, frame.Len32, bytes.Repeat([]byte("x"), size))
	all := make([]capture.Record, n)
	for i := range all {
		all[i] = capture.Record{
			Seq: int64(i + 1), Time: began, Written: began,
			Frame: frame.Frame{Raw: raw, Start: 4, End: len(raw), Conn: 1, Dir: frame.Dir(1 + i%2)},
		}
	}
	return all
}

var sizes = map[string]int{"100B": 100, "1KiB": 1 << 10, "16KiB": 16 << 10}

func BenchmarkRead(b *testing.B) {
	for name, size := range sizes {
		b.Run(name, func(b *testing.B) {
			const n = 5000
			data := write(b, session, frames(n, size))
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if seq, err := last(data); seq != n || err != io.EOF {
					b.Fatal(seq, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/frame")
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	for name, size := range sizes {
		b.Run(name, func(b *testing.B) {
			rec := frames(1, size)[0]
			w, err := pcapng.NewWriter(io.Discard, session, label)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if err := w.Write(&rec); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Writing and reading a frame allocate no memory.
func TestFramesAreFree(t *testing.T) {
	const n = 1000
	all := frames(n, 1000)
	w, err := pcapng.NewWriter(io.Discard, session, label)
	if err != nil {
		t.Fatal(err)
	}
	writes := testing.AllocsPerRun(5, func() {
		for i := range all {
			if err := w.Write(&all[i]); err != nil {
				t.Fatal(err)
			}
		}
	})
	data := write(t, session, all)
	reads := testing.AllocsPerRun(5, func() {
		if _, err := last(data); err != io.EOF {
			t.Fatal(err)
		}
	})
	if writes > 0 || reads > 100 {
		t.Errorf("%v allocations to write %d frames, %v to read them", writes, n, reads)
	}
}

// last reads a capture and returns the number of its last frame.
func last(data []byte) (seq int64, err error) {
	r, err := pcapng.NewReader(bytes.NewReader(data), 0)
	var rec capture.Record
	for err == nil {
		seq = max(seq, rec.Seq)
		err = r.Next(&rec)
	}
	return seq, err
}
