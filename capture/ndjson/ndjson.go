// Package ndjson is the text form of a session: one JSON object per frame and line, for
// people, jq and diffs. It writes and reads records, and does not interpret payloads.
package ndjson

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A Record is one frame as a line of NDJSON. Its byte slices alias the input. Append omits
// zero values, except for Seq, Offset and Size.
type Record struct {
	Seq      int64     // number of the frame, from 1
	Time     time.Time // when the frame's last byte was read
	Conn     int       // number of the connection, from 1
	Dir      frame.Dir // direction of travel
	Offset   int64     // position of the frame's first byte
	Size     int       // payload bytes
	Framing  string
	Protocol string
	Kind     []byte
	ID       []byte // JSON token of the exchange that the message opens or answers
	Ref      []byte // JSON token of the exchange that it acts on
	Phase    string
	Summary  []byte
	Payload  []byte // JSON on one line
	Raw      []byte // the whole frame, as it was on the wire
	Error    string
	Stream   int64  // number of the stream of the connection
	Meta     []byte // JSON object: the carrier metadata
	Redacted bool   // secrets were removed from the session
	Altered  bool   // faults or edits were enabled during recording
	// Written is when the frame had been at the other end of a merged session.
	Written time.Time
}

// Keys are the keys of a record, in output order.
var Keys = []string{
	"seq", "time", "conn", "dir", "offset", "size", "framing", "protocol", "kind",
	"id", "ref", "phase", "summary", "payload", "raw", "error", "stream", "meta", "redacted", "altered", "written",
}

// TimeLayout is the layout of times, in UTC: RFC 3339 with nanoseconds.
const TimeLayout = "2006-01-02T15:04:05.000000000Z"

// Skipped is the kind of a record with bytes outside any frame.
const Skipped = "skipped"

// Note is the kind of a record with a remark of the recorder as its summary. It has no bytes,
// because it was not on the wire.
const Note = "note"

// Ended is the summary of a note with a direction: that of its connection has ended.
var Ended = []byte("ended")

// isNote reports whether the record is a remark. In contrast, a frame without bytes has a
// framing or a protocol.
func (r *Record) isNote() bool {
	return string(r.Kind) == Note && r.Raw != nil && len(r.Raw) == 0 && r.Framing == "" && r.Protocol == ""
}

