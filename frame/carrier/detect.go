package carrier

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"sync"

	"github.com/wirectl/wirectl/frame"
)

// A Guess is what the first bytes of one direction tell of a connection.
type Guess struct {
	Kind Kind
	// Dir is the direction that such bytes travel in, if they tell.
	Dir frame.Dir
	// Why says what in the bytes speaks for the carrier.
	Why string
	// More says that it takes more bytes to tell.
	More bool
}

const (
	preface  = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	response = "HTTP/1."
)

// HeadSize is the most bytes that [Detect] asks for: so long may a request line be to
// be known for one.
const HeadSize = 8 << 10

// A request line is known by its method, its target and its version.
var requestLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z]{3,16} [^ \r\n]+ HTTP/1\.[01]$`) })

// Detect tells the carrier of a connection by the first bytes of one of its
// directions. It asks for more only while they may begin a carrier other than
// a plain stream.
func Detect(head []byte, atEOF bool) Guess {
	for _, look := range []func([]byte) Guess{preamble, statusLine, request, settings} {
		if g := look(head); g.Kind != Auto || g.More && !atEOF {
			return g
		}
	}
	return Guess{Kind: Plain, Why: "it begins like no other carrier"}
}

func preamble(head []byte) Guess {
	switch {
	case bytes.HasPrefix(head, []byte(preface)):
		return Guess{Kind: H2, Dir: frame.C2U, Why: "it begins with the preface of HTTP/2"}
	case bytes.HasPrefix([]byte(preface), head):
		return Guess{More: true}
	}
	return Guess{}
}

func statusLine(head []byte) Guess {
	switch {
	case bytes.HasPrefix(head, []byte(response)):
		return Guess{Kind: HTTP1, Dir: frame.U2C, Why: "it begins with the status line of an HTTP response"}
	case bytes.HasPrefix([]byte(response), head):
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
	for _, c := range method {
		if !isUpper(c) {
			return false
		}
	}
	if len(method) > 16 || spaced && len(method) < 3 {
		return false
	}
	target, version, ended := bytes.Cut(rest, []byte(" "))
	return bytes.IndexByte(target, '\r') < 0 && (!ended || len(target) > 0 &&
		(bytes.HasPrefix([]byte("HTTP/1.1"), version) || bytes.HasPrefix([]byte("HTTP/1.0"), version)))
}

// settings knows the direction of an HTTP/2 server, which begins with its
// settings.
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
