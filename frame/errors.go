package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// The reasons why there is no frame, other than a clean end.
var (
	ErrTruncated = errors.New("the stream ended inside a frame")
	ErrTooLarge  = errors.New("the payload is over the limit")
	ErrMalformed = errors.New("not a frame")
)

// An Error is a fault of the framing: where it is and what was found.
type Error struct {
	// Err is [ErrTruncated], [ErrTooLarge] or [ErrMalformed], or the error of
	// the reader.
	Err error
	// Frame is the number of the frame that could not be read, from 1.
	Frame int64
	// Offset is the position at which that frame begins in its stream.
	Offset int64
	// Detail says what was found.
	Detail string
	// Head is a copy of the first bytes of what was found.
	Head []byte
	// Accident names what the bytes are instead, where they are well known.
	Accident Accident

	length uint64 // what is over the limit
}

// IsFault reports whether err is about the framing of a stream, not about reading it.
func IsFault(err error) bool {
	return errors.Is(err, ErrTruncated) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrMalformed)
}

// headSize is how much of a fault an Error keeps.
const headSize = 256

// Error says where the fault is, what was found and what it looks like.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "frame %d at byte %d: ", e.Frame, e.Offset)
	if e.Detail != "" {
		b.WriteString(e.Detail)
	} else {
		b.WriteString(e.Err.Error())
	}
	if text := e.TextLength(); text != "" {
		fmt.Fprintf(&b, "; that is the text %q", text)
	}
	if e.Accident != NoAccident {
		fmt.Fprintf(&b, "; this looks like %s", e.Accident)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// TextLength returns the text that was read as a length over the limit; "" if it is not
// printable, or if the framing has no length in its first four bytes.
func (e *Error) TextLength() string {
	if !errors.Is(e.Err, ErrTooLarge) || len(e.Head) < len32Header || uint64(binary.BigEndian.Uint32(e.Head)) != e.length {
		return ""
	}
	for _, c := range e.Head[:len32Header] {
		if (c < ' ' || c > '~') && c != '\t' && c != '\r' && c != '\n' {
			return ""
		}
	}
	return string(e.Head[:len32Header])
}

func malformed(detail string) *Error { return &Error{Err: ErrMalformed, Detail: detail} }

func tooLarge(n uint64, limit int) *Error {
	return &Error{Err: ErrTooLarge, Detail: fmt.Sprintf("length %d is over the limit of %d", n, limit), length: n}
}

// Recall restores a fault from its text, which is all that captures keep. The text
// determines its reason.
func Recall(words string) error {
	switch {
	case strings.Contains(words, "over the limit of "):
		return &recalled{words, ErrTooLarge}
	case strings.Contains(words, "the stream ended inside "):
		return &recalled{words, ErrTruncated}
	}
	return errors.New(words)
}

type recalled struct {
	words  string
	reason error
}

func (r *recalled) Error() string { return r.words }
func (r *recalled) Unwrap() error { return r.reason }

// clip keeps the beginning of text that came from outside.
func clip(text []byte) []byte { return text[:min(len(text), 40)] }

// truncated says where the bytes at hand, which are all there are, end.
func truncated(e *Extent, data []byte) *Error {
	err := &Error{Err: ErrTruncated}
	switch e.Inside {
	case "the payload":
		err.Detail = fmt.Sprintf("the stream ended inside the payload, after %d of its %d bytes", len(data)-e.Start, e.End-e.Start)
	case "the length prefix":
		err.Detail = fmt.Sprintf("the stream ended inside the length prefix, after %d of its bytes", len(data))
	case "a line":
		err.Detail = "the stream ended inside a line, which has no LF"
	default:
		err.Detail = "the stream ended inside " + e.Inside
	}
	return err
}

// An Accident is something well known that occurs instead of frames.
type Accident uint8

const (
	NoAccident Accident = iota
	HTTPResponse
	HTTPRequest
	HTTP2
	GRPCWebTrailers
	SSHBanner
	ShellBanner
	ShellError
	HTML
	UTF16
	BOM
	Gzip
	Zstd
	Zip
	Pcap
	SQLite
	TLS
	CRLF
	HeaderFrame
	DecimalLength
	JSONText
	ServerSentEvent
	StackTrace
	LogLine
	Terminal
	PlainText
)

// An accident is the name of an Accident and its test.
type accident struct {
	name  string
	match func([]byte) bool
}

// accidents are in the order of Accident, and the first that matches names the bytes.
var accidents = []accident{
	NoAccident:      {"nothing known", func([]byte) bool { return false }},
	HTTPResponse:    {"an HTTP response", prefix("HTTP/1.")},
	HTTPRequest:     {"an HTTP request", pattern(`^[A-Z]{3,7} [^ \r\n]* HTTP/1\.`)},
	HTTP2:           {"HTTP/2", prefix("PRI * HTTP/2.0")},
	GRPCWebTrailers: {"a gRPC-Web trailers frame", isTrailers},
	SSHBanner:       {"an SSH banner", prefix("SSH-2.0-", "SSH-1.")},
	ShellBanner:     {"a shell banner", pattern(`^(Last login: |Welcome to |Linux \S+ \d|[\w.-]+@[\w.-]+:\S*[$#] )`)},
	ShellError:      {"an error message of a shell", pattern(`^(-?(ba|da|z|k)?sh|/bin/\w+|ssh|env|npm|node|python3?|docker): \S`)},
	HTML:            {"an HTML page", pattern(`(?i)^\s*<(!doctype|html)`)},
	UTF16:           {"UTF-16 text", isUTF16},
	BOM:             {"UTF-8 text after a byte order mark", prefix("\xef\xbb\xbf")},
	Gzip:            {"gzip data", prefix("\x1f\x8b\x08")},
	Zstd:            {"zstd data", prefix("\x28\xb5\x2f\xfd")},
	Zip:             {"a zip archive", prefix("PK\x03\x04")},
	Pcap:            {"a packet capture", prefix("\x0a\x0d\x0d\x0a", "\xd4\xc3\xb2\xa1", "\x4d\x3c\xb2\xa1", "\xa1\xb2\xc3\xd4", "\xa1\xb2\x3c\x4d")},
	SQLite:          {"an SQLite database", prefix("SQLite format 3\x00")},
	TLS:             {"TLS", isTLS},
	CRLF:            {"bytes whose line feeds were turned into CRLF", prefix("\r\n", "\x00\x0d\x0a")},
	HeaderFrame:     {"a Content-Length header", pattern(`(?i)^content-(length|type):`)},
	DecimalLength:   {"a length in decimal digits before JSON text", pattern(`^(\d{2,10}:?|\d:)\{\s*["}]`)},
	JSONText:        {"JSON text", pattern(`^[ \t\r\n]*(\{\s*("|\})|\[\s*[\[{"\]])`)},
	ServerSentEvent: {"a server-sent event", pattern(`\A(event: ?[\w./-]+\r?(\n|\z)|data: ?[\[{])`)},
	StackTrace:      {"a stack trace", pattern(`^(Traceback \(most recent|panic: |goroutine \d+ \[|\s+at \S+ ?\(|Exception in thread|Uncaught )`)},
	LogLine:         {"a log line", pattern(logLine)},
	Terminal:        {"terminal control sequences", prefix("\x1b[", "\x1b]")},
	PlainText:       {"plain text", isText},
}

// logLine matches what logging libraries begin a line with: a time, a level,
// or both, bare or bracketed.
const logLine = `(?i)^[\[(<]*(` +
	`\d{4}[-/]\d\d[-/]\d\d[T ,]` +
	`|\d\d:\d\d:\d\d` +
	`|(trace|debug|info|notice|warn|warning|error|fatal|critical)\b[\])>:! ]` +
	`|(ts|time|level|lvl|msg)=\S` +
	`|npm (warn|notice|err!) )`

// distinct are those with so long a pattern that frames hardly ever begin in the same way.
// The beginning of the others may be a length and a payload.
var distinct = [...]bool{
	HTTPResponse: true, HTTPRequest: true, HTTP2: true, SSHBanner: true, ShellBanner: true, ShellError: true,
	HTML: true, Gzip: true, DecimalLength: true, SQLite: true, StackTrace: true, LogLine: true,
}

// Distinct reports whether frames, whole or cut, hardly ever look like it.
func (a Accident) Distinct() bool { return int(a) < len(distinct) && distinct[a] }

// String is a noun with its article, such as "an HTTP response".
func (a Accident) String() string {
	if int(a) < len(accidents) {
		return accidents[a].name
	}
	return "accident(?)"
}

// Recognize names what data is instead of frames, judging by its first bytes.
func Recognize(data []byte) Accident {
	data = data[:min(len(data), headSize)]
	for a, acc := range accidents {
		if acc.match(data) {
			return Accident(a)
		}
	}
	return NoAccident
}

func prefix(prefixes ...string) func([]byte) bool {
	return func(data []byte) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return bytes.HasPrefix(data, []byte(p)) })
	}
}

