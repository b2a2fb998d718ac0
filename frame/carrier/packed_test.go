package carrier_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
)

type packer interface {
	io.WriteCloser
	Flush() error
}

var packers = []struct {
	name, encoding string
	begin          func(w io.Writer) packer
}{
	{"gzip", "gzip", func(w io.Writer) packer { return gzip.NewWriter(w) }},
	{"deflate", "deflate", func(w io.Writer) packer { return zlib.NewWriter(w) }},
	{"deflate, without its header", "deflate", func(w io.Writer) packer { c, _ := flate.NewWriter(w, 6); return c }},
	{"brotli", "br", func(w io.Writer) packer { return brotli.NewWriter(w) }},
	{"zstd", "zstd", func(w io.Writer) packer { c, _ := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)); return c }},
}

// pack compresses texts as one stream, which is flushed behind each of them, and
// returns what is written for each, and last what ends it.
func pack(begin func(io.Writer) packer, texts ...string) (pieces []string) {
	var b bytes.Buffer
	w := begin(&b)
	for _, text := range texts {
		_, _ = io.WriteString(w, text)
		_ = w.Flush()
		pieces = append(pieces, b.String())
		b.Reset()
	}
	_ = w.Close()
	return append(pieces, b.String())
}

func packedHead(encoding string) string {
	return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: " + encoding + "\r\nTransfer-Encoding: chunked\r\n\r\n"
}

// Events that are compressed come as soon as they are flushed, however the bytes
// are cut, and each takes the bytes that it came in.
func TestCompressedEvents(t *testing.T) {
	for _, p := range packers {
		t.Run(p.name, func(t *testing.T) {
			long := "data: [\"" + strings.Repeat("long", 20_000) + "\"]\n\n"
			texts := []string{"data: {}\r\n\r\n", "event: a\nid: 1\ndata: [1]\n\ndata: two\n\nda", "ta: {\"c\":\ndata: 3}\n\n", long}
			pieces := pack(p.begin, texts...)
			of := "u2c 1 http " + p.encoding
			want := [][]string{
				{`u2c 1 http response "HTTP/1.1 200 OK"`},
				{of + ` "{}"`},
				{of + ` a 1 "[1]"`, "u2c 1 http event " + p.encoding + ` "two"`},
				{of + ` "{\"c\":\n3}"`},
				{of + fmt.Sprintf(" %.60q", long[6:])},
				{"u2c 1 http end " + p.encoding},
			}
			wire := []string{packedHead(p.encoding)}
			for _, piece := range pieces[:len(texts)] {
				wire = append(wire, fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece))
			}
			last := pieces[len(texts)]
			wire = append(wire, fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(last), last))
			c := carrier.New(carrier.Options{})
			for i, data := range wire {
				var got []string
				for _, f := range c.Feed(frame.U2C, []byte(data)) {
					got = append(got, show(&f))
				}
				if diff := cmp.Diff(want[i], got); diff != "" {
					t.Errorf("behind piece %d (-want +got):\n%s", i, diff)
				}
			}
			_ = c.End(frame.U2C)
			whole := []part{{frame.U2C, strings.Join(wire, "")}}
			once := spread(whole, all)
			for _, n := range []func() int{one, some} {
				read(t, carrier.Options{}, whole, n)
				if diff := cmp.Diff(once, spread(whole, n)); diff != "" {
					t.Errorf("the frames depend on how the bytes are cut:\n%s", diff)
				}
			}
		})
	}
}

// spread returns how many bytes each frame takes.
func spread(parts []part, n func() int) (sizes []string) {
	c := carrier.New(carrier.Options{})
	add := func(frames []frame.Frame) {
		for ; len(frames) > 0; frames = c.More() {
			for _, f := range frames {
				sizes = append(sizes, fmt.Sprintf("%d %s", len(f.Raw), show(&f)))
			}
		}
	}
	for _, p := range parts {
		for data := []byte(p.data); len(data) > 0; {
			size := min(n(), len(data))
			add(c.Feed(p.dir, data[:size]))
			data = data[size:]
		}
	}
	add(c.End(frame.U2C))
	return sizes
}

