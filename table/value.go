package table

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
)

// A Value is what a row has in a column. The zero Value means that the column does not apply to
// the row: text has an empty cell, and JSON no member.
type Value struct {
	kind kind
	n    int64
	f    float64
	text string
	any  any
}

type kind uint8

const (
	nothing kind = iota
	number
	text
	token
	flag
	millis
	rate
	dollars
	other
	bar
)

// Int is a number, Count one that does not apply unless it is positive.
func Int(n int64) Value { return Value{kind: number, n: n} }

// Count is Int, but does not apply unless n is positive.
func Count(n int64) Value {
	if n <= 0 {
		return Value{}
	}
	return Int(n)
}

// Text is text from anywhere; it does not apply if it is empty.
func Text(s string) Value {
	if s == "" {
		return Value{}
	}
	return Value{kind: text, text: s}
}

// Token is valid JSON that is shown as written.
func Token(s string) Value { return Value{kind: token, text: s} }

// Flag is true, or does not apply.
func Flag(b bool) Value {
	if !b {
		return Value{}
	}
	return Value{kind: flag, text: "true"}
}

// timeLayout is the layout of times in JSON.
const timeLayout = "2006-01-02T15:04:05.000000000Z"

// Time is a time in UTC; it does not apply if it is zero.
func Time(t time.Time) Value {
	if t.IsZero() {
		return Value{}
	}
	return Text(t.UTC().Format(timeLayout))
}

// Span is a duration; it does not apply if it is 0. It is in milliseconds in JSON.
func Span(d time.Duration) Value {
	if d == 0 {
		return Value{}
	}
	return Value{kind: millis, n: int64(d)}
}

// Rate is a number with one decimal; it does not apply if it is 0.
func Rate(f float64) Value {
	if f == 0 {
		return Value{}
	}
	return Value{kind: rate, f: f}
}

// Cost is an amount in millionths of a dollar; it does not apply if it is 0.
func Cost(micros int64) Value {
	if micros == 0 {
		return Value{}
	}
	return Value{kind: dollars, n: micros}
}

// JSON is any value that encoding/json can write. In text it is shown as by fmt.Sprint.
func JSON(v any) Value { return Value{kind: other, any: v} }

// Bar is a bar that is full up to solid, and shaded up to shade, of 1. It is only in text.
func Bar(solid, shade float64) Value { return Value{kind: bar, f: solid, any: shade} }

// AppendJSON appends the value as JSON; nothing if it does not apply.
func (v Value) AppendJSON(dst []byte) []byte {
	switch v.kind {
	case number:
		return strconv.AppendInt(dst, v.n, 10)
	case text:
		return jsonscan.AppendQuote(dst, []byte(v.text))
	case token:
		return jsonscan.AppendCompact(dst, []byte(v.text))
	case flag:
		return append(dst, v.text...)
	case millis:
		return Millis(v.n).append(dst)
	case rate:
		return strconv.AppendFloat(dst, math.Round(v.f*10)/10, 'f', -1, 64)
	case dollars:
		return Dollars(v.n).append(dst)
	case other:
		return append(dst, jsonscan.MustMarshal(v.any)...)
	}
	return dst
}

// appendText appends the value as text that is safe to show.
func (v Value) appendText(dst []byte) []byte {
	switch v.kind {
	case number:
		return strconv.AppendInt(dst, v.n, 10)
	case text, token, flag:
		return render.AppendSafe(dst, []byte(v.text))
	case millis:
		return append(dst, Millis(v.n).String()...)
	case rate:
		return strconv.AppendFloat(dst, v.f, 'f', 1, 64)
	case dollars:
		return append(dst, render.Dollars(v.n)...)
	case other:
		return render.AppendSafe(dst, fmt.Append(nil, v.any))
	}
	return dst
}

// An Object is a JSON object: names and values in turn, in the order of output. A member whose value
// is a [Value] that does not apply is left out.
type Object []any

// MarshalJSON writes the object.
func (o Object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i := 0; i < len(o); i += 2 {
		member, isValue := o[i+1].(Value)
		if isValue && member.kind == nothing {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(jsonscan.AppendQuote(b, []byte(o[i].(string))), ':')
		if isValue {
			b = member.AppendJSON(b)
			continue
		}
		text, err := jsonscan.Marshal(o[i+1])
		if err != nil {
			return nil, err
		}
		b = append(b, text...)
	}
	return append(b, '}'), nil
}

// Millis is a duration that is written to JSON in milliseconds, to the microsecond.
type Millis time.Duration

// MarshalJSON writes the number.
func (m Millis) MarshalJSON() ([]byte, error) { return m.append(nil), nil }

func (m Millis) append(dst []byte) []byte {
	return strconv.AppendFloat(dst, math.Round(float64(m)/1e3)/1e3, 'f', -1, 64)
}

// String writes a duration with three digits: 850µs, 31.2ms, 1.85s.
func (m Millis) String() string {
	d := time.Duration(m)
	for unit := time.Microsecond; unit <= time.Second; unit *= 1000 {
		for step := unit / 100; step <= unit; step *= 10 {
			if d < 1000*step {
				return d.Round(step).String()
			}
		}
	}
	return d.Round(time.Second).String()
}

// Dollars is an amount in millionths of a dollar that is written to JSON in dollars.
type Dollars int64

// MarshalJSON writes the number.
func (d Dollars) MarshalJSON() ([]byte, error) { return d.append(nil), nil }

func (d Dollars) append(dst []byte) []byte {
	return strconv.AppendFloat(dst, float64(d)/1e6, 'f', -1, 64)
}

const (
	minBar = 4 // cells
	maxBar = 24
)

// eighths are the blocks that fill a part of a cell.
var eighths = []string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}

// barOf draws a bar in so many cells. Anything more than zero is visible.
func barOf(solid, shade float64, cells int) string {
	n := int(solid*float64(cells)*8 + .5)
	if solid > 0 {
		n = max(n, 1)
	}
	used, shaded := (n+7)/8, int(shade*float64(cells)+.5)
	return strings.Repeat("█", n/8) + eighths[n%8] + strings.Repeat("░", max(shaded-used, 0))
}