// Append appends the record as one JSON object, without a newline.
func (r *Record) Append(dst []byte) []byte {
	dst = append(dst, `{"seq":`...)
	dst = appendNumber(dst, r.Seq)
	if !r.Time.IsZero() {
		dst = append(dst, `,"time":"`...)
		dst = r.Time.UTC().AppendFormat(dst, TimeLayout)
		dst = append(dst, '"')
	}
	if r.Conn != 0 {
		dst = append(dst, `,"conn":`...)
		dst = appendNumber(dst, int64(r.Conn))
	}
	if r.Dir != frame.DirUnknown {
		dst = appendWord(dst, `,"dir":"`, r.Dir.String())
	}
	dst = append(dst, `,"offset":`...)
	dst = appendNumber(dst, r.Offset)
	dst = append(dst, `,"size":`...)
	dst = appendNumber(dst, int64(r.Size))
	if r.Framing != "" {
		dst = appendWord(dst, `,"framing":"`, r.Framing)
	}
	if r.Protocol != "" {
		dst = appendWord(dst, `,"protocol":"`, r.Protocol)
	}
	if len(r.Kind) > 0 {
		dst = jsonscan.AppendQuote(append(dst, `,"kind":`...), r.Kind)
	}
	dst = appendToken(dst, `,"id":`, r.ID)
	dst = appendToken(dst, `,"ref":`, r.Ref)
	if r.Phase != "" {
		dst = appendWord(dst, `,"phase":"`, r.Phase)
	}
	if len(r.Summary) > 0 {
		dst = jsonscan.AppendQuote(append(dst, `,"summary":`...), r.Summary)
	}
	dst = appendToken(dst, `,"payload":`, r.Payload)
	if r.Raw != nil {
		dst = append(dst, `,"raw":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, r.Raw)
		dst = append(dst, '"')
	}
	if r.Error != "" {
		dst = jsonscan.AppendQuote(append(dst, `,"error":`...), []byte(r.Error))
	}
	if r.Stream != 0 {
		dst = append(dst, `,"stream":`...)
		dst = appendNumber(dst, r.Stream)
	}
	dst = appendToken(dst, `,"meta":`, r.Meta)
	if r.Redacted {
		dst = append(dst, `,"redacted":true`...)
	}
	if r.Altered {
		dst = append(dst, `,"altered":true`...)
	}
	if !r.Written.IsZero() {
		dst = append(dst, `,"written":"`...)
		dst = r.Written.UTC().AppendFormat(dst, TimeLayout)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

// appendWord appends a string that needs no escapes. The key includes the opening quote.
func appendWord(dst []byte, key, word string) []byte {
	dst = append(dst, key...)
	dst = append(dst, word...)
	return append(dst, '"')
}

// appendToken appends a key and a JSON token, unless the token is empty.
func appendToken(dst []byte, key string, token []byte) []byte {
	if len(token) == 0 {
		return dst
	}
	dst = append(dst, key...)
	return append(dst, token...)
}

// errNoBytes is the error for a record that does not define a frame.
var errNoBytes = errors.New("the record has neither payload nor raw")

// Parse parses one line into r. The byte slices of r alias the line, except Raw. It returns
// false, with no error, if the line is JSON but not a record. A record has only the keys in
// [Keys], and it has payload, raw or framing, or is of the kind [Skipped].
func (r *Record) Parse(line []byte) (bool, error) {
	*r = Record{}
	var s jsonscan.Scanner
	s.InitDepth(line, jsonscan.MaxDepth+1)
	foreign, framed, whole := false, false, false
	var first error
	for ok := s.Object(); ok && s.Next(); {
		key := s.Key()
		known, err := r.set(key, s.Value())
		first = cmp.Or(first, err)
		foreign = foreign || !known
		framed = framed || string(key) == "framing"
		whole = whole || string(key) == "payload" || string(key) == "raw"
	}
	if err := s.End(); err != nil {
		return false, err
	}
	switch {
	case foreign || !whole && !framed && string(r.Kind) != Skipped:
		return false, nil
	case !whole:
		first = cmp.Or(first, errNoBytes)
	}
	return true, first
}

// set sets one member. It reports whether records have such a key.
func (r *Record) set(key, value []byte) (known bool, err error) {
	switch string(key) {
	case "seq":
		r.Seq, err = integer[int64](key, value)
	case "time":
		r.Time, err = instant(key, value)
	case "written":
		r.Written, err = instant(key, value)
	case "conn":
		r.Conn, err = integer[int](key, value)
	case "dir":
		err = r.setDir(value)
	case "offset":
		r.Offset, err = integer[int64](key, value)
	case "size":
		r.Size, err = integer[int](key, value)
	case "framing":
		r.Framing, err = text(key, value)
	case "protocol":
		r.Protocol, err = text(key, value)
	case "kind":
		r.Kind, err = quoted(key, value)
	case "id":
		r.ID = value
	case "ref":
		r.Ref = value
	case "phase":
		r.Phase, err = text(key, value)
	case "summary":
		r.Summary, err = quoted(key, value)
	case "payload":
		r.Payload = value
	case "raw":
		err = r.setRaw(value)
	case "error":
		r.Error, err = text(key, value)
	case "stream":
		r.Stream, err = integer[int64](key, value)
	case "meta":
		r.Meta = value
	case "redacted":
		r.Redacted = string(value) == "true"
	case "altered":
		r.Altered = string(value) == "true"
	default:
		return false, nil
	}
	return true, err
}

func instant(key, value []byte) (time.Time, error) {
	text, _ := jsonscan.Unquote(value)
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %.40q is not an RFC 3339 time", key, value)
	}
	return t, nil
}

func (r *Record) setDir(value []byte) error {
	text, ok := jsonscan.Unquote(value)
	d, known := frame.ParseDir(string(text))
	if !ok || !known {
		return fmt.Errorf("dir: %.40q is neither \"c2u\" nor \"u2c\"", value)
	}
	r.Dir = d
	return nil
}

func (r *Record) setRaw(value []byte) error {
	t, ok := jsonscan.Unquote(value)
	raw := make([]byte, base64.StdEncoding.DecodedLen(len(t)))
	n, err := base64.StdEncoding.Decode(raw, t)
	if err != nil || !ok {
		return fmt.Errorf("raw: %.40s is not base64 in a string", value)
	}
	r.Raw = raw[:n]
	return nil
}

func integer[N int | int64](key, value []byte) (N, error) {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %.40q is not an integer", key, value)
	}
	return N(n), nil
}

// quoted returns the content of a JSON string.
func quoted(key, value []byte) ([]byte, error) {
	t, ok := jsonscan.Unquote(value)
	if !ok {
		return nil, fmt.Errorf("%s: %.40q is not a string", key, value)
	}
	return t, nil
}

func text(key, value []byte) (string, error) {
	t, err := quoted(key, value)
	return string(t), err
}

// AppendMeta appends the member meta, the frame's carrier metadata. It includes the position
// of the payload in the raw bytes, as "at". If the payload lies elsewhere, and the member
// payload is not verbatim, it includes the payload as "data".
func AppendMeta(dst []byte, f *frame.Frame, verbatim bool) []byte {
	dst = capture.AppendMeta(dst, f.Meta)
	add := func(key string) {
		dst = dst[:len(dst)-1] // remove the closing brace
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(dst, key...)
	}
	if f.Compressed {
		add(`"compressed":true}`)
	}
	switch {
	case f.Gap || len(f.Payload()) == 0:
	case !f.Meta.Apart:
		add(`"at":[`)
		dst = strconv.AppendInt(dst, int64(f.Start), 10)
		dst = strconv.AppendInt(append(dst, ','), int64(f.End), 10)
		dst = append(dst, "]}"...)
	case !verbatim:
		add(`"data":"`)
		dst = base64.StdEncoding.AppendEncode(dst, f.Meta.Data)
		dst = append(dst, `"}`...)
	}
	return dst
}

// place sets the fields of a frame from the record's meta.
func place(f *frame.Frame, r *Record) error {
	data := []byte(r.Payload)
	placed := false
	m, err := capture.ParseMeta(r.Meta, func(key, value []byte) {
		switch string(key) {
		case "compressed":
			f.Compressed = string(value) == "true"
		case "at":
			placed = setAt(f, value)
		case "data":
			text, _ := jsonscan.Unquote(value)
			data, _ = base64.StdEncoding.DecodeString(string(text))
		}
	})
	if err != nil {
		return fmt.Errorf("meta: %w", err)
	}
	m.Framing = r.Framing
	f.Meta, f.Flaw = m, nil
	if !placed && !f.Gap {
		f.Start, f.End = len(f.Raw), len(f.Raw)
		m.Apart = r.Size > 0
		if m.Apart {
			m.Data = data
		}
	}
	return nil
}

// setAt sets the position of the payload in the raw bytes.
func setAt(f *frame.Frame, value []byte) bool {
	var at [2]int
	if json.Unmarshal(value, &at) != nil || at[0] < 0 || at[1] < at[0] || at[1] > len(f.Raw) {
		return false
	}
	f.Start, f.End = at[0], at[1]
	return true
}

// appendNumber is a faster [strconv.AppendInt] for the numbers of records, whose lengths vary
// unpredictably. It branches neither on the number of digits nor on their values.
func appendNumber(dst []byte, n int64) []byte {
	if uint64(n) >= 1e16 {
		return strconv.AppendInt(dst, n, 10)
	}
	dst = slices.Grow(dst, 16)
	high, low := uint64(n)/1e8, uint64(n)%1e8
	if high == 0 {
		return appendDigits(dst, low)
	}
	return binary.LittleEndian.AppendUint64(appendDigits(dst, high), digits(low)|zeros)
}

const zeros = 0x3030303030303030

// appendDigits appends n, which must be less than 1e8, to dst, which must have room for eight
// bytes.
func appendDigits(dst []byte, n uint64) []byte {
	text := digits(n)
	leading := bits.TrailingZeros64(text|1<<56) / 8
	end := len(dst) + 8
	binary.LittleEndian.PutUint64(dst[end-8:end], (text|zeros)>>(8*leading))
	return dst[:end-leading]
}

// digits returns the eight decimal digits of n, which must be less than 1e8. Each digit has
// its own byte; the first digit is in the lowest byte. It divides all parts of a word at
// once, by 100 and then by 10. Each division is a multiplication by a fraction whose
// denominator is a power of two.
func digits(n uint64) uint64 {
	n = n/1e4 | n%1e4<<32
	hundreds := (n * 10486 >> 20) & 0x0000_007f_0000_007f
	n = hundreds | (n-100*hundreds)<<16
	tens := (n * 103 >> 10) & 0x000f_000f_000f_000f
	return tens | (n-10*tens)<<8
}

// Lines returns the content of r with each record on one line if the first record spans
// several lines, as in indented JSON. Otherwise it returns the content unchanged. It waits
// for the first line.
func Lines(r io.Reader) io.Reader {
	b := bufio.NewReaderSize(r, 64<<10) // r itself, if its buffer is that large
	for n := 1; ; n++ {
		_, err := b.Peek(n)
		n = b.Buffered()
		head, _ := b.Peek(n)
		line, _, whole := bytes.Cut(bytes.TrimLeft(head, " \t\r\n"), []byte("\n"))
		if cut, ok := errors.AsType[*jsonscan.SyntaxError](jsonscan.WellFormed(line)); whole && ok && cut.Truncated {
			return &joiner{r: b}
		}
		if whole || err != nil {
			return b
		}
	}
}

// A joiner puts each JSON value on one line, without insignificant white space.
type joiner struct {
	r     io.Reader
	at    values
	last  byte // the last returned byte
	space bool // white space was dropped after it
	two   [2]byte
	rest  []byte // unread part of two
}

func (j *joiner) Read(p []byte) (int, error) {
	if len(j.rest) > 0 {
		n := copy(p, j.rest)
		j.rest = j.rest[n:]
		return n, nil
	}
	if len(p) < 2 {
		n, err := j.Read(j.two[:])
		j.rest = j.two[:n]
		if n > 0 && len(p) > 0 {
			return j.Read(p)
		}
		return 0, err
	}
	n, err := j.r.Read(p[1:]) // leaves room for a space that is restored
	w := 0
	for _, c := range p[1 : 1+n] {
		inside := j.at.depth > 0 && !j.at.inText
		if inside && (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
			j.space = true
			continue
		}
		if inside && j.space && !isPunctuation(j.last) && !isPunctuation(c) {
			p[w] = ' ' // keep invalid JSON invalid
			w++
		}
		j.space, j.last = false, c
		j.at.addByte(c)
		p[w] = c
		w++
	}
	return w, err
}

func isPunctuation(c byte) bool { return bytes.IndexByte([]byte("{}[],:"), c) >= 0 }

// FirstValue returns the object or array that text begins with. If its end is missing, it
// returns all of text and false.
func FirstValue(text []byte) (value []byte, whole bool) {
	var at values
	for i, c := range text {
		if at.addByte(c); at.depth == 0 && (c == '}' || c == ']') {
			return text[:i+1], true
		}
	}
	return text, false
}

// values tracks the nesting depth in JSON.
type values struct {
	depth           int
	inText, escaped bool
}

func (v *values) addByte(c byte) {
	switch {
	case v.escaped:
		v.escaped = false
	case v.inText:
		v.escaped, v.inText = c == '\\', c != '"'
	case c == '"':
		v.inText = true
	case c == '{' || c == '[':
		v.depth++
	case (c == '}' || c == ']') && v.depth > 0:
		v.depth--
	}
}
