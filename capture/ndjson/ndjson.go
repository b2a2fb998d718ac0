// Package ndjson is the text form of a session: one JSON object per frame and line, for
// people, jq and diffs. It writes and reads records, and does not interpret payloads.
package ndjson

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"

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
}

// Keys are the keys of a record, in output order.
var Keys = []string{
	"seq", "time", "conn", "dir", "offset", "size", "framing", "protocol", "kind",
	"id", "ref", "phase", "summary", "payload", "raw", "error", "stream", "meta", "redacted", "altered",
}

// TimeLayout is the layout of times, in UTC: RFC 3339 with nanoseconds.
const TimeLayout = "2006-01-02T15:04:05.000000000Z"

// Skipped is the kind of a record with bytes outside any frame.
const Skipped = "skipped"

// Note is the kind of a record with a remark of the recorder as its summary. It has no bytes,
// because it was not on the wire.
const Note = "note"

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
		err = r.setTime(value)
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

func (r *Record) setTime(value []byte) error {
	text, _ := jsonscan.Unquote(value)
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return fmt.Errorf("time: %.40q is not an RFC 3339 time", value)
	}
	r.Time = t
	return nil
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
