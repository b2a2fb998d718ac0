package protobuf

import (
	"bytes"
	"encoding/base64"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A number, a boolean or an enum value is represented by its bits on the wire: the value of the
// varint, or of the fixed-size integer.

// canonical returns the bits that an encoder writes for the value that a decoder reads from
// bits.
func canonical(kind protoreflect.Kind, bits uint64) uint64 {
	switch kind {
	case protoreflect.BoolKind:
		return protowire.EncodeBool(bits != 0)
	case protoreflect.Int32Kind, protoreflect.EnumKind:
		return uint64(int32(bits))
	case protoreflect.Uint32Kind, protoreflect.Sint32Kind:
		return uint64(uint32(bits))
	case protoreflect.FloatKind:
		if f := math.Float32frombits(uint32(bits)); f != f {
			return nan32
		}
	case protoreflect.DoubleKind:
		if f := math.Float64frombits(bits); f != f {
			return nan64
		}
	}
	return bits
}

// The NaNs for "NaN" in JSON.
var (
	nan32 = uint64(math.Float32bits(float32(math.NaN())))
	nan64 = math.Float64bits(math.NaN())
)

// appendNumber appends the JSON form of canonical bits.
func appendNumber(dst []byte, f *field, bits uint64) []byte {
	switch f.kind {
	case protoreflect.BoolKind:
		return strconv.AppendBool(dst, bits != 0)
	case protoreflect.EnumKind:
		if f.null {
			return append(dst, "null"...)
		}
		if name := f.enum.names[int32(bits)]; name != nil {
			return append(dst, name...)
		}
		return strconv.AppendInt(dst, int64(int32(bits)), 10)
	case protoreflect.FloatKind:
		return appendFloat(dst, float64(math.Float32frombits(uint32(bits))), 32)
	case protoreflect.DoubleKind:
		return appendFloat(dst, math.Float64frombits(bits), 64)
	}
	if is32(f.kind) {
		return appendInteger(dst, f.kind, bits)
	}
	dst = append(dst, '"')
	dst = appendInteger(dst, f.kind, bits)
	return append(dst, '"')
}

func appendInteger(dst []byte, kind protoreflect.Kind, bits uint64) []byte {
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sfixed32Kind:
		return strconv.AppendInt(dst, int64(int32(bits)), 10)
	case protoreflect.Int64Kind, protoreflect.Sfixed64Kind:
		return strconv.AppendInt(dst, int64(bits), 10)
	case protoreflect.Sint32Kind, protoreflect.Sint64Kind:
		return strconv.AppendInt(dst, protowire.DecodeZigZag(bits), 10)
	}
	return strconv.AppendUint(dst, bits, 10)
}

// is32 reports whether integers of the given kind have 32 bits. JSON writes them as numbers,
// but those of 64 bits as strings.
func is32(kind protoreflect.Kind) bool {
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Uint32Kind,
		protoreflect.Sfixed32Kind, protoreflect.Fixed32Kind:
		return true
	}
	return false
}

func isUnsigned(kind protoreflect.Kind) bool {
	switch kind {
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return true
	}
	return false
}

// appendFloat appends the shortest number that reads back as v at the given size.
func appendFloat(dst []byte, v float64, size int) []byte {
	abs := math.Abs(v)
	switch {
	case math.IsNaN(v):
		return append(dst, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(dst, `"-Infinity"`...)
	case abs != 0 && abs < 1e-6, abs >= 1e21:
		return strconv.AppendFloat(dst, v, 'e', -1, size)
	}
	return strconv.AppendFloat(dst, v, 'f', -1, size)
}

// parseNumber returns the canonical bits of a JSON value. It returns false for a value that
// appendNumber would write differently, such as a plain number instead of a string.
func parseNumber(f *field, raw []byte) (bits uint64, ok bool) {
	token := jsonscan.KindOf(raw)
	text := raw
	if token == jsonscan.String {
		if text, ok = jsonscan.Unquote(raw); !ok {
			return 0, false
		}
	}
	switch f.kind {
	case protoreflect.BoolKind:
		return protowire.EncodeBool(token == jsonscan.True), token == jsonscan.True || token == jsonscan.False
	case protoreflect.EnumKind:
		switch token {
		case jsonscan.String:
			n, ok := f.enum.numbers[string(text)]
			return uint64(n), ok
		case jsonscan.Null:
			return 0, f.null
		}
		return parseInteger(protoreflect.EnumKind, text)
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return parseFloat(f.kind, text, token)
	}
	return parseInteger(f.kind, text)
}

// parseInteger parses plain decimal digits, optionally with a minus sign.
func parseInteger(kind protoreflect.Kind, text []byte) (bits uint64, ok bool) {
	digits := text
	if len(digits) > 1 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) == 0 || digits[0]-'0' > 9 || digits[0] == '0' && len(text) > 1 {
		return 0, false
	}
	size := 64
	if is32(kind) || kind == protoreflect.EnumKind {
		size = 32
	}
	if isUnsigned(kind) {
		v, err := strconv.ParseUint(string(text), 10, size)
		return v, err == nil
	}
	v, err := strconv.ParseInt(string(text), 10, size)
	switch kind {
	case protoreflect.Sint32Kind, protoreflect.Sint64Kind:
		return protowire.EncodeZigZag(v), err == nil
	case protoreflect.Sfixed32Kind:
		return uint64(uint32(v)), err == nil
	}
	return uint64(v), err == nil
}

func parseFloat(kind protoreflect.Kind, text []byte, token jsonscan.Kind) (bits uint64, ok bool) {
	v := 0.0
	size := 64
	if kind == protoreflect.FloatKind {
		size = 32
	}
	switch {
	case token == jsonscan.Number:
		var err error
		if v, err = strconv.ParseFloat(string(text), size); err != nil {
			return 0, false
		}
	case string(text) == "NaN":
		v = math.NaN()
	case string(text) == "Infinity":
		v = math.Inf(1)
	case string(text) == "-Infinity":
		v = math.Inf(-1)
	default:
		return 0, false
	}
	if size == 32 {
		return uint64(math.Float32bits(float32(v))), true
	}
	return math.Float64bits(v), true
}

// appendBase64 appends bytes as a JSON string.
func appendBase64(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

// appendFromBase64 appends the bytes of base64 text. As the JSON mapping requires, it accepts
// both alphabets, with or without padding.
func appendFromBase64(dst, text []byte) ([]byte, bool) {
	encoding := base64.StdEncoding
	if bytes.ContainsAny(text, "-_") {
		encoding = base64.URLEncoding
	}
	if len(text)%4 != 0 {
		encoding = encoding.WithPadding(base64.NoPadding)
	}
	out, err := encoding.AppendDecode(dst, text)
	return out, err == nil
}
