package carrier

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"slices"
	"sync"

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
