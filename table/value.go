package table

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
)

// timeLayout is the layout of times in JSON.
const timeLayout = "2006-01-02T15:04:05.000000000Z"

// applies reports whether a value applies to its row.
func applies(value any) bool {
	switch v := value.(type) {
	case nil:
		return false
	case string:
		return v != ""
	case Count:
		return v > 0
	case Flag:
		return bool(v)
	case Rate:
		return v != 0
	case Millis:
		return v != 0
	case Dollars:
		return v != 0
	case time.Time:
		return !v.IsZero()
	}
	return true
}

// appendJSON appends a value that applies as JSON.
func appendJSON(dst []byte, value any) []byte {
	switch v := value.(type) {
	case string:
		return jsonscan.AppendQuote(dst, []byte(v))
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case Count:
		return strconv.AppendInt(dst, int64(v), 10)
	case Flag:
		return strconv.AppendBool(dst, bool(v))
	case json.RawMessage:
		return jsonscan.AppendCompact(dst, v)
	case Millis:
		return v.append(dst)
	case Dollars:
		return v.append(dst)
	case Rate:
		return strconv.AppendFloat(dst, math.Round(float64(v)*10)/10, 'f', -1, 64)
	case time.Time:
		return append(v.UTC().AppendFormat(append(dst, '"'), timeLayout), '"')
	}
	return append(dst, jsonscan.MustMarshal(value)...)
}

// appendText appends a value that applies as text that is safe to show.
func appendText(dst []byte, value any) []byte {
	switch v := value.(type) {
	case string:
		return render.AppendSafe(dst, []byte(v))
	case json.RawMessage:
		return render.AppendSafe(dst, v)
	case Millis:
		return append(dst, v.String()...)
	case Dollars:
		return append(dst, render.Dollars(int64(v))...)
	case Rate:
		return strconv.AppendFloat(dst, float64(v), 'f', 1, 64)
	case Bar:
		return dst
	}
	return appendJSON(dst, value)
}

// The types of values that do not apply if they are zero.
type (
	Count   int64 // or negative
	Flag    bool
	Rate    float64       // with one decimal
	Millis  time.Duration // in JSON in milliseconds, to the microsecond
	Dollars int64         // in millionths; in JSON in dollars
)

// A Bar is full up to Solid, and shaded up to Shade, of 1. It is only in text.
type Bar struct{ Solid, Shade float64 }

// An Object is a JSON object: names and values in turn, in the order of output. Members whose value
// does not apply are left out, but not empty strings.
type Object []any

// MarshalJSON writes the object.
func (o Object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i := 0; i < len(o); i += 2 {
		if o[i+1] == "" || applies(o[i+1]) {
			b = appendMember(b, o[i].(string), o[i+1])
		}
	}
	return append(b, '}'), nil
}

// appendMember appends a member to an object.
func appendMember(b []byte, name string, value any) []byte {
	if len(b) > 1 {
		b = append(b, ',')
	}
	return appendJSON(append(append(append(b, '"'), name...), `":`...), value)
}

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
