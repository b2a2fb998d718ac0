package frame

import (
	"bytes"
	"regexp"
	"slices"
	"sync"
	"unicode/utf8"
)

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
