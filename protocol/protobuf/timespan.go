package protobuf

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A timespan is the value of a google.protobuf.Timestamp, since 1970, or a
// google.protobuf.Duration: seconds in field 1 and nanoseconds in field 2.
type timespan struct{ seconds, nanos int64 }

// maxNanos is the largest number of nanoseconds.
const maxNanos = 999999999

// The range of a google.protobuf.Timestamp, in seconds: the years 1 to 9999.
const (
	minTimestamp = -62135596800
	maxTimestamp = 253402300799
)

// maxDuration is the range of a google.protobuf.Duration, in seconds: about 10,000
// years.
const maxDuration = 315576000000

// appendTimestamp appends t as JSON, or returns false if it is out of range.
func appendTimestamp(dst []byte, t timespan) ([]byte, bool) {
	if t.seconds < minTimestamp || t.seconds > maxTimestamp || t.nanos < 0 || t.nanos > maxNanos {
		return dst, false
	}
	dst = time.Unix(t.seconds, t.nanos).UTC().AppendFormat(dst, `"2006-01-02T15:04:05.000000000`)
	return append(shortened(dst), `Z"`...), true
}

// appendDuration appends t as JSON, or returns false if it is out of range.
func appendDuration(dst []byte, t timespan) ([]byte, bool) {
	if min(t.seconds, -t.seconds) < -maxDuration || min(t.nanos, -t.nanos) < -maxNanos ||
		t.seconds > 0 && t.nanos < 0 || t.seconds < 0 && t.nanos > 0 {
		return dst, false
	}
	dst = append(dst, '"')
	if t.seconds < 0 || t.nanos < 0 {
		dst = append(dst, '-')
		t = timespan{-t.seconds, -t.nanos}
	}
	dst = strconv.AppendInt(dst, t.seconds, 10)
	point := len(dst)
	dst = strconv.AppendInt(dst, maxNanos+1+t.nanos, 10)
	dst[point] = '.'
	return append(shortened(dst), `s"`...), true
}

// shortened trims a 9-digit fraction to 9, 6, 3 or no digits.
func shortened(dst []byte) []byte {
	for range 2 {
		dst = bytes.TrimSuffix(dst, []byte("000"))
	}
	return bytes.TrimSuffix(dst, []byte(".000"))
}

func parseTimestamp(text string) (timespan, bool) {
	t, err := time.Parse(time.RFC3339Nano, text)
	ok := err == nil && t.Unix() >= minTimestamp && t.Unix() <= maxTimestamp && fractionDigits(text) <= 9
	return timespan{t.Unix(), int64(t.Nanosecond())}, ok
}

// fractionDigits returns the number of digits after the point of a time.
func fractionDigits(s string) int {
	_, fraction, _ := strings.Cut(s, ".")
	return max(strings.IndexAny(fraction, "Z+-"), 0)
}

// parseDuration parses seconds with up to nine fractional digits, followed by an s. Either side
// of the point may be empty.
func parseDuration(text string) (t timespan, ok bool) {
	s, ok := strings.CutSuffix(text, "s")
	sign := int64(1)
	switch {
	case strings.HasPrefix(s, "-"):
		s, sign = s[1:], -1
	case strings.HasPrefix(s, "+"):
		s = s[1:]
	}
	whole, fraction, _ := strings.Cut(s, ".")
	if !ok || s == "" || len(fraction) > 9 || len(whole) > 1 && whole[0] == '0' || strings.Trim(whole+fraction, "0123456789") != "" {
		return t, false
	}
	if whole != "" {
		var err error
		if t.seconds, err = strconv.ParseInt(whole, 10, 64); err != nil || t.seconds > maxDuration {
			return t, false
		}
	}
	t.nanos, _ = strconv.ParseInt(fraction+"000000000"[len(fraction):], 10, 32) // nine digits always parse
	return timespan{sign * t.seconds, sign * t.nanos}, true
}

func (d *decoder) timestamp(s *Schema, end int, group protowire.Number) bool {
	return d.timespan(s, end, group, appendTimestamp)
}

func (d *decoder) duration(s *Schema, end int, group protowire.Number) bool {
	return d.timespan(s, end, group, appendDuration)
}

// timespan writes a message in the usual encoding and in range. Any other takes the general
// way, which describes its fault.
func (d *decoder) timespan(s *Schema, end int, group protowire.Number, form func([]byte, timespan) ([]byte, bool)) bool {
	if t, tidy := parseTimespan(d.wire[d.pos:end]); tidy && group == 0 {
		if dst, ok := form(d.dst, t); ok {
			d.dst, d.pos = dst, end
			return true
		}
	}
	d.general = true
	return d.object(s, end, group)
}

// parseTimespan reads both fields. A zero field is absent.
func parseTimespan(wire []byte) (t timespan, tidy bool) {
	t.seconds, wire = cutVarint(wire, 1)
	t.nanos, wire = cutVarint(wire, 2)
	return t, len(wire) == 0
}

// cutVarint returns the value of the field at the start of wire, and the rest. It returns
// 0 and wire if the encoding is unusual.
func cutVarint(wire []byte, num protowire.Number) (v int64, rest []byte) {
	tag := byte(protowire.EncodeTag(num, protowire.VarintType))
	if len(wire) == 0 || wire[0] != tag {
		return 0, wire
	}
	bits, n := protowire.ConsumeVarint(wire[1:])
	if n != protowire.SizeVarint(bits) || bits == 0 {
		return 0, wire
	}
	return int64(bits), wire[1+n:]
}

func (e *encoder) timestamp(s *Schema) bool { return e.timespan(s, parseTimestamp) }
func (e *encoder) duration(s *Schema) bool  { return e.timespan(s, parseDuration) }

func (e *encoder) timespan(s *Schema, parse func(string) (timespan, bool)) bool {
	raw := e.scan.Value()
	if jsonscan.KindOf(raw) != jsonscan.String {
		return false
	}
	text, ok := jsonscan.Unquote(raw)
	t, valid := parse(string(text))
	if !ok || !valid {
		return false
	}
	e.varint(s.field(1), t.seconds)
	e.varint(s.field(2), t.nanos)
	return true
}

// varint writes an integer, which is omitted if it is zero.
func (e *encoder) varint(f *field, v int64) {
	if v != 0 {
		e.tag(f)
		e.writeNumber(f, uint64(v))
	}
}