// Events that are damaged are a gap, what was flushed of those that are cut is there,
// and what follows the end of what is compressed is nothing.
func TestDamagedEvents(t *testing.T) {
	begin := packers[0].begin
	pieces := pack(begin, "data: {}\n\n", "data: 2\n\n")
	body := strings.Join(pieces, "")
	sum := []byte(body)
	sum[len(sum)-5] ^= 1
	for _, tt := range []struct {
		about, body string
		want        []string
	}{
		{"no compression", "data: {}\n\n", []string{"u2c gap 13: frame 2 at byte 104: the events are not gzip: gzip: invalid header", "u2c gap 7: frame 2 at byte 104: the events are not gzip: gzip: invalid header"}},
		{"nothing", "", []string{"u2c 1 http end gzip"}},
		{"cut", pieces[0] + pieces[1][:4], []string{`u2c 1 http gzip "{}"`, "u2c 1 http end gzip"}},
		{"a wrong sum", string(sum), []string{
			`u2c 1 http gzip "{}"`, `u2c 1 http event gzip "2"`,
			"u2c gap 13: frame 4 at byte 145: the events are not gzip: gzip: invalid checksum", "u2c gap 7: frame 4 at byte 145: the events are not gzip: gzip: invalid checksum",
		}},
		{"over the limit", strings.Join(pack(begin, "data: 1\n\n", "data: "+strings.Repeat("x", 100_000)+"\n\n", "data: 2\n\n"), ""), []string{
			`u2c 1 http event gzip "1"`, "u2c gap", "u2c gap",
		}},
	} {
		for _, n := range []func() int{all, one} {
			got := read(t, carrier.Options{Limit: 1000}, []part{{frame.U2C, packedHead("gzip") + chunked(tt.body)}}, n)[1:]
			if len(got) == len(tt.want) {
				for i, want := range tt.want {
					if want == "u2c gap" {
						got[i] = got[i][:min(len(want), len(got[i]))]
					}
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.about, diff)
			}
		}
	}
}

// What follows the end of what is compressed belongs to the same body, and to nothing
// behind it.
func TestBehindCompressedEvents(t *testing.T) {
	for _, p := range packers[2:4] {
		body := strings.Join(pack(p.begin, "data: {}\n\n"), "") + strings.Repeat("x", 100_000)
		wire := packedHead(p.encoding) + chunked(body) + "HTTP/1.1 204 No Content\r\n\r\n"
		want := []string{
			`u2c 1 http response "HTTP/1.1 200 OK"`,
			"u2c 1 http " + p.encoding + ` "{}"`,
			"u2c 1 http end " + p.encoding,
			`u2c 2 http response "HTTP/1.1 204 No Content"`,
		}
		for _, n := range []func() int{all, one, func() int { return 1000 }} {
			if diff := cmp.Diff(want, read(t, carrier.Options{}, []part{{frame.U2C, wire}}, n)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", p.name, diff)
			}
			toEnd := strings.Replace(packedHead(p.encoding), "Transfer-Encoding: chunked\r\n", "", 1) + body
			if diff := cmp.Diff(want[:3], read(t, carrier.Options{}, []part{{frame.U2C, toEnd}}, n)); diff != "" {
				t.Errorf("%s, up to the end of the connection (-want +got):\n%s", p.name, diff)
			}
		}
	}
}

// A few bytes that are compressed are not taken for more events than anybody sends.
func TestManyCompressedEvents(t *testing.T) {
	body := strings.Join(pack(packers[0].begin, strings.Repeat("data:1\n\n", 1<<17)), "")
	for _, n := range []func() int{all, one} {
		events := 0
		lines := read(t, carrier.Options{}, []part{{frame.U2C, packedHead("gzip") + chunked(body)}}, n)
		for _, line := range lines {
			if strings.HasSuffix(line, ` http event gzip "1"`) {
				events++
			}
		}
		last := lines[len(lines)-1]
		if events > 1<<15 || !strings.Contains(last, "compressed bytes") {
			t.Errorf("%d events, and then: %s", events, last)
		}
	}
}

// What a WebSocket message refers to that came before one which could not be read is
// not known: it is damaged, and not what it would be without that one.
func TestLostMessage(t *testing.T) {
	const hello, again = "\xc1\x07\xf2\x48\xcd\xc9\xc9\x07\x00", "\xc1\x05\xf2\x00\x11\x00\x00"
	zeros := pack(func(w io.Writer) packer { c, _ := flate.NewWriter(w, 6); return c }, strings.Repeat("0", 200))[0]
	const whole, damaged = `u2c 0 ws text deflate "Hello"`, "u2c 0 ws damaged text"
	for _, tt := range []struct {
		about, lost string
		want        string // of what refers to the message before it
	}{
		{"damaged", "\xc1\x01\xff", damaged},
		{"too large on the wire", "\xc1\x7e\x00\x80" + strings.Repeat("0", 128), damaged},
		{"too large in fragments", "\x41\x40" + strings.Repeat("0", 64) + "\x80\x40" + strings.Repeat("0", 64), damaged},
		{"too large once it is decompressed", "\xc1" + string([]byte{byte(len(zeros) - 4)}) + zeros[:len(zeros)-4], damaged},
		{"too large, and not compressed", "\x81\x7e\x00\x80" + strings.Repeat("0", 128), whole},
	} {
		wire := agreed + hello + tt.lost + again + hello + again
		for _, n := range []func() int{all, one} {
			lines := read(t, carrier.Options{Limit: 99}, []part{{frame.U2C, wire}}, n)
			last := lines[len(lines)-3:]
			if !strings.HasPrefix(last[0], tt.want) || last[1] != whole || last[2] != whole {
				t.Errorf("%s: %s", tt.about, strings.Join(last, "\n"))
			}
		}
	}
}

