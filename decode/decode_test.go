package decode_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/test/kit/frametest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run decodes a stream and returns what the view shows.
func run(t testing.TB, r io.Reader, cfg decode.Config, view func() decode.View) (string, decode.Result, error) {
	t.Helper()
	var out bytes.Buffer
	result, err := decode.Run(t.Context(), decode.Input{Stream: r}, &out, cfg, view)
	return out.String(), result, err
}

// manyFrames is a stream of a good many batches, each frame of which has its
// number as its id.
func manyFrames(t testing.TB, n int) []byte {
	t.Helper()
	var b []byte
	for i := range n {
		payload := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"x":%q}}`, i+1, strings.Repeat("é", i%500))
		var err error
		if b, err = frame.Append(b, frame.Len32, []byte(payload)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// However many workers there are, the output is the same, in the same order.
func TestOrderIsThatOfTheInput(t *testing.T) {
	stream := manyFrames(t, 20_000)
	one, _, err := run(t, bytes.NewReader(stream), decode.Config{Workers: 1}, decode.NDJSON)
	if err != nil || strings.Count(one, "\n") != 20_000 {
		t.Fatal(err)
	}
	for _, workers := range []int{2, 3, 8} {
		many, result, err := run(t, iotest.HalfReader(bytes.NewReader(stream)), decode.Config{Workers: workers}, decode.NDJSON)
		if err != nil || result.Frames != 20_000 {
			t.Fatal(result, err)
		}
		if many != one {
			t.Errorf("%d workers put out something else than one", workers)
		}
	}
}

// Where one view is to see all frames, it sees them in their order and never two
// at once, and what surrounds it surrounds each batch.
func TestOneViewSeesAllInOrder(t *testing.T) {
	stream := manyFrames(t, 20_000)
	for _, workers := range []int{1, 2, 3, 8} {
		next, batches, open := int64(1), 0, false
		cfg := decode.Config{Workers: workers, InOrder: true, Around: func(show func()) {
			open = true
			show()
			open = false
			batches++
		}}
		view := func(dst []byte, it *decode.Item) ([]byte, error) {
			if it.Seq != next || string(it.Message.ID.Text) != fmt.Sprint(next) || !open {
				return dst, fmt.Errorf("frame %d with the id %s, and frame %d was to come", it.Seq, it.Message.ID.Text, next)
			}
			next++
			return dst, nil
		}
		_, _, err := run(t, bytes.NewReader(stream), cfg, func() decode.View { return view })
		if err != nil || next != 20_001 || batches < 2 {
			t.Errorf("%d workers: %d frames in %d batches, %v", workers, next-1, batches, err)
		}
	}
}

// A live stream is shown as it comes: a frame does not wait for the next one.
func TestLiveStreamIsShownAsItComes(t *testing.T) {
	in, source := io.Pipe()
	sink, out := io.Pipe()
	done := make(chan error)
	go func() {
		_, err := decode.Run(context.Background(), decode.Input{Stream: in}, out, decode.Config{Workers: 2}, decode.NDJSON)
		out.Close()
		done <- err
	}()
	line := make([]byte, 1<<16)
	for i := range 3 {
		fmt.Fprintf(source, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", i)
		n, err := sink.Read(line)
		if err != nil || !strings.Contains(string(line[:n]), fmt.Sprintf(`"id":%d,`, i)) {
			t.Fatalf("%s %v", line[:n], err)
		}
	}
	source.Close()
	if _, err := sink.Read(line); err != io.EOF {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A reader that goes away ends the run with its error and leaves no goroutine.
func TestWriteErrorEndsTheRun(t *testing.T) {
	gone := errors.New("gone")
	for _, workers := range []int{1, 4} {
		_, err := decode.Run(t.Context(), decode.Input{Stream: bytes.NewReader(manyFrames(t, 20_000))}, failing{gone}, decode.Config{Workers: workers}, decode.NDJSON)
		if !errors.Is(err, gone) {
			t.Errorf("%d workers: %v", workers, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestCancelEndsTheRun(t *testing.T) {
	for _, workers := range []int{1, 4} {
		ctx, cancel := context.WithCancel(context.Background())
		var seen int
		_, err := decode.Run(ctx, decode.Input{Stream: bytes.NewReader(manyFrames(t, 50_000))}, cancelAfterFirst{cancel, &seen}, decode.Config{Workers: workers}, decode.NDJSON)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%d workers: %v", workers, err)
		}
	}
}

type cancelAfterFirst struct {
	cancel func()
	n      *int
}

func (c cancelAfterFirst) Write(p []byte) (int, error) {
	c.cancel()
	return len(p), nil
}

func TestSkipAndHeadCountMatchingFrames(t *testing.T) {
	even := func(it *decode.Item) bool { return it.Seq%2 == 0 }
	out, _, err := run(t, bytes.NewReader(manyFrames(t, 1000)), decode.Config{Workers: 4, Match: even, Skip: 2, Head: 3}, seqs)
	if err != nil || out != "6 8 10 " {
		t.Errorf("%q %v", out, err)
	}
}

func seqs() decode.View {
	return func(dst []byte, it *decode.Item) ([]byte, error) { return fmt.Appendf(dst, "%d ", it.Seq), nil }
}

func TestCountsAreTheSumOfTheWorkers(t *testing.T) {
	var c decode.Counter
	if _, _, err := run(t, bytes.NewReader(manyFrames(t, 5000)), decode.Config{Workers: 4, Counter: &c}, nil); err != nil {
		t.Fatal(err)
	}
	counts := c.Counts()
	var frames int64
	for _, n := range counts {
		frames += n.Frames
	}
	if frames != 5000 || counts[0].Kind != "tools/call" {
		t.Errorf("%+v", counts)
	}
}

// To count changes no byte of what is counted, also where a kind is cut to be shown.
func TestCountLeavesThePayload(t *testing.T) {
	stream := fmt.Sprintf(`{"jsonrpc":"2.0","method":%q}`+"\n", strings.Repeat("long", 100))
	var payload []byte
	keep := func(it *decode.Item) bool { payload = it.Payload; return true }
	var c decode.Counter
	if _, _, err := run(t, strings.NewReader(stream), decode.Config{Workers: 1, Counter: &c, Match: keep}, nil); err != nil {
		t.Fatal(err)
	}
	if string(payload)+"\n" != stream || len(c.Counts()[0].Kind) > 150 {
		t.Errorf("%s, of %+v", payload, c.Counts())
	}
}

// Bytes are counted without a look at each; that changes nothing of what is counted.
func TestCountsOfBytesAreThoseOfItems(t *testing.T) {
	streams := map[string][]byte{
		"gaps":       []byte("x\n\n{}\r\n\xff\n"),
		"compressed": []byte("\x00\x00\x00\x00\x01a\x01\x00\x00\x00\x02bb\x00\x00\x00\x00\x01c"),
		"cut":        []byte("\x00\x00\x00\x01a\x00\x00\x00\x02b"),
	}
	for _, name := range fixtures.Files() {
		stream, err := fixtures.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		streams[name] = stream
	}
	for name, stream := range streams {
		for _, f := range frame.Framings() {
			var each, run decode.Counter
			cfg := decode.Config{Framing: f, Protocol: opaque.Bytes, Resync: true, Workers: 1}
			count := func(c *decode.Counter, match func(*decode.Item) bool) decode.Result {
				cfg.Counter, cfg.Match = c, match
				result, err := decode.Run(t.Context(), decode.Input{Stream: bytes.NewReader(stream)}, io.Discard, cfg, nil)
				if err != nil {
					t.Fatal(err)
				}
				result.First = nil
				return result
			}
			want := count(&each, func(*decode.Item) bool { return true })
			if got := count(&run, nil); got != want || !slices.Equal(run.Counts(), each.Counts()) {
				t.Errorf("%s as %s: %+v %v, want %+v %v", name, f.Name(), got, run.Counts(), want, each.Counts())
			}
		}
	}
}

// faulty are the fixtures that hold a fault on purpose.
var faulty = map[string]int64{"nexus-errors/c2s.bin": 1, "rlm-errors/c2s.bin": 1, "rlm-oversize/c2s.bin": 1, "acp-v1-claude/c2s.bin": 1, "acp-v2-claude/c2s.bin": 1, "pi-rpc/c2s.bin": 1}

// Every recorded stream decodes without a fault, and comes back from its
// NDJSON byte for byte.
func TestFixturesComeBack(t *testing.T) {
	for _, name := range fixtures.Files() {
		t.Run(name, func(t *testing.T) {
			want, err := fixtures.Read(name)
			if err != nil {
				t.Fatal(err)
			}
			out, result, err := run(t, bytes.NewReader(want), decode.Config{Workers: 2, Resync: true}, decode.NDJSON)
			if err != nil || result.Faults != faulty[name] || result.Frames == 0 {
				t.Fatalf("%+v, %v", result, err)
			}
			if got := encoded(t, out); !bytes.Equal(got, want) {
				t.Errorf("came back as something else")
			}
		})
	}
}

// The first fault is named with its place, however many workers there are and
// whatever is shown: one of a payload by its record's number, one of the framing by
// its own words.
func TestFirstFault(t *testing.T) {
	jsonrpc, _ := all.Named("jsonrpc")
	line := `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n"
	many := strings.Repeat(line, 50_000)
	none := func(*decode.Item) bool { return false }
	for _, workers := range []int{1, 2, 8} {
		cfg := decode.Config{Framing: frame.Line, Protocol: jsonrpc, Workers: workers, Match: none}
		in := strings.NewReader(many + "[INFO] started\n" + many + "oops\n" + line)
		_, result, err := run(t, in, cfg, decode.NDJSON)
		var fault *decode.Fault
		if err != nil || result.Faults != 2 || !errors.As(result.First, &fault) {
			t.Fatal(result, err)
		}
		if fault.Frame != 50_001 || fault.Offset != int64(len(many)) || fault.Accident() != frame.LogLine {
			t.Error(fault)
		}

		cfg.Framing, cfg.Resync = frame.Len32, true
		in = strings.NewReader("\x00\x00\x00\x02{}HTTP/1.1 200 OK\r\n\r\n")
		_, result, err = run(t, in, cfg, decode.NDJSON)
		var lost *frame.Error
		if err != nil || !errors.As(result.First, &lost) || lost.Frame != 2 || lost.Offset != 6 {
			t.Error(result, err)
		}

		if _, result, err = run(t, strings.NewReader("\n"+line+"\n"), decode.Config{Workers: workers}, decode.NDJSON); err != nil || result.First != nil {
			t.Error(result, err)
		}
	}
}

