package frame

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// Header frames are a block of header lines that ends in an empty line, one of
// them Content-Length, then the payload: the base protocol of LSP and DAP.
var Header Framing = header{}

type header struct{}

// The header block of one frame is bounded: in bytes, and in lines.
const (
	maxHeader = 8 << 10
	maxLines  = 32
)

const contentPrefix, contentLength = "Content-", "Content-Length"

var (
	errHeaderBOM      = errors.New("a byte order mark (U+FEFF) is before the header lines: write the bytes without one")
	errPayloadBOM     = errors.New("the payload begins with a byte order mark (U+FEFF): write UTF-8 without one")
	errBareLF         = errors.New("the header lines end in LF; want CRLF")
	errRepeatedLength = errors.New("duplicate Content-Length")
	errPaddedLength   = errors.New("Content-Length is not in plain digits")
)

// Details of malformed header blocks.
const (
	noHeaderLine    = "expected a header line"
	emptyLine       = "an empty line before the header block"
	noContentLength = "the header block has no Content-Length"
)

func (header) Name() string  { return "header" }
func (header) About() string { return "header lines with Content-Length, an empty line, the payload" }

func (header) Next(data []byte, limit int, atEOF bool, e *Extent) *Error {
	b := block{rest: data[:min(len(data), maxHeader)]}
	switch {
	case bytes.HasPrefix(data, []byte(bom)):
		b.rest, b.size, b.flaw = b.rest[len(bom):], len(bom), errHeaderBOM
	case len(data) < len(bom) && bytes.HasPrefix([]byte(bom), data):
		return e.need(len(bom), "the header block")
	}
	for n := 0; b.line(); n++ {
		if len(b.text) == 0 {
			if n == 0 {
				return malformed(emptyLine)
			}
			return b.frame(data, limit, atEOF, e)
		}
		if n == maxLines {
			return malformed(fmt.Sprintf("the header block has no end within %d lines", maxLines))
		}
		if err := b.field(); err != nil {
			return err
		}
	}
	if !fieldPrefix(b.rest) {
		return malformed(noHeaderLine)
	}
	if len(data) >= maxHeader {
		return malformed(fmt.Sprintf("the header block has no end within %d bytes", maxHeader))
	}
	return e.need(len(data)+1, "the header block")
}

// block reads a header block line by line.
type block struct {
	rest   []byte // not read yet
	size   int    // bytes read
	text   []byte // the current line, without its end
	length []byte // the value of Content-Length
	found  bool   // there is a Content-Length
	bare   bool   // the current line ends in LF alone
	crlf   bool   // a line ends in CRLF
	stray  bool   // a line ends in LF alone and its name is unknown
	flaw   error
}

// line moves to the next line and reports whether there is a whole one.
func (b *block) line() bool {
	i := bytes.IndexByte(b.rest, '\n')
	if i < 0 {
		return false
	}
	b.text = b.rest[:i]
	b.rest = b.rest[i+1:]
	b.size += i + 1
	if n := len(b.text); n > 0 && b.text[n-1] == '\r' {
		b.text, b.bare, b.crlf = b.text[:n-1], false, true
	} else {
		b.bare, b.flaw = true, errBareLF
	}
	return true
}

// field reads the header field of the current line. Names are case-insensitive (RFC 9110,
// section 5.1). A log line can look like a field; its line end differs from that of the
// fields.
func (b *block) field() *Error {
	name, value, ok := bytes.Cut(b.text, []byte(":"))
	if !ok || !isToken(name) {
		return malformed(noHeaderLine)
	}
	b.stray = b.stray || b.bare && !isContent(name)
	if b.stray && b.crlf {
		return malformed(noHeaderLine)
	}
	if !equalFold(name, contentLength) {
		return nil
	}
	value = bytes.Trim(value, " \t")
	if b.found {
		if !bytes.Equal(b.length, value) {
			return malformed(fmt.Sprintf("Content-Length occurs twice, as %q and %q", b.length, clip(value)))
		}
		b.flaw = errRepeatedLength
	}
	b.length, b.found = value, true
	return nil
}

