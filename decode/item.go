package decode

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/ndjson"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/session/query"
)

// An Item is one frame with its meaning, as a [View] sees it. It is valid
// during the call only.
type Item struct {
	Seq      int64
	Place    int64 // in the capture, as [capture.Placed] has it; -1 means none
	Frame    *frame.Frame
	Framing  frame.Framing
	Protocol protocol.Protocol
	// Time is when the last byte of the frame had been read, and Written when the frame had
	// been written to the other side; zero if unknown.
	Time, Written time.Time
	// First is the Time of the first frame of the session, and Previous that of the frame
	// before.
	First, Previous time.Time
	// Redacted, Outlined and Altered are those of the session; see capture.Session.
	Redacted, Outlined, Altered bool
	// Payload is the frame's payload, without its compression.
	Payload []byte
	Message protocol.Message
	// Err is the fault of the frame or its payload; nil if there is none.
	Err error

	goesOn  bool // it is a gap of the fault that a gap before began
	well    bool // the payload is a message
	inflate inflater
	json    []byte // scratch: the JSON form of the payload
	tokens  []byte // scratch: quoted ids
	summary []byte // scratch
	value   []byte // scratch: a field's value
	meta    []byte // scratch: the carrier's metadata
}

// NewItem returns an item to read frames into one by one, as cfg says. Its
// number, framing and times are for the caller to set.
func NewItem(cfg Config) *Item {
	it := &Item{}
	it.inflate.encoding = cmp.Or(cfg.Compression, Compressions[0])
	it.inflate.limit = cmp.Or(cfg.Limit, frame.DefaultLimit)
	return it
}

// Read makes it the item of a frame in protocol p, which it borrows.
func (it *Item) Read(f *frame.Frame, p protocol.Protocol) { it.readFrame(f, p, &it.Message) }

var notRecorded = []byte("not in the file")

// readFrame is Read with the message in m.
func (it *Item) readFrame(f *frame.Frame, p protocol.Protocol, m *protocol.Message) {
	it.Frame, it.Protocol, it.Err = f, p, f.Flaw
	it.Payload, it.well = nil, false
	var err error
	switch {
	case f.Gap:
		m.Reset()
		return
	case carried.Of(f) != nil:
		it.Payload, it.well = f.Payload(), true
		carried.Parse(f, m)
		return
	case f.Compressed:
		it.Payload, err = it.inflate.bytes(it.encoding(f), f.Payload())
	default:
		it.Payload = f.Payload()
	}
	if err != nil {
		m.Reset()
		it.Err = err
		return
	}
	if marked := []byte("\xef\xbb\xbf"); f.Meta != nil && p.Encoding() == protocol.JSON && bytes.HasPrefix(it.Payload, marked) {
		it.Payload = it.Payload[len(marked):]
		it.Err = cmp.Or(it.Err, errBOM)
	}
	if err = p.Parse(it.Payload, m); err != nil && p.Encoding() == protocol.JSON && IsBinary(f, it.Payload) {
		it.Protocol = opaque.Bytes
		err = it.Protocol.Parse(it.Payload, m)
	}
	if err != nil {
		it.Err = malformed(p, f, it.Payload, err)
		return
	}
	if f.Meta != nil {
		carried.Join(f, p, all.Of(p), m)
		if f.Meta.Head.IsAbsent() {
			m.Text = notRecorded
		}
	}
	it.well = true
}

// IsBinary reports whether a payload is a binary message of a WebSocket that does not begin as JSON,
// such as audio beside the messages of a protocol.
func IsBinary(f *frame.Frame, payload []byte) bool {
	return f.Meta != nil && f.Meta.Opcode == frame.BinMsg && frame.Recognize(payload) != frame.JSONText
}

var errBOM = errors.New("the payload begins with a byte order mark (U+FEFF): write UTF-8 without one")

// encoding returns how a frame's payload is compressed: as its carrier says, if it does.
func (it *Item) encoding(f *frame.Frame) string {
	if f.Meta == nil {
		return it.inflate.encoding
	}
	return cmp.Or(f.Meta.Encoding, it.inflate.encoding)
}