// encoded returns what encode makes of NDJSON.
func encoded(t testing.TB, ndjson string) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := convert.Encode(t.Context(), strings.NewReader(ndjson), &out, convert.EncodeConfig{}); err != nil {
		t.Fatalf("%v in\n%s", err, ndjson)
	}
	return out.Bytes()
}

// A gRPC message that says it is small and is not is refused before it fills
// the memory.
func TestDecompressionIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, and one goroutine reads")
	}
	bomb, err := frame.Append(nil, frame.GRPC, gzipped(t, make([]byte, 64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	bomb[0] = 1
	latis, _ := all.Named("latis")
	out, result, err := run(t, bytes.NewReader(bomb), decode.Config{Framing: frame.GRPC, Protocol: latis, Workers: 1}, decode.NDJSON)
	if err != nil || result.Faults != 1 || !strings.Contains(out, "over the limit of 16777216 bytes") {
		t.Errorf("%.200s %+v %v", out, result, err)
	}
}

// Whatever the input, framing and protocol, decoding to NDJSON with resync and
// encoding gives it back.
func FuzzIdentity(f *testing.F) {
	for i, name := range fixtures.Files() {
		b, err := fixtures.Read(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:min(len(b), 2000)], uint8(0), uint8(0), uint64(i))
	}
	for _, dir := range fixtures.VectorDirs() {
		vectors, err := fixtures.Vectors(dir)
		if err != nil {
			f.Fatal(err)
		}
		for _, v := range vectors {
			f.Add(v.Bytes, uint8(1), uint8(1), uint64(len(v.Bytes)))
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte, framing, proto uint8, seed uint64) {
		cfg := decode.Config{Resync: true, Workers: 1, Limit: 1 << 16, Framing: pick(frame.Framings(), framing), Protocol: pick(all.List(), proto)}
		out, _, err := run(t, frametest.Ragged(stream, seed), cfg, decode.NDJSON)
		if err != nil && !errors.Is(err, frame.ErrUnknown) {
			t.Fatal(err)
		}
		if got := encoded(t, out); !bytes.Equal(got, stream) {
			t.Fatalf("%q came back as %q by\n%s", stream, got, out)
		}
	})
}

// pick chooses from a list, or nothing, which means to detect.
func pick[T any](list []T, n uint8) (none T) {
	if n %= uint8(len(list) + 1); n > 0 {
		return list[n-1]
	}
	return none
}

func BenchmarkDecode(b *testing.B) {
	stream := manyFrames(b, 5000)
	for name, cfg := range map[string]decode.Config{
		"count":  {Counter: new(decode.Counter)},
		"walk":   {Counter: new(decode.Counter), Framing: frame.Len32, Protocol: opaque.Bytes},
		"ndjson": {},
	} {
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/workers=%d", name, workers), func(b *testing.B) {
				b.SetBytes(int64(len(stream)))
				b.ReportAllocs()
				cfg.Workers = workers
				for b.Loop() {
					_, err := decode.Run(b.Context(), decode.Input{Stream: bytes.NewReader(stream)}, io.Discard, cfg, decode.NDJSON)
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// An input that cannot be read at all is not an empty one.
func TestReadErrorAheadOfAllFrames(t *testing.T) {
	broken := errors.New("broken")
	if _, _, err := run(t, iotest.ErrReader(broken), decode.Config{Workers: 1}, decode.NDJSON); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if out, result, err := run(t, strings.NewReader(""), decode.Config{Workers: 1}, decode.NDJSON); out != "" || result.Frames != 0 || err != nil {
		t.Errorf("%s, %+v, %v", out, result, err)
	}
}

// What a message is cannot be told from its compressed bytes.
func TestCompressedMessagesTellNoProtocol(t *testing.T) {
	const rpc = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	stream := "\x00\x00\x00\x00\x02zz" + "\x01\x00\x00\x00" + string(rune(len(rpc))) + rpc
	cfg := decode.Config{Workers: 1, Framing: frame.GRPC, Compression: "identity"}
	for form, in := range map[string]decode.Input{
		"stream":  {Stream: strings.NewReader(stream)},
		"capture": {Capture: recordingOf(t, stream, cfg)},
	} {
		var out bytes.Buffer
		if _, err := decode.Run(t.Context(), in, &out, cfg, decode.NDJSON); err != nil || strings.Count(out.String(), `"protocol":"bytes"`) != 2 {
			t.Errorf("%s: %v\n%s", form, err, &out)
		}
	}
}

// What a payload tells of the protocol holds from there on for what is skipped, too,
// however much was read by then.
func TestResyncByTheProtocolThatWasLearnt(t *testing.T) {
	stream := "\x00\x00\x00\x05hello" + "\x00\x00\x00\x07{\"a\":1}" + "\xff\xff\xff\xff" +
		"\x00\x00\x00\x05again" + strings.Repeat("\x00\x00\x00\x07{\"a\":2}", 3)
	for how, r := range map[string]io.Reader{
		"at once":       strings.NewReader(stream),
		"one byte each": iotest.OneByteReader(strings.NewReader(stream)),
	} {
		out, result, err := run(t, r, decode.Config{Workers: 1, Framing: frame.Len32, Resync: true}, decode.NDJSON)
		if err != nil || result.Frames != 5 || result.Faults != 1 || result.Skipped.Bytes != 13 {
			t.Errorf("%s: %+v, %v\n%s", how, result, err, out)
		}
	}
}

// What is larger than any payload may be by default is detected where the limit
// allows it.
func TestDetectionKnowsTheLimit(t *testing.T) {
	payload := []byte(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"x":"` + strings.Repeat("x", frame.DefaultLimit) + `"}}}`)
	for _, f := range []frame.Framing{frame.Len32, frame.GRPC, frame.Header, frame.Varint} {
		stream, err := frame.Append(nil, f, payload)
		if err != nil {
			t.Fatal(err)
		}
		_, result, err := run(t, bytes.NewReader(stream), decode.Config{Limit: 2 * frame.DefaultLimit, Workers: 1}, decode.NDJSON)
		if err != nil || result.Framing != f || result.Frames != 1 {
			t.Errorf("%s is taken for %v, of %d frames: %v", f.Name(), result.Framing, result.Frames, err)
		}
		_, _, err = run(t, bytes.NewReader(stream), decode.Config{Workers: 1}, decode.NDJSON)
		if !errors.Is(err, frame.ErrTooLarge) {
			t.Errorf("%s over the limit: %v", f.Name(), err)
		}
	}
}

// What a fault makes unreadable is one line of text, in however many pieces and batches
// it comes, and counts as one; NDJSON has every piece.
func TestOneLineForAFault(t *testing.T) {
	good := []byte("\x00\x00\x00\x05\n\x012b\x00")
	long := append([]byte("\x00\x30\x00\x00"), make([]byte, 3<<20)...)
	stream := slices.Concat(good, long, good, long, good)
	cfg := decode.Config{Framing: frame.Len32, Limit: 1000, Resync: true, Lines: true, Reframe: convert.Reframe(convert.EncodeConfig{})}
	pieces, _, _ := run(t, bytes.NewReader(stream), cfg, decode.NDJSON)
	if n := strings.Count(pieces, `"skipped"`); n < 96 {
		t.Errorf("NDJSON has %d pieces", n)
	}
	text := decode.Text{Style: &render.Style{}}
	for _, workers := range []int{1, 2, 8} {
		cfg.Workers = workers
		for _, in := range []string{string(stream), pieces} {
			cfg.Framing = map[bool]frame.Framing{true: frame.Len32}[in != pieces]
			input, err := decode.Open(strings.NewReader(in), cfg)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if _, err := decode.Run(t.Context(), input, &out, cfg, text.View); err != nil {
				t.Error(err)
			}
			if lines, skipped := strings.Count(out.String(), "\n"), strings.Count(out.String(), "65536+ frame"); lines != 5 || skipped != 2 {
				t.Errorf("%d workers: %d lines, of which %d skipped:\n%s", workers, lines, skipped, out.String())
			}
		}
	}
	cfg.Framing, cfg.Head = frame.Len32, 4
	if out, _, _ := run(t, bytes.NewReader(stream), cfg, text.View); strings.Count(out, "\n") != 4 || strings.Count(out, "65536+") != 2 {
		t.Errorf("four lines are\n%s", out)
	}
}