// frame describes the frame whose header block has been read.
func (b *block) frame(data []byte, limit int, atEOF bool, e *Extent) *Error {
	if !b.found {
		return malformed(noContentLength)
	}
	n, err := strconv.ParseUint(string(b.length), 10, 64)
	if err != nil {
		return malformed(fmt.Sprintf("Content-Length is %q, which is not a length", clip(b.length)))
	}
	if b.length[0] == '0' && len(b.length) > 1 {
		b.flaw = errPaddedLength
	}
	e.Flaw = b.flaw
	if fault := e.sized(data, b.size, n, limit); fault != nil || e.Raw == 0 {
		return fault
	}
	if !e.recount(data, limit, atEOF) {
		return nil
	}
	e.skipBOM(data, errPayloadBOM)
	return nil
}

// recount has a payload go on to the end of its JSON if Content-Length counts its characters
// instead of its bytes. That is proven if so many bytes are JSON that is cut, and so many
// characters are JSON. It returns false if more data must show that.
func (e *Extent) recount(data []byte, limit int, atEOF bool) bool {
	payload, rest := data[e.Start:e.End], data[e.End:]
	begins := min(len(rest), len(contentPrefix))
	next := begins > 0 && equalFold(rest[:begins], contentPrefix[:begins])
	if next && begins == len(contentPrefix) || isASCII(payload) || !jsonscan.IsCut(payload) {
		return true
	}
	waits := 0
	if next {
		waits = 1
	}
	for _, units := range []func(rune) int{utf16.RuneLen, func(rune) int { return 1 }} { // as JavaScript and Python count
		text, missing := firstUnits(data[e.Start:min(len(data), e.Start+limit)], len(payload), units)
		switch {
		case missing > 0 && jsonscan.IsCut(text):
			waits = max(waits, missing)
		case missing == 0 && len(text) > len(payload) && jsonscan.WellFormed(text) == nil:
			e.Flaw = fmt.Errorf("Content-Length counts characters: it is %d, and the payload has %d bytes; count the bytes of its UTF-8", len(payload), len(text))
			return e.whole(e.Start, e.Start+len(text)) == nil
		}
	}
	if waits == 0 || atEOF {
		return true
	}
	e.Raw, e.Need, e.Inside = 0, len(data)+waits, "the payload"
	return false
}

// firstUnits returns the beginning of text that has so many units, and how many are missing.
func firstUnits(text []byte, n int, units func(rune) int) (_ []byte, missing int) {
	at := 0
	for at < len(text) && n > 0 && utf8.FullRune(text[at:]) {
		r, size := utf8.DecodeRune(text[at:])
		n, at = n-units(r), at+size
	}
	if n > 0 {
		return text, n
	}
	return text[:at], 0
}

func isASCII(text []byte) bool {
	for _, c := range text {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// isContent reports whether a field describes the payload, like all fields of LSP's base
// protocol.
func isContent(name []byte) bool {
	return len(name) > len(contentPrefix) && equalFold(name[:len(contentPrefix)], contentPrefix)
}

// isToken reports whether name can be a field name (RFC 9110, section 5.6.2).
func isToken(name []byte) bool { return httpguts.ValidHeaderFieldName(string(name)) }

// fieldPrefix reports whether line, which is incomplete, could become a header line or the
// empty line.
func fieldPrefix(line []byte) bool {
	if i := bytes.IndexByte(line, ':'); i >= 0 {
		return isToken(line[:i])
	}
	line = bytes.TrimSuffix(line, []byte("\r"))
	return len(line) == 0 || isToken(line)
}

// equalFold reports whether name equals want, ignoring the case of ASCII letters.
func equalFold(name []byte, want string) bool {
	return len(name) == len(want) && bytes.EqualFold(name, []byte(want))
}

func (header) Sync(data []byte, _ int) int {
	for i := range data {
		if data[i]|0x20 != 'c' {
			continue
		}
		n := min(len(data)-i, len(contentLength))
		if equalFold(data[i:i+n], contentLength[:n]) {
			return i
		}
	}
	return -1
}

func (header) header(dst []byte, n int) []byte {
	dst = append(dst, contentLength...)
	dst = append(dst, ": "...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, "\r\n\r\n"...)
}

func (header) trailer() string     { return "" }
func (header) admits([]byte) error { return nil }

func (h header) exact(f *Frame) bool {
	var b [64]byte
	return bytes.Equal(f.Raw[:f.Start], h.header(b[:0], f.End-f.Start))
}
