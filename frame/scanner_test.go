package frame_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/test/kit/frametest"
)

// payloads can travel in every framing; together they are longer than a few
// of the scanner's reads would be if those were small.
var payloads = [][]byte{
	[]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`),
	[]byte("x"),
	[]byte(strings.Repeat("0123456789", 30)),
	[]byte("\x0a\x01\x32\x62\x00"),
	[]byte("né€😀"),
}

// each runs a test for every framing on a stream of all payloads.
func each(t *testing.T, test func(t *testing.T, f frame.Framing, stream []byte)) {
	for _, f := range frame.Framings() {
		t.Run(f.Name(), func(t *testing.T) {
			var list [][]byte
			for _, p := range payloads {
				if (f != frame.Line || !bytes.ContainsAny(p, "\n")) && (f != frame.Nul || !bytes.ContainsAny(p, "\x00")) {
					list = append(list, p)
				}
			}
			test(t, f, stream(t, f, list...))
		})
	}
}

func stream(t *testing.T, f frame.Framing, payloads ...[]byte) []byte {
	t.Helper()
	var b []byte
	for _, p := range payloads {
		var err error
		if b, err = frame.Append(b, f, p); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// scan returns copies of all frames, and the scanner at its end.
func scan(f frame.Framing, r io.Reader, setup ...func(*frame.Scanner)) ([]frame.Frame, *frame.Scanner) {
	s := frame.NewScanner(r, f)
	for _, set := range setup {
		set(s)
	}
	var frames []frame.Frame
	for s.Scan() {
		frames = append(frames, s.Frame().Clone())
	}
	return frames, s
}

func join(frames []frame.Frame) []byte {
	var b []byte
	for _, f := range frames {
		b = append(b, f.Raw...)
	}
	return b
}

// However a stream is cut into reads, the frames are the same, their raws are
// the stream, and Append gives them back.
func TestFramesDoNotDependOnReads(t *testing.T) {
	each(t, func(t *testing.T, f frame.Framing, stream []byte) {
		want, s := scan(f, bytes.NewReader(stream))
		if s.Err() != nil || len(want) == 0 {
			t.Fatalf("%d frames, %v", len(want), s.Err())
		}
		if !bytes.Equal(join(want), stream) {
			t.Errorf("raws do not add up to the stream")
		}
		for i := range want {
			if !frame.Exact(f, &want[i]) {
				t.Errorf("frame %d: Append would not give it back", i+1)
			}
		}
		for name, r := range map[string]io.Reader{
			"one byte":   iotest.OneByteReader(bytes.NewReader(stream)),
			"half":       iotest.HalfReader(bytes.NewReader(stream)),
			"data error": iotest.DataErrReader(bytes.NewReader(stream)),
		} {
			got, s := scan(f, r)
			if diff := cmp.Diff(want, got); diff != "" || s.Err() != nil {
				t.Errorf("%s reader: %v %s", name, s.Err(), diff)
			}
		}
	})
}

// A cut anywhere but between two frames is not a clean end, and everything before
// the cut is read.
func TestCutAtEveryByte(t *testing.T) {
	each(t, func(t *testing.T, f frame.Framing, stream []byte) {
		frames, _ := scan(f, bytes.NewReader(stream))
		end := map[int64]int{0: 0}
		for i, fr := range frames {
			end[fr.Offset+int64(len(fr.Raw))] = i + 1
		}
		whole := 0
		for cut := range len(stream) {
			got, s := scan(f, bytes.NewReader(stream[:cut]))
			n, clean := end[int64(cut)]
			if clean {
				whole = n
			}
			if len(got) != whole {
				t.Errorf("cut at %d: %d frames, want %d", cut, len(got), whole)
			}
			if truncated := errors.Is(s.Err(), frame.ErrTruncated); truncated == clean {
				t.Errorf("cut at %d: %v", cut, s.Err())
			}
		}
	})
}

// The end of a stream inside a length is told from one inside a payload.
func TestTruncationSaysWhere(t *testing.T) {
	for stream, want := range map[string]string{
		"\x00\x00":              "frame 1 at byte 0: the stream ended inside the length prefix, after 2 of its bytes",
		"\x00\x00\x00\x05ab":    "frame 1 at byte 0: the stream ended inside the payload, after 2 of its 5 bytes",
		"\x00\x00\x00\x01a\x00": "frame 2 at byte 5: the stream ended inside the length prefix, after 1 of its bytes",
	} {
		if _, s := scan(frame.Len32, strings.NewReader(stream)); s.Err() == nil || s.Err().Error() != want {
			t.Errorf("%q: %v, want %s", stream, s.Err(), want)
		}
	}
}

// Batches hold the same frames as single scans do, and a batch keeps its
// bytes while the next two are read.
func TestBatchesKeepTheirFrames(t *testing.T) {
	each(t, func(t *testing.T, f frame.Framing, one []byte) {
		stream := bytes.Repeat(one, 3000)
		s := frame.NewScanner(bytes.NewReader(stream), f)
		var got []byte
		var ring [3]frame.Batch
		n := 0
		for ; s.ScanBatch(&ring[n%3]); n++ {
			if n >= 2 {
				got = append(got, join(ring[(n-2)%3].Frames)...)
			}
		}
		for i := max(0, n-2); i < n; i++ {
			got = append(got, join(ring[i%3].Frames)...)
		}
		if s.Err() != nil || n < 3 {
			t.Fatalf("%d batches, %v", n, s.Err())
		}
		if !bytes.Equal(got, stream) {
			t.Error("the frames of the batches are not the stream")
		}
	})
}

// Frames that were returned are scanned anew, as if they had not been: in what is skipped
// between them, too, and where the scan has failed behind them.
func TestReturn(t *testing.T) {
	good := []byte(`{"jsonrpc":"2.0","method":"x"}`)
	one := stream(t, frame.Len32, good)
	all := slices.Concat(one, one, []byte("\xff\xff\xff\xff lost"), one, []byte("\xff\xff\xff\xff lost, too"), one, []byte("\xff\xff\xff\xff"))
	for _, set := range [][]func(*frame.Scanner){{resync}, nil} {
		want, straight := scan(frame.Len32, bytes.NewReader(all), set...)
		for n := range len(want) {
			s := frame.NewScanner(bytes.NewReader(all), frame.Len32)
			for _, f := range set {
				f(s)
			}
			var b frame.Batch
			s.ScanBatch(&b)
			if n >= len(b.Frames) || b.Frames[n].Gap {
				continue
			}
			got := cloned(b.Frames[:n+1])
			for s.Return(&b, n+1); s.ScanBatch(&b); {
				got = append(got, cloned(b.Frames)...)
			}
			if !bytes.Equal(join(got), join(want)) || len(got) != len(want) || s.Skipped() != straight.Skipped() || !reflect.DeepEqual(s.Err(), straight.Err()) {
				t.Errorf("from %d on: %d frames, %+v, %v, want %d, %+v, %v", n+1, len(got), s.Skipped(), s.Err(), len(want), straight.Skipped(), straight.Err())
			}
		}
	}
}

func cloned(frames []frame.Frame) (c []frame.Frame) {
	for _, f := range frames {
		c = append(c, f.Clone())
	}
	return c
}

// A length over the limit is refused before memory is taken for it.
func TestLimitComesBeforeMemory(t *testing.T) {
	huge := map[frame.Framing]string{
		frame.Len32:  "\xff\xff\xff\xff",
		frame.GRPC:   "\x00\xff\xff\xff\xff",
		frame.Varint: "\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
		frame.Header: "Content-Length: 9223372036854775807\r\n\r\n",
		frame.Line:   strings.Repeat("x", 5000),
		frame.Nul:    strings.Repeat("x", 5000),
	}
	for _, f := range frame.Framings() {
		t.Run(f.Name(), func(t *testing.T) {
			frames, s := scan(f, strings.NewReader(huge[f]), func(s *frame.Scanner) { s.SetLimit(4096) })
			if len(frames) != 0 || !errors.Is(s.Err(), frame.ErrTooLarge) {
				t.Errorf("%d frames, %v", len(frames), s.Err())
			}
			if s.Scan() {
				t.Error("a failed scanner scanned on")
			}
		})
	}
}

// The largest payload that the limit allows passes, and one byte more does not.
func TestLimitIsInclusive(t *testing.T) {
	for _, f := range frame.Framings() {
		t.Run(f.Name(), func(t *testing.T) {
			limit := func(s *frame.Scanner) { s.SetLimit(100) }
			at := stream(t, f, bytes.Repeat([]byte("a"), 100))
			if frames, s := scan(f, bytes.NewReader(at), limit); len(frames) != 1 || s.Err() != nil {
				t.Errorf("at the limit: %d frames, %v", len(frames), s.Err())
			}
			over := stream(t, f, bytes.Repeat([]byte("a"), 101))
			if frames, s := scan(f, bytes.NewReader(over), limit); len(frames) != 0 || !errors.Is(s.Err(), frame.ErrTooLarge) {
				t.Errorf("over the limit: %d frames, %v", len(frames), s.Err())
			}
		})
	}
}

// A length is one that memory can have, whatever the limit.
func TestLengthsBeyondMemory(t *testing.T) {
	for _, test := range []struct {
		framing frame.Framing
		stream  string
	}{
		{frame.Varint, "\xff\xff\xff\xff\xff\xff\xff\xff\x7fabc"},
		{frame.Header, "Content-Length: 9223372036854775807\r\n\r\n{}"},
	} {
		if frames, s := scan(test.framing, strings.NewReader(test.stream), func(s *frame.Scanner) { s.SetLimit(math.MaxInt) }); len(frames) != 0 || !errors.Is(s.Err(), frame.ErrTooLarge) {
			t.Errorf("%s: %v", test.framing.Name(), s.Err())
		}
	}
}

func TestReadErrorIsNotAnEnd(t *testing.T) {
	broken := errors.New("connection reset")
	each(t, func(t *testing.T, f frame.Framing, stream []byte) {
		want, _ := scan(f, bytes.NewReader(stream))
		got, s := scan(f, io.MultiReader(bytes.NewReader(stream), iotest.ErrReader(broken)))
		if !errors.Is(s.Err(), broken) || len(got) != len(want) {
			t.Errorf("%d of %d frames, %v", len(got), len(want), s.Err())
		}
	})
}

// looksLikeOurs stands for a protocol's judgement: our payloads begin so.
func looksLikeOurs(payload []byte, _ bool) bool {
	return bytes.HasPrefix(payload, []byte(`{"jsonrpc"`))
}

func resync(s *frame.Scanner) {
	s.SetAccept(looksLikeOurs)
	s.Resync()
}

// After garbage the scanner finds the next frame, and frames and gaps still
// add up to the stream.
func TestResyncFindsTheNextFrame(t *testing.T) {
	good := []byte(`{"jsonrpc":"2.0","method":"x"}`)
	for _, garbage := range []string{
		"2026-11-21 10:00:00 INFO starting\n",
		"HTTP/1.1 200 OK\r\n\r\n",
		"INFO:     Started server process [1]\n",
		"\nINFO:     Started server process [1]\n",
		"\r\n",
		strings.Repeat("\xff\xfe\xfd", 70_000),
		"\x00\x00\x00\x00\x01\x02",
	} {
		for _, f := range frame.Framings() {
			if f == frame.Line || f == frame.Nul || f == frame.Varint && garbage[0] < 0x80 {
				continue // any line is a frame, so is what ends in NUL, and what follows a small byte
			}
			t.Run(fmt.Sprintf("%s/%.8q", f.Name(), garbage), func(t *testing.T) {
				in := bytes.Join([][]byte{stream(t, f, good, good), []byte(garbage), stream(t, f, good)}, nil)
				frames, s := scan(f, iotest.HalfReader(bytes.NewReader(in)), resync)
				if s.Err() != nil {
					t.Fatal(s.Err())
				}
				if !bytes.Equal(join(frames), in) {
					t.Error("frames and gaps do not add up to the stream")
				}
				last := frames[len(frames)-1]
				if last.Gap || !bytes.Equal(last.Payload(), good) {
					t.Errorf("the frame behind the garbage was not found: %q", last.Raw)
				}
				for _, fr := range frames {
					if fr.Gap && (fr.Flaw == nil || len(fr.Raw) > 64<<10) {
						t.Errorf("a gap of %d bytes with the fault %v", len(fr.Raw), fr.Flaw)
					}
				}
			})
		}
	}
}

// However a stream is cut into reads, what is skipped is the same, and in the same
// gaps.
func TestGapsDoNotDependOnReads(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 70_000)
	for i := range noise {
		noise[i] = byte(random.IntN(256))
	}
	filler := bytes.Repeat([]byte("\xff"), 64<<10+1)
	good := []byte(`{"jsonrpc":"2.0","method":"x","params":"` + strings.Repeat("y", 600) + `"}`)
	for _, f := range append(frame.Framings(), frame.Unknown) {
		one := []byte("a")
		if f != frame.Unknown {
			one = stream(t, f, good)
		}
		for name, in := range map[string][]byte{
			"noise":                 slices.Concat(one, noise, one),
			"text":                  slices.Concat([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"), one),
			"gaps of just a size":   slices.Concat(filler[:64<<10], one, filler[1:64<<10], one, filler, one),
			"a frame that is cut":   slices.Concat([]byte("\xff\xff\xff\xff"), one, one[:len(one)-1]),
			"blank over the limit":  slices.Concat(bytes.Repeat([]byte(" "), 3000), []byte("\n"), one),
			"a line over the limit": slices.Concat(bytes.Repeat([]byte("z"), 3000), []byte("\n"), one),
			"blank lines":           slices.Concat(bytes.Repeat([]byte("  \n"), 50_000), one),
			"one line feed":         slices.Concat(bytes.Repeat([]byte("z"), 64<<10-1), []byte("\n"), one),
		} {
			t.Run(f.Name()+"/"+name, func(t *testing.T) {
				small := func(s *frame.Scanner) { s.SetLimit(2000) }
				want, _ := scan(f, bytes.NewReader(in), resync, small)
				for how, r := range reads(in) {
					got, _ := scan(f, r, resync, small)
					if !slices.Equal(described(got), described(want)) {
						t.Errorf("%s: %d frames and gaps, want %d", how, len(got), len(want))
					}
				}
				if !bytes.Equal(join(want), in) {
					t.Error("frames and gaps do not add up to the stream")
				}
			})
		}
	}
}

// However a stream is cut into reads, the frames after a fault are the same, and so is what is
// skipped, even if gaps do not wait for more.
func TestResyncAtEverySplit(t *testing.T) {
	for _, f := range frame.Framings() {
		for name, in := range frametest.Faulty(f, []byte(`{"jsonrpc":"2.0","method":"x"}`)) {
			t.Run(f.Name()+"/"+name, func(t *testing.T) {
				limit := func(s *frame.Scanner) { s.SetLimit(frametest.FaultyLimit) }
				want, _ := scan(f, bytes.NewReader(in), resync, limit)
				for parts := range frametest.Splits(in) {
					var readers []io.Reader
					for _, part := range parts {
						readers = append(readers, bytes.NewReader(part))
					}
					got, _ := scan(f, io.MultiReader(readers...), resync, limit, (*frame.Scanner).ResyncAtOnce)
					if diff := cmp.Diff(frametest.Merged(want), frametest.Merged(got)); diff != "" {
						t.Fatalf("in %d parts, the first of %d bytes: %s", len(parts), len(parts[0]), diff)
					}
				}
			})
		}
	}
}

// reads are ways in which a stream is cut into reads.
func reads(in []byte) map[string]io.Reader {
	return map[string]io.Reader{
		"at once":       bytes.NewReader(in),
		"half of it":    iotest.HalfReader(bytes.NewReader(in)),
		"one byte each": iotest.OneByteReader(bytes.NewReader(in)),
		"ragged":        frametest.Ragged(in, 7),
		"with the end":  iotest.DataErrReader(bytes.NewReader(in)),
	}
}

// Blank lines are gaps of just the largest size, wherever the lines end, as long as
// there are so many of them.
func TestBlankLinesAreCutIntoGaps(t *testing.T) {
	const most = 64 << 10
	blank := strings.Repeat(" ", 200_000)
	lines := strings.Repeat(blank[:100]+"\r\n", 2000)
	for _, test := range []struct {
		name, in string
		gaps     []int
		last     int // bytes of the frame behind them
	}{
		{"a line", blank + "\n{}\n", []int{most, most, most}, 200_001 - 3*most + 3},
		{"lines", lines + "{}\n", []int{most, most, most}, len(lines) - 3*most + 3},
		{"just a size", blank[1:most] + "\n{}\n", []int{most}, 3},
		{"less", blank[2:most] + "\n{}\n", nil, most + 2},
		{"a payload", blank + "{}\n", nil, len(blank) + 3},
		{"the end", "{}\n" + blank, []int{most, most, most, 200_000 - 3*most}, 0},
		{"lines and the end", lines + blank[:most], []int{most, most, most, most, len(lines) - 3*most}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			for how, r := range reads([]byte(test.in)) {
				frames, s := scan(frame.Line, r)
				var gaps []int
				for _, f := range frames {
					if f.Gap {
						gaps = append(gaps, len(f.Raw))
					}
				}
				if !slices.Equal(gaps, test.gaps) || s.Err() != nil {
					t.Errorf("%s: gaps of %d bytes, want %d; %v", how, gaps, test.gaps, s.Err())
				}
				if last := frames[len(frames)-1]; test.last > 0 && (last.Gap || len(last.Raw) != test.last) {
					t.Errorf("%s: the last has %d bytes, want a frame of %d", how, len(last.Raw), test.last)
				}
				if string(join(frames)) != test.in {
					t.Errorf("%s: frames and gaps do not add up to the stream", how)
				}
			}
		})
	}
}

// The CR of a line that ends in CRLF does not count towards the limit, as the LF does
// not. One that ends the stream is of the payload.
func TestLimitOfLinesThatEndInCRLF(t *testing.T) {
	for in, want := range map[string]error{
		"abcd\r\n":   nil,
		"\nabcd\r\n": nil,
		"    \r\n":   nil,
		"abc\r":      nil,
		"abcde\r\n":  frame.ErrTooLarge,
		"abcd\r\r\n": frame.ErrTooLarge,
		"abcd\re":    frame.ErrTooLarge,
		"abcd\r":     frame.ErrTooLarge,
	} {
		for how, r := range reads([]byte(in)) {
			_, s := scan(frame.Line, r, func(s *frame.Scanner) {
				s.SetLimit(4)
				s.SetAccept(func([]byte, bool) bool { return true })
			})
			if !errors.Is(s.Err(), want) {
				t.Errorf("%q, %s: %v, want %v", in, how, s.Err(), want)
			}
		}
	}
}

// A relay passes on what is not a frame before it reads more, but for the bytes that a
// length may begin with.
func TestResyncAtOnceHoldsNothingBack(t *testing.T) {
	const in = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
	r := &countingReader{r: strings.NewReader(in)}
	s := frame.NewScanner(r, frame.Len32)
	s.ResyncAtOnce()
	skipped := 0
	for s.Scan() && r.reads < 2 {
		skipped += len(s.Frame().Raw)
	}
	if skipped != len(in)-3 {
		t.Errorf("%d bytes of %d before the next read", skipped, len(in))
	}
}

// A length that was damaged swallows no more than the frame it belongs to.
func TestResyncLooksInsideTheCutFrame(t *testing.T) {
	good := []byte(`{"jsonrpc":"2.0","method":"x"}`)
	in := stream(t, frame.Len32, good, good, good)
	in[2] = 1 // the first length grows by 256 and reaches beyond the end
	frames, s := scan(frame.Len32, bytes.NewReader(in), resync)
	if s.Err() != nil || s.Skipped().Faults != 1 || len(frames) != 3 {
		t.Fatalf("%d frames, %+v, %v", len(frames), s.Skipped(), s.Err())
	}
	if !frames[0].Gap || frames[1].Gap || frames[2].Gap {
		t.Errorf("%+v", frames)
	}
}

// Blank lines that are skipped are read once: from each of them on, it would take minutes.
func TestBlankLinesAreSkippedOnce(t *testing.T) {
	for _, behind := range []string{"no JSON\n", strings.Repeat("x", 5000) + "\n", ""} {
		in := strings.Repeat("x", 5000) + strings.Repeat("\n", 1<<20) + behind + `{"jsonrpc":"2.0"}` + "\n"
		reads := 0
		_, s := scan(frame.Line, strings.NewReader(in), func(s *frame.Scanner) {
			s.Resync()
			s.SetLimit(4096)
			s.SetAccept(func(payload []byte, whole bool) bool { reads++; return looksLikeOurs(payload, whole) })
		})
		if s.Err() != nil || reads > 100 {
			t.Errorf("%.10q: judged %d times, %v", behind, reads, s.Err())
		}
		for _, r := range []io.Reader{strings.NewReader(in), iotest.HalfReader(strings.NewReader(in))} {
			frames, _ := scan(frame.Line, r, resync, func(s *frame.Scanner) { s.SetLimit(4096) })
			if string(join(frames)) != in || frames[len(frames)-1].Gap {
				t.Errorf("%.10q: %d bytes of %d", behind, len(join(frames)), len(in))
			}
		}
	}
}

func TestLineTooLongIsSkippedToItsEnd(t *testing.T) {
	in := strings.Repeat("x", 200_000) + "\n" + `{"jsonrpc":"2.0"}` + "\n"
	frames, s := scan(frame.Line, strings.NewReader(in), resync, func(s *frame.Scanner) { s.SetLimit(1000) })
	if s.Err() != nil || string(join(frames)) != in {
		t.Fatalf("%v", s.Err())
	}
	if last := frames[len(frames)-1]; last.Gap || string(last.Payload()) != `{"jsonrpc":"2.0"}` {
		t.Errorf("%q", last.Raw)
	}
}

func TestPeekTakesNothing(t *testing.T) {
	in := stream(t, frame.Len32, payloads...)
	s := frame.NewScanner(iotest.OneByteReader(bytes.NewReader(in)), nil)
	head, atEOF := s.Peek(9)
	if !bytes.Equal(head[:9], in[:9]) || atEOF {
		t.Fatalf("%q %v", head, atEOF)
	}
	head, atEOF = s.Peek(1 << 20)
	if !bytes.Equal(head, in) || !atEOF {
		t.Fatalf("%d bytes, %v", len(head), atEOF)
	}
	s.SetFraming(frame.Len32)
	n := 0
	for s.Scan() {
		n++
	}
	if n != len(payloads) || s.Err() != nil {
		t.Errorf("%d frames, %v", n, s.Err())
	}
}

// Once the buffer has its size, scanning takes no memory a frame.
func TestScanDoesNotAllocate(t *testing.T) {
	each(t, func(t *testing.T, f frame.Framing, one []byte) {
		s := frame.NewScanner(&endless{data: one}, f)
		if allocs := testing.AllocsPerRun(10_000, func() { s.Scan() }); allocs > 0 {
			t.Errorf("%v allocations a frame", allocs)
		}
		var b frame.Batch
		s.ScanBatch(&b)
		s.ScanBatch(&b)
		if allocs := testing.AllocsPerRun(100, func() { s.ScanBatch(&b) }); allocs > 0.5 {
			t.Errorf("%v allocations a batch", allocs)
		}
	})
}

// endless is a stream that repeats itself.
type endless struct {
	data []byte
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		c := copy(p[n:], e.data[e.at:])
		n += c
		e.at = (e.at + c) % len(e.data)
	}
	return n, nil
}

// Whatever the input, frames and gaps add up to it, batches agree with single
// scans, and what is exact comes back from Append.
func FuzzScanner(f *testing.F) {
	for i, framing := range frame.Framings() {
		vectors, err := fixtures.Vectors(framing.Name())
		if err != nil {
			f.Fatal(err)
		}
		for _, v := range vectors {
			f.Add(uint8(i), v.Bytes, uint64(len(v.Bytes)))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, stream []byte, seed uint64) {
		framing := frame.Framings()[int(which)%len(frame.Framings())]
		setup := func(s *frame.Scanner) {
			s.SetLimit(1 << 12)
			s.SetAccept(func(p []byte, _ bool) bool { return len(p) > 0 && p[0] != 0xff })
			s.Resync()
		}
		got, s := scan(framing, frametest.Ragged(stream, seed), setup)
		if s.Err() != nil {
			t.Fatal(s.Err())
		}
		if !bytes.Equal(join(got), stream) {
			t.Fatalf("%s: raws do not add up to the stream", framing.Name())
		}
		if whole, _ := scan(framing, bytes.NewReader(stream), setup); !slices.Equal(described(got), described(whole)) {
			t.Fatalf("%s: read in pieces:\n%q\nat once:\n%q", framing.Name(), described(got), described(whole))
		}
		for i := range got {
			if frame.Exact(framing, &got[i]) {
				again, err := frame.Append(nil, framing, got[i].Payload())
				if err != nil || !bytes.Equal(again, got[i].Raw) {
					t.Fatalf("%s: %q came back as %q, %v", framing.Name(), got[i].Raw, again, err)
				}
			}
		}
		strict, s := scan(framing, bytes.NewReader(stream), func(s *frame.Scanner) { s.SetLimit(1 << 12) })
		if s.Err() == nil && !bytes.Equal(join(strict), stream) {
			t.Fatalf("%s: a clean end before the end", framing.Name())
		}
	})
}

func BenchmarkScan(b *testing.B) {
	payload := bytes.Repeat([]byte("x"), 2048)
	for _, f := range frame.Framings() {
		b.Run(f.Name(), func(b *testing.B) {
			var one []byte
			for range 64 {
				one, _ = frame.Append(one, f, payload)
			}
			s := frame.NewScanner(&endless{data: one}, f)
			b.SetBytes(int64(len(one) / 64))
			b.ReportAllocs()
			for b.Loop() {
				s.Scan()
			}
		})
	}
}

// A frame far larger than a read takes a number of reads, and of copies, that
// its size explains, also when nothing in it tells its size.
func TestLargeFramesAreReadInLinearTime(t *testing.T) {
	for _, f := range frame.Framings() {
		t.Run(f.Name(), func(t *testing.T) {
			const size = 4 << 20
			r := &countingReader{r: bytes.NewReader(stream(t, f, bytes.Repeat([]byte("x"), size)))}
			frames, s := scan(f, r)
			if len(frames) != 1 || frames[0].End-frames[0].Start != size || s.Err() != nil {
				t.Fatalf("%d frames, %v", len(frames), s.Err())
			}
			if r.reads > 40 {
				t.Errorf("%d reads", r.reads)
			}
		})
	}
}

type countingReader struct {
	r     io.Reader
	reads int
}

func (c *countingReader) Read(p []byte) (int, error) {
	c.reads++
	return c.r.Read(p)
}

// A header block that is too long is refused however it is read.
func TestHeaderBlockIsBounded(t *testing.T) {
	block := strings.Repeat("X-Padding: 0123456789\r\n", 1000) + "Content-Length: 2\r\n\r\n{}"
	for name, r := range map[string]io.Reader{
		"at once":    strings.NewReader(block),
		"in pieces":  iotest.HalfReader(strings.NewReader(block)),
		"every byte": iotest.OneByteReader(strings.NewReader(block)),
	} {
		if frames, s := scan(frame.Header, r); len(frames) != 0 || !errors.Is(s.Err(), frame.ErrMalformed) {
			t.Errorf("%s: %d frames, %v", name, len(frames), s.Err())
		}
	}
}

// Frames that are scanned where they lie are those that are read, however the
// stream was cut into pieces and whatever is wrong with it.
func TestScanIn(t *testing.T) {
	for _, framing := range frame.Framings() {
		stream := []byte("Content-Length: 2\r\n\r\n{}\n\n")
		for n := range 300 {
			stream, _ = frame.Append(stream, framing, []byte(strings.Repeat("x", n*n%977)))
			if n%97 == 96 {
				stream = append(stream, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
			}
		}
		all := frame.NewScanner(bytes.NewReader(stream), framing)
		all.Resync()
		var want, got []string
		for all.Scan() {
			want = describe(want, all.Frame())
		}
		rest := &pieces{}
		s := frame.NewScanner(rest, framing)
		s.Resync()
		rest.more = func() { // what the scanner has no frame of yet is read
			rest.data, stream = stream[:min(len(stream), 700)], stream[min(len(stream), 700):]
		}
		var b frame.Batch
		for s.ScanBatch(&b) {
			for i := range b.Frames {
				got = describe(got, &b.Frames[i])
			}
			n := s.Unread(len(rest.given))
			behind := append(bytes.Clone(rest.given[len(rest.given)-n:]), rest.data...)
			for len(behind) > 0 {
				n := s.ScanIn(behind, &b)
				for i := range b.Frames {
					got = describe(got, &b.Frames[i])
				}
				if behind = behind[n:]; len(b.Frames) == 0 {
					break
				}
			}
			rest.data = behind
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d frames, want %d", framing.Name(), len(got), len(want))
		}
	}
}

// TestScanInLongFault scans in place bytes of which more belong to no frame than fit into a gap,
// and than one read returns.
func TestScanInLongFault(t *testing.T) {
	for _, framing := range frame.Framings() {
		stream, _ := frame.Append(nil, framing, []byte(`{"n":1}`))
		stream = append(stream, bytes.Repeat([]byte{0xff, 'x', '='}, 50_000)...)
		for n := range 5 {
			stream, _ = frame.Append(append(stream, "\n\x00"...), framing, fmt.Appendf(nil, `{"n":%d}`, n))
		}
		scanner := func(r io.Reader) *frame.Scanner {
			s := frame.NewScanner(r, framing)
			s.SetLimit(70_000)
			s.ResyncAtOnce()
			return s
		}
		raw := func(got []byte, b *frame.Batch) []byte {
			for i := range b.Frames {
				got = append(got, b.Frames[i].Raw...)
			}
			return got
		}
		var b frame.Batch
		rest := &pieces{}
		s := scanner(rest)
		n := s.ScanIn(stream, &b)
		got := raw(nil, &b)
		more := stream[n:]
		rest.more = func() { rest.data, more = more[:min(len(more), 16<<10)], more[min(len(more), 16<<10):] }
		for s.ScanBatch(&b) {
			got = raw(got, &b)
		}
		if !bytes.Equal(got, stream) {
			t.Errorf("%s: %d bytes, want %d", framing.Name(), len(got), len(stream))
		}
	}
}

// describe adds what a frame is, and the fault that a gap is of, but for what that
// looks like, which may take more bytes than there were.
func describe(frames []string, f *frame.Frame) []string {
	var flaw string
	if fault := (*frame.Error)(nil); errors.As(f.Flaw, &fault) {
		flaw = fmt.Sprint(fault, fault.Err)
	}
	return append(frames, fmt.Sprint(f.Gap, f.Offset, f.Start, f.End, string(f.Raw), flaw))
}

func described(frames []frame.Frame) (all []string) {
	for i := range frames {
		all = describe(all, &frames[i])
	}
	return all
}

// pieces give what they have, and then more.
type pieces struct {
	data, given []byte
	more        func()
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.data) == 0 {
		p.more()
	}
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), 400)], p.data)
	p.given, p.data = p.data[:n], p.data[n:]
	return n, nil
}
