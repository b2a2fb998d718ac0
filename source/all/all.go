// Package all lists the forms of files of other programs, and detects which one a file has.
package all

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/inflate"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/source"
	"github.com/wirectl/wirectl/source/agents"
	"github.com/wirectl/wirectl/source/claudecode"
	"github.com/wirectl/wirectl/source/codex"
	"github.com/wirectl/wirectl/source/har"
	"github.com/wirectl/wirectl/source/logs"
	"github.com/wirectl/wirectl/source/pcap"
)

// list has every form: those with the surest evidence first. To add one, write its folder and put its
// Form here, in the place of the one without a reader.
var list = slices.Concat([]*source.Form{
	{Name: "pcap", About: "a capture of packets", Is: isPackets, Open: pcap.Open},
	{
		Name: "opencode-db", About: "the database of opencode",
		Is: func(h *source.Head) bool {
			return isSQLite(h) && bytes.Contains(h.Bytes, []byte("CREATE TABLE `part`"))
		},
		Instead: "export a session and read that (opencode export ID > session.json; opencode session list shows the ids)",
	},
	har.Flows,
	claudecode.Form,
	codex.Form,
}, agents.Forms, []*source.Form{
	har.Form,
	agents.Telemetry,
	logs.LSP,
	logs.Trace,
	logs.Desktop,
	logs.Inspector,
	logs.Events,
	logs.Wrapped,
	{
		Name: "tls-keys", About: "a file with keys of TLS connections", Is: begins(`^(CLIENT_HANDSHAKE_TRAFFIC_SECRET|SERVER_HANDSHAKE_TRAFFIC_SECRET|CLIENT_RANDOM|EXPORTER_SECRET) [0-9a-f]{64} `),
		Instead: "name the capture that it belongs to",
	},
})

// WithField is the form of a file if the member that holds its messages is named.
var WithField = logs.Wrapped

// List returns all forms.
func List() []*source.Form { return list }

// Detect returns the form of a file that begins so; nil if it has none of these.
func Detect(h *source.Head) *source.Form {
	h = Unpacked(h)
	for _, f := range list {
		if f.Matches(h) {
			return f
		}
	}
	return nil
}

// magics are how files begin that are not lines.
var magics = []string{
	"\xd4\xc3\xb2\xa1", "\xa1\xb2\xc3\xd4", "\x4d\x3c\xb2\xa1", "\xa1\xb2\x3c\x4d", "\x0a\x0d\x0d\x0a", "\x28\xb5\x2f\xfd", "SQLite format 3\x00",
	"\xef\xbb\xbf", "event:", "data:", "retry:", "HTTP/", "[Trace - ", `{"`,
}

// MayBecome reports whether more of what begins so could tell its form: its first value of JSON is not whole, or it
// begins like what has its form only later. No stream of a framing waits in such a place.
func MayBecome(begin []byte) bool {
	h := &source.Head{Bytes: begin}
	text := h.Text()
	switch {
	case len(begin) == 0:
		return false
	case slices.ContainsFunc(magics, func(m string) bool { return strings.HasPrefix(m, string(begin)) }):
		return true
	case isPacketMagic(begin) && len(begin) < 28, IsPacked(begin) && Detect(h) == nil:
		return true
	case Detect(h) != nil || len(text) == 0:
		return false
	case source.Members(text).Has("jsonrpc"): // a message
		return false
	case text[0] == '{' || text[0] == '[':
		if last := text[len(text)-1]; last != '}' && last != ']' && last != '\n' && last != 0 {
			return true
		}
		var s jsonscan.Scanner
		s.Init(text)
		s.Value()
		cut, _ := errors.AsType[*jsonscan.SyntaxError](s.Err())
		return cut != nil && cut.Truncated
	case flowsBegin.Match(text), saved.Match(text):
		return true
	}
	return false
}

var (
	flowsBegin = regexp.MustCompile(`^[0-9]{1,12}:[0-9]+:`)
	// saved is an event stream whose first data has not come.
	saved = regexp.MustCompile(`^((event|id|retry)?:[^\n]*\n)*((event|id|retry)?:[^\n]*|data:[^\n]*)?$`)
)

// Nearest returns the form that the objects of a file are most like; nil if they are like none.
func Nearest(h *source.Head) (nearest *source.Form) {
	const least = 0.6
	best := least
	for _, f := range list {
		if l := f.Likeness(h); l > best {
			nearest, best = f, l
		}
	}
	return nearest
}

// IsPacked reports whether a file is compressed with zstd.
func IsPacked(head []byte) bool { return bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")) }

// Unpacked returns the beginning of the content of a compressed file, and h for any other.
func Unpacked(h *source.Head) *source.Head {
	if !IsPacked(h.Bytes) {
		return h
	}
	r, err := inflate.Open("zstd", bytes.NewReader(h.Bytes))
	if err != nil {
		return h
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, source.HeadSize)) // it may be cut
	return &source.Head{Bytes: text, Whole: h.Whole && err == nil && len(text) < source.HeadSize}
}

type test = func(*source.Head) bool

// begins holds if the file begins with a pattern.
func begins(pattern string) test {
	p := regexp.MustCompile(pattern)
	return func(h *source.Head) bool { return p.Match(h.Bytes) }
}

func isPacketMagic(begin []byte) bool {
	return slices.ContainsFunc(magics[:5], func(m string) bool { return bytes.HasPrefix(begin, []byte(m)) })
}

// isPackets recognizes pcap of both byte orders and units of time, and pcapng of another link type than
// that of wirectl.
func isPackets(h *source.Head) bool {
	if len(h.Bytes) < 28 {
		return false
	}
	switch string(h.Bytes[:4]) {
	case "\xd4\xc3\xb2\xa1", "\xa1\xb2\xc3\xd4", "\x4d\x3c\xb2\xa1", "\xa1\xb2\x3c\x4d":
		return true
	case "\x0a\x0d\x0d\x0a":
	default:
		return false
	}
	const (
		byteOrder     = 0x1A2B3C4D
		interfaces    = 1
		exportedPDU   = 252
		packets       = 6
		simplePackets = 3
	)
	order := binary.ByteOrder(binary.LittleEndian)
	if order.Uint32(h.Bytes[8:]) != byteOrder {
		order = binary.BigEndian
	}
	if order.Uint32(h.Bytes[8:]) != byteOrder {
		return false
	}
	for rest := h.Bytes; len(rest) >= 12; {
		kind, size := order.Uint32(rest), order.Uint32(rest[4:])
		switch {
		case kind == interfaces:
			return order.Uint16(rest[8:]) != exportedPDU
		case kind == packets, kind == simplePackets, size < 12, uint64(size) > uint64(len(rest)):
			return false
		}
		rest = rest[size:]
	}
	return false
}

func isSQLite(h *source.Head) bool { return bytes.HasPrefix(h.Bytes, []byte("SQLite format 3\x00")) }