// What many bodies or messages hold that came at once is not held at once: a few bytes
// may be any number once they are decompressed.
func TestMuchDecompressed(t *testing.T) {
	const size, count = 1 << 20, 4
	body := strings.Join(pack(packers[3].begin, strings.Repeat("0", size)), "")
	response := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	deflated := pack(packers[2].begin, strings.Repeat("0", size))[0]
	deflated = deflated[:len(deflated)-4] // what ends each of them
	message := "\xc1\x7e" + string(binary.BigEndian.AppendUint16(nil, uint16(len(deflated)))) + deflated
	for _, tt := range []struct{ about, wire string }{
		{"bodies", strings.Repeat(response, count)},
		{"a body that the end of the connection ends", strings.Repeat(response, count-1) + strings.Replace(response, "Content-Length", "Length", 1)},
		{"messages", agreed + strings.Repeat(message, count)},
	} {
		c := carrier.New(carrier.Options{})
		read, most := 0, 0
		take := func(frames []frame.Frame) {
			for ; len(frames) > 0; frames = c.More() {
				held := 0
				for _, f := range frames {
					held += f.Size()
				}
				read, most = read+held, max(most, held)
			}
		}
		take(c.Feed(frame.U2C, []byte(tt.wire)))
		take(c.End(frame.U2C))
		if read != count*size || most > 2*size {
			t.Errorf("%s: read %d bytes, and up to %d at once", tt.about, read, most)
		}
	}
}

// Events hold no more than text can that is compressed.
func TestSwollenEvents(t *testing.T) {
	const limit = 64 << 10
	event := "data: " + strings.Repeat("0", limit-1) + "\n\n"
	body := strings.Join(pack(packers[3].begin, strings.Repeat(event, 100)), "")
	for _, n := range []func() int{all, one} {
		lines := read(t, carrier.Options{Limit: limit}, []part{{frame.U2C, packedHead("br") + chunked(body)}}, n)
		events := 0
		for _, line := range lines {
			if strings.Contains(line, " http event br ") {
				events++
			}
		}
		if last := lines[len(lines)-1]; events > 40 || !strings.Contains(last, "compressed bytes") {
			t.Errorf("%d events, and then: %s", events, last)
		}
	}
}

// chunked is a body in one chunk.
func chunked(body string) string {
	if body == "" {
		return "0\r\n\r\n"
	}
	return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
}

// The streams of compressed events that are open at once are bounded, and those that
// were reset, or have ended, are not open.
func TestManyCompressedStreams(t *testing.T) {
	body := pack(packers[0].begin, "data: {}\n\n")
	head := "\x88\x0f\x10\x11text/event-stream\x0f\x0b\x04gzip"
	begin := func(stream byte) string { return h2Frame(1, 4, stream, head) + h2Frame(0, 0, stream, body[0]) }
	for _, tt := range []struct {
		about string
		end   func(stream byte) string
		want  bool // all are read
	}{
		{"open", func(byte) string { return "" }, false},
		{"ended", func(stream byte) string { return h2Frame(0, 1, stream, body[1]) }, true},
		{"reset", func(stream byte) string { return h2Frame(3, 0, stream, "\x00\x00\x00\x08") }, true},
	} {
		wire := h2Frame(4, 0, 0, "")
		for i := range byte(40) {
			wire += begin(2*i+1) + tt.end(2*i+1)
		}
		events, faults := 0, 0
		for _, line := range read(t, carrier.Options{}, []part{{frame.U2C, wire}}, all) {
			switch {
			case strings.HasSuffix(line, ` http gzip "{}"`):
				events++
			case strings.Contains(line, "streams of compressed events at once"):
				faults++
			}
		}
		if got := events == 40 && faults == 0; got != tt.want || events < 8 {
			t.Errorf("%s: %d events and %d faults", tt.about, events, faults)
		}
	}
}
