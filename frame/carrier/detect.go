package carrier

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/net/http/httpguts"

	"github.com/wirectl/wirectl/frame"
)

// A Guess is the carrier of a connection, by the first bytes of one direction.
type Guess struct {
	Kind Kind
	// Dir is the direction of the bytes, if known.
	Dir frame.Dir
	// Why is the reason.
	Why string
	// More means that more bytes are needed.
	More bool
}

const (
	preface  = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	response = "HTTP/1."
)

// HeadSize is the most bytes that [Detect] asks for. Longer request lines are not detected.
const HeadSize = 8 << 10

var requestLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z]{3,16} [^ \r\n]+ HTTP/1\.[01]$`) })

// Detect detects the carrier of a connection by the first bytes of one direction. It asks
// for more only while they may begin another carrier than a plain stream.
func Detect(head []byte, atEOF bool) Guess {
	for _, look := range []func([]byte) Guess{preamble, statusLine, request, settings} {
		if g := look(head); g.Kind != Auto || g.More && !atEOF {
			return g
		}
	}
	return Guess{Kind: Plain, Why: "it begins like no other carrier"}
}

func preamble(head []byte) Guess {
	return begins(head, preface, Guess{Kind: H2, Dir: frame.C2U, Why: "it begins with the preface of HTTP/2"})
}

func statusLine(head []byte) Guess {
	return begins(head, response, Guess{Kind: HTTP1, Dir: frame.U2C, Why: "it begins with the status line of an HTTP response"})
}

// begins returns g if head begins with a prefix.
func begins(head []byte, prefix string, g Guess) Guess {
	switch {
	case bytes.HasPrefix(head, []byte(prefix)):
		return g
	case bytes.HasPrefix([]byte(prefix), head):
		return Guess{More: true}
	}
	return Guess{}
}

func request(head []byte) Guess {
	line, _, whole := bytes.Cut(head[:min(len(head), HeadSize)], []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	switch {
	case whole && requestLine().Match(line):
		return Guess{Kind: HTTP1, Dir: frame.C2U, Why: "it begins with the request line of HTTP"}
	case !whole && len(head) < HeadSize && mayBeRequest(line):
		return Guess{More: true}
	}
	return Guess{}
}

// mayBeRequest reports whether the beginning of a line may become a request
// line.
func mayBeRequest(line []byte) bool {
	method, rest, spaced := bytes.Cut(line, []byte(" "))
	if slices.ContainsFunc(method, func(c byte) bool { return !isUpper(c) }) || len(method) > 16 || spaced && len(method) < 3 {
		return false
	}
	target, version, ended := bytes.Cut(rest, []byte(" "))
	return bytes.IndexByte(target, '\r') < 0 && (!ended || len(target) > 0 &&
		(bytes.HasPrefix([]byte("HTTP/1.1"), version) || bytes.HasPrefix([]byte("HTTP/1.0"), version)))
}

// settings detects an HTTP/2 server by its settings.
func settings(head []byte) Guess {
	begin := []byte{0, 0}
	if !bytes.HasPrefix(head, begin[:min(len(head), 2)]) || len(head) > 2 && head[2]%6 != 0 {
		return Guess{}
	}
	fixed := []byte{4, 0, 0, 0, 0, 0}
	if len(head) > 3 && !bytes.HasPrefix(fixed, head[3:min(len(head), frameHeader)]) {
		return Guess{}
	}
	if len(head) < frameHeader+6 {
		return Guess{More: true}
	}
	known := func() bool {
		if head[2] == 0 { // then the frame behind it has to look like one
			return head[frameHeader] == 0 && head[frameHeader+3] <= 0x10 && head[frameHeader+5]&0x80 == 0 && head[frameHeader+3] != 0
		}
		id := binary.BigEndian.Uint16(head[frameHeader:])
		return 1 <= id && id <= 0x10
	}
	if known() {
		return Guess{Kind: H2, Dir: frame.U2C, Why: "it begins with the settings of an HTTP/2 server"}
	}
	return Guess{}
}

// A Delimiter finds the end of a body of HTTP/1.1. It accepts some things that a strict peer
// rejects, and reports them in Flaw.
type Delimiter struct {
	// Flaw is the first thing in this body that net/http rejects.
	Flaw error

	state  delimiting
	left   int64 // bytes of the body, or of the chunk
	excess int64 // bytes around chunks beyond what net/http allows for
}

type delimiting uint8

const (
	bodyEnded delimiting = iota
	inLength
	inChunkSize
	inChunk
	inChunkEnd
	inTrailers
	untilClose
)

// Begin begins a body of a size. One without a length ends with the stream.
func (d *Delimiter) Begin(size BodySize) {
	*d = Delimiter{left: size.Length, state: inLength}
	switch {
	case size.Chunked:
		d.state = inChunkSize
	case size.Length < 0:
		d.state = untilClose
	case size.Length == 0:
		d.state = bodyEnded
	}
}

// Ended reports whether the body is complete.
func (d *Delimiter) Ended() bool { return d.state == bodyEnded }

// maxLine is how long a line between chunks may be, in bytes.
const maxLine = 16 << 10

// Next consumes the first n bytes of data, which is not empty. They are content or chunk
// framing. If n is 0, it needs more data.
func (d *Delimiter) Next(data []byte) (n int, content bool, err error) {
	switch d.state {
	case untilClose:
		return len(data), true, nil
	case inLength, inChunk:
		n = int(min(d.left, int64(len(data))))
		if d.left -= int64(n); d.left == 0 {
			d.state = map[delimiting]delimiting{inLength: bodyEnded, inChunk: inChunkEnd}[d.state]
		}
		return n, true, nil
	}
	n = bytes.IndexByte(data[:min(len(data), maxLine+1)], '\n') + 1
	if n == 0 {
		if len(data) > maxLine {
			return 0, false, fmt.Errorf("%w: a line between chunks is over %d bytes", frame.ErrTooLarge, maxLine)
		}
		return 0, false, nil
	}
	line, crlf := bytes.CutSuffix(data[:n-1], []byte("\r"))
	if !crlf && d.state != inTrailers {
		d.noteError(errors.New("a line between chunks ends with a bare LF"))
	}
	return n, false, d.line(line)
}

// line handles a line between chunks, without its end.
func (d *Delimiter) line(line []byte) error {
	switch d.state {
	case inChunkSize:
		return d.chunkSize(line)
	case inChunkEnd:
		d.state = inChunkSize
		if len(line) > 0 {
			return fmt.Errorf("%w: a chunk is longer than its size: %.40q", frame.ErrMalformed, line)
		}
	case inTrailers:
		name, _, isField := bytes.Cut(line, []byte(":"))
		switch {
		case len(line) == 0:
			d.state = bodyEnded
		case !isField || !httpguts.ValidHeaderFieldName(string(name)):
			d.noteError(fmt.Errorf("%.40q is not a trailer", line))
		}
	}
	return nil
}

func (d *Delimiter) chunkSize(line []byte) error {
	text, _, _ := bytes.Cut(line, []byte(";"))
	digits := bytes.TrimSpace(text)
	n, err := strconv.ParseUint(string(digits), 16, 62)
	if err != nil {
		return fmt.Errorf("%w: %.40q is not a chunk size", frame.ErrMalformed, line)
	}
	// net/http allows as much framing as content in a chunk, and 16 bytes.
	if d.excess = max(0, d.excess+int64(len(line))+2-16-2*int64(n)); d.excess > 16<<10 {
		d.noteError(errors.New("more bytes of chunk headers than of chunks"))
	}
	switch {
	case bytes.IndexByte(line, '\r') >= 0:
		d.noteError(errors.New("a CR inside a chunk size"))
	case len(digits) > 16 || len(line) >= 4<<10 || text[0] == ' ' || text[0] == '\t':
		d.noteError(fmt.Errorf("the chunk size is %.40q", line))
	}
	d.left, d.state = int64(n), inChunk
	if n == 0 {
		d.state = inTrailers
	}
	return nil
}

func (d *Delimiter) noteError(err error) {
	if d.Flaw == nil {
		d.Flaw = rejectedf("%w", err)
	}
}