// pattern compiles expr on first use: most runs never need it.
func pattern(expr string) func([]byte) bool {
	compiled := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
	return func(data []byte) bool { return compiled().Match(data) }
}

// isUTF16 reports whether data begins with a byte order mark of UTF-16, or is
// ASCII text with every other byte zero.
func isUTF16(data []byte) bool {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return true
	}
	if len(data) < 8 {
		return false
	}
	return alternates(data[:8], 0) || alternates(data[:8], 1)
}

// alternates reports whether the bytes at even indexes shifted by odd are
// printable ASCII, and the others zero.
func alternates(data []byte, odd int) bool {
	for i, c := range data {
		if i%2 == odd {
			if c < ' ' || c > '~' {
				return false
			}
		} else if c != 0 {
			return false
		}
	}
	return true
}

// onlyCRLF reports whether data has line feeds, all of them after a CR.
func onlyCRLF(data []byte) bool {
	n := bytes.Count(data, []byte("\n"))
	return n > 0 && n == bytes.Count(data, []byte("\r\n"))
}

// isTrailers reports whether data begins with the frame in which gRPC-Web sends
// the trailers: a flag byte of 0x80, a 4-byte length, then header lines. The
// length is below 16 MiB, so that no varint begins with these two bytes.
func isTrailers(data []byte) bool {
	if len(data) < grpcHeader || data[0] != 0x80 || data[1] != 0 {
		return false
	}
	name, _, ok := bytes.Cut(data[grpcHeader:], []byte(":"))
	return ok && isToken(name)
}

// isTLS reports whether data begins with the header of a TLS record.
func isTLS(data []byte) bool {
	return len(data) >= 3 && 0x14 <= data[0] && data[0] <= 0x17 && data[1] == 3 && data[2] <= 4
}

// isText reports whether data begins with printable UTF-8.
func isText(data []byte) bool {
	text := data[:min(len(data), 16)]
	if i := bytes.IndexByte(text, '\n'); i > 0 {
		text = text[:i]
	}
	if len(text) < 4 {
		return false
	}
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && utf8.FullRune(text) || r < ' ' && r != '\t' && r != '\r' || r == 0x7f {
			return false
		}
		text = text[size:]
	}
	return true
}