// malformed returns the error of a payload that does not parse, with what it looks like
// instead.
func malformed(p protocol.Protocol, f *frame.Frame, payload []byte, err error) error {
	name, isText := p.Encoding().String(), p.Encoding() == protocol.JSON
	if isText {
		name = p.Name()
	}
	err = fmt.Errorf("not %s: %w", name, err)
	if why := cause(p, payload, err); isText && why != "" {
		err = fmt.Errorf("%w: %s", err, why)
	}
	a := accident(f, payload, isText)
	if a == frame.NoAccident || a == frame.JSONText {
		return err
	}
	return &mistaken{a, err}
}

// cause says what to change about a text that is not JSON; "" if that is unknown.
func cause(p protocol.Protocol, text []byte, err error) string {
	var syntax *jsonscan.SyntaxError
	if !errors.As(err, &syntax) {
		return ""
	}
	rest := string(text[min(syntax.Offset, len(text)):])
	for _, c := range causes {
		if strings.HasPrefix(rest, c.text) {
			return c.why
		}
	}
	before := strings.TrimRight(string(text[:len(text)-len(rest)]), " \t")
	if rest != "" && strings.HasSuffix(before, ",") && strings.ContainsAny(rest[:1], "}]") {
		return "leave out the comma before the bracket"
	}
	_, _, why := all.Inside(p, text)
	return why
}

// causes are what other languages write for JSON, where it goes wrong.
var causes = []struct{ text, why string }{
	{"NaN", "NaN is not JSON: write null or a string"},
	{"Infinity", "Infinity is not JSON: write null or a string"},
	{"'", "single quotes are not JSON: write a Python dict with json.dumps"},
	{"None", "None is not JSON: write a Python dict with json.dumps"},
	{"True", "True is not JSON: write a Python dict with json.dumps"},
	{"False", "False is not JSON: write a Python dict with json.dumps"},
	{"undefined", "undefined is not JSON: leave the member out"},
}

// mistaken is the error of a payload that is something else, which is well known.
type mistaken struct {
	accident frame.Accident
	err      error
}

func (m *mistaken) Error() string { return fmt.Sprintf("this looks like %s: %v", m.accident, m.err) }
func (m *mistaken) Unwrap() error { return m.err }

// A Fault is the error of a frame, with its position.
type Fault struct {
	Frame   int64 // its number
	Offset  int64 // of its first byte
	Framing frame.Framing
	Err     error
}

func (f *Fault) Error() string {
	return fmt.Sprintf("frame %d at byte %d: %v", f.Frame, f.Offset, f.Err)
}
func (f *Fault) Unwrap() error { return f.Err }

// Accident names what the frame is instead, if that is well known.
func (f *Fault) Accident() frame.Accident {
	if m, ok := errors.AsType[*mistaken](f.Err); ok {
		return m.accident
	}
	return frame.NoAccident
}

// fault returns the error of the item's frame. A fault of the framing has a position.
func (it *Item) fault() error {
	if _, placed := placeOf(it.Err.Error()); placed || it.Frame.Gap {
		return it.Err
	}
	return &Fault{it.Seq, it.Frame.Offset, it.Framing, it.Err}
}

// accident recognizes what a frame with such a payload is instead. Unless the payload
// should be text, it must differ clearly from what is expected.
func accident(f *frame.Frame, payload []byte, isText bool) frame.Accident {
	if f.Start == 1 { // the supposed length may be the first character
		if a := frame.Recognize(f.Raw); a.Distinct() {
			return a
		}
	}
	if a := frame.Recognize(payload); isText || a.Distinct() {
		return a
	}
	return frame.NoAccident
}

// dir is the direction of the frame: as its source says, else as its message
// tells.
func (it *Item) dir() frame.Dir {
	if it.Frame.Dir != frame.DirUnknown {
		return it.Frame.Dir
	}
	return it.Message.From
}

var kindMalformed = []byte("malformed")

// kind is the kind of the message for people, who also see one for a malformed payload.
func (it *Item) kind() []byte {
	if it.well {
		return it.Message.Kind
	}
	return kindMalformed
}

// summarySize bounds a summary, in bytes.
const summarySize = 96

// version returns the version of the protocol that the message or its carrier states.
func (it *Item) version() []byte {
	v, meta := it.Message.Version, it.Frame.Meta
	if len(v) == 0 && meta != nil && meta.Head != nil && all.Rules(it.Protocol).Versions != nil {
		v = []byte(StatedVersion(meta.Head))
	}
	return v
}

// StatedVersion returns the version of MCP or A2A that a head of HTTP states; "" for none.
func StatedVersion(h *frame.Head) string {
	return cmp.Or(h.Get("Mcp-Protocol-Version"), h.Get("A2a-Version"))
}

