package protobuf

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// maxGuessDepth is the depth down to which appendFields looks into messages.
const maxGuessDepth = 64

// appendFields appends what the wire format alone reveals about a message, on one line: an
// array with an object for each field, in order.
//
//	{"field":1,"wire":"varint","value":150}
//	{"field":2,"wire":"len","text":"hello"}
//	{"field":3,"wire":"len","message":[…]}
//	{"field":4,"wire":"len","bytes":"3q2+7w=="}
//	{"field":5,"wire":"group","message":[…]}
//	{"field":6,"wire":"i64","value":"9223372036854775808"}
//
// Values are the unsigned integers on the wire, as strings beyond 2^53-1. The content of a
// length-delimited field is a guess: text if all of it is printable; else a message if it is a
// sequence of fields; else text if it is printable except for line breaks and tabs. On error,
// an [*Error], dst is returned unchanged.
func appendFields(dst, wire []byte) ([]byte, error) {
	v := viewer{reader: reader{wire: wire}, dst: dst}
	if !v.fields(len(wire), 0, 0) {
		if v.err.Path != "" {
			v.err.Path = "field " + v.err.Path
		}
		return dst, v.err
	}
	return v.dst, nil
}

// viewer writes fields while walking them. Each guess depends only on the span and is final, so
// the work is bounded by the depth times the size.
type viewer struct {
	reader
	dst []byte
}

// fields writes the fields up to end, or if group is not zero, up to the end of that group.
func (v *viewer) fields(end int, group protowire.Number, depth int) bool {
	tag := v.tag
	if group != 0 {
		tag = v.tagInGroup
	}
	v.dst = append(v.dst, '[')
	for first := true; v.pos < end; first = false {
		num, typ, ok := tag(end)
		if !ok {
			return false
		}
		if typ == protowire.EndGroupType && num == group {
			v.dst = append(v.dst, ']')
			return true
		}
		if !first {
			v.dst = append(v.dst, ',')
		}
		if !v.field(num, typ, end, depth) {
			v.err.within(strconv.Itoa(int(num)))
			return false
		}
	}
	v.dst = append(v.dst, ']')
	return group == 0 || v.fail(end, "truncated")
}

func (v *viewer) field(num protowire.Number, typ protowire.Type, end, depth int) bool {
	v.dst = append(v.dst, `{"field":`...)
	v.dst = strconv.AppendInt(v.dst, int64(num), 10)
	ok := false
	switch typ {
	case protowire.VarintType:
		var n uint64
		n, ok = v.varint(end)
		v.value("varint", n)
	case protowire.Fixed32Type:
		var n uint32
		n, ok = v.fixed32(end)
		v.value("i32", uint64(n))
	case protowire.Fixed64Type:
		var n uint64
		n, ok = v.fixed64(end)
		v.value("i64", n)
	case protowire.StartGroupType:
		ok = v.group(num, end, depth)
	case protowire.BytesType:
		ok = v.delimited(end, depth)
	default:
		return v.skip(num, typ, end) // it describes the fault
	}
	v.dst = append(v.dst, '}')
	return ok
}

const maxSafeInteger = 1<<53 - 1

func (v *viewer) value(wire string, n uint64) {
	v.dst = append(v.dst, `,"wire":"`...)
	v.dst = append(v.dst, wire...)
	v.dst = append(v.dst, `","value":`...)
	if n <= maxSafeInteger {
		v.dst = strconv.AppendUint(v.dst, n, 10)
		return
	}
	v.dst = append(v.dst, '"')
	v.dst = strconv.AppendUint(v.dst, n, 10)
	v.dst = append(v.dst, '"')
}

func (v *viewer) group(num protowire.Number, end, depth int) bool {
	v.dst = append(v.dst, `,"wire":"group",`...)
	if depth < maxGuessDepth {
		v.dst = append(v.dst, `"message":`...)
		return v.fields(end, num, depth+1)
	}
	body, n := protowire.ConsumeGroup(num, v.wire[v.pos:end])
	if n < 0 {
		return v.failCode(v.pos, n)
	}
	v.pos += n
	v.bytesMember(body)
	return true
}

func (v *viewer) delimited(end, depth int) bool {
	b, ok := v.bytes(end)
	if !ok {
		return false
	}
	v.dst = append(v.dst, `,"wire":"len",`...)
	switch {
	case isPrintable(b, ""):
		v.text(b)
	case depth < maxGuessDepth && isFields(b):
		v.dst = append(v.dst, `"message":`...)
		v.pos -= len(b)
		return v.fields(v.pos+len(b), 0, depth+1)
	case isPrintable(b, "\t\n\r"):
		v.text(b)
	default:
		v.bytesMember(b)
	}
	return true
}

func (v *viewer) text(b []byte) {
	v.dst = append(v.dst, `"text":`...)
	v.dst = jsonscan.AppendQuote(v.dst, b)
}

func (v *viewer) bytesMember(b []byte) {
	v.dst = append(v.dst, `"bytes":`...)
	v.dst = append(base64.StdEncoding.AppendEncode(append(v.dst, '"'), b), '"')
}

// isPrintable reports whether b is UTF-8 text with only printable characters and characters in
// also.
func isPrintable(b []byte, also string) bool {
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			return false
		}
		if !unicode.IsPrint(r) && !strings.ContainsRune(also, r) {
			return false
		}
		b = b[size:]
	}
	return true
}

// isFields reports whether b is a sequence of fields.
func isFields(b []byte) bool {
	r := reader{wire: b}
	for r.pos < len(b) {
		if _, _, ok := r.skipField(len(b)); !ok {
			return false
		}
	}
	return true
}