// Summary returns a few words about the message: its label, and as much of its text as fits
// in 96 bytes. It is text from the wire: not safe to print.
func (it *Item) Summary() []byte {
	m := &it.Message
	s := append(it.summary[:0], render.Clip(m.Label, summarySize)...)
	if len(m.Label) > 0 && len(m.Text) > 0 {
		s = append(s, ": "...)
	}
	room := max(0, summarySize-len(s))
	text := render.Clip(m.Text, room)
	s = append(s, text...)
	if len(text) < len(m.Text) {
		s = append(s, "…"...)
	}
	it.summary = s
	return s
}

// Fields are the fields of conditions on items: the keys of records.
var Fields = query.Fields{Names: ndjson.Keys, Values: map[string][]string{
	"dir": frame.DirNames(), "framing": frame.Names(), "protocol": all.Names(), "phase": protocol.Phases(),
	"redacted": {"true"}, "altered": {"true"},
}}

// Field returns the value in the item's record of one of ndjson.Keys: a JSON token for keys
// of any type, text for the others, and false for a key that does not apply. It is valid
// until the next call. A payload that is not a message has the kind that people see, and
// none in the record.
func (it *Item) Field(key string) ([]byte, bool) {
	v := it.field(key)
	return v, len(v) > 0
}

// field has the keys of any frame, and of any gap.
func (it *Item) field(key string) []byte {
	f := it.Frame
	switch key {
	case "seq":
		return it.formatNumber(it.Seq)
	case "time":
		return it.formatTime(it.Time)
	case "written":
		return it.formatTime(it.Written)
	case "conn":
		if f.Conn == 0 {
			return nil
		}
		return it.formatNumber(int64(f.Conn))
	case "dir":
		return it.word(it.dir().String())
	case "offset":
		return it.formatNumber(f.Offset)
	case "size":
		return it.formatNumber(int64(f.Size()))
	case "framing":
		return it.word(it.Framing.Name())
	case "stream":
		if f.Stream == 0 {
			return nil
		}
		return it.formatNumber(f.Stream)
	case "meta":
		if f.Meta == nil {
			return nil
		}
		it.meta = capture.AppendMeta(it.meta[:0], f.Meta)
		return it.meta
	case "redacted":
		return it.truth(it.Redacted)
	case "altered":
		return it.truth(it.Altered)
	case "error":
		it.CheckForm()
		return it.quote([]byte(it.wrong()))
	case "raw":
		var r ndjson.Record
		it.record(&r)
		it.value = base64.StdEncoding.AppendEncode(it.value[:0], r.Raw)
		return it.value
	case "kind":
		switch {
		case f.Gap:
			return it.word(ndjson.Skipped)
		case !it.well:
			return it.word(string(kindMalformed))
		}
	case "protocol":
		if !f.Gap {
			return it.word(it.Protocol.Name())
		}
	}
	if f.Gap || !it.well {
		return nil
	}
	return it.meaning(key)
}

// meaning has the keys of a message.
func (it *Item) meaning(key string) []byte {
	m := &it.Message
	switch key {
	case "kind":
		return it.quote(m.Kind)
	case "id":
		id, _ := it.ids(m)
		return id
	case "ref":
		_, ref := it.ids(m)
		return ref
	case "phase":
		return it.word(m.Phase.String())
	case "summary":
		return it.quote(it.Summary())
	case "payload":
		form, _, _ := it.JSON()
		return form
	}
	return nil
}

func (it *Item) formatTime(at time.Time) []byte {
	if at.IsZero() {
		return nil
	}
	it.value = at.UTC().AppendFormat(it.value[:0], ndjson.TimeLayout)
	return it.value
}

func (it *Item) formatNumber(n int64) []byte {
	it.value = strconv.AppendInt(it.value[:0], n, 10)
	return it.value
}

// truth is "true", or nothing.
func (it *Item) truth(b bool) []byte {
	if !b {
		return nil
	}
	return it.word("true")
}

// quote is text that may look like JSON, as a string; nothing if it is empty.
func (it *Item) quote(text []byte) []byte {
	if len(text) == 0 {
		return nil
	}
	it.value = jsonscan.AppendQuote(it.value[:0], text)
	return it.value
}

func (it *Item) word(w string) []byte {
	it.value = append(it.value[:0], w...)
	return it.value
}
