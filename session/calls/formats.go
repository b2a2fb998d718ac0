package calls

import (
	"bytes"
	"encoding/csv"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// NDJSON writes one object per line, with the [Keys] that apply.
func NDJSON() Format { return ndjson{} }

type ndjson struct{}

func (ndjson) call(dst []byte, c *Call) []byte {
	start := len(dst)
	for _, f := range fields {
		from := len(dst)
		dst = append(append(append(dst, `,"`...), f.key...), `":`...)
		value := len(dst)
		if dst = f.append(dst, c); len(dst) == value {
			dst = dst[:from]
		}
	}
	dst[start] = '{'
	return append(dst, "}\n"...)
}

func (ndjson) rest(dst []byte) []byte { return dst }

// CSV writes a row of [Keys], then a row of their values for each call.
func CSV() Format {
	f := new(commaSeparated)
	f.w = csv.NewWriter(&f.out)
	return f
}

type commaSeparated struct {
	out    bytes.Buffer
	w      *csv.Writer
	headed bool
	row    []string
	field  []byte
}

func (f *commaSeparated) call(dst []byte, c *Call) []byte {
	dst = f.head(dst)
	f.row = f.row[:0]
	for _, column := range fields {
		f.field = column.append(f.field[:0], c)
		text, isText := jsonscan.Unquote(f.field)
		if !isText {
			text = f.field
		}
		f.row = append(f.row, string(text))
	}
	return f.write(dst, f.row)
}

// rest writes the header if there are no rows.
func (f *commaSeparated) rest(dst []byte) []byte { return f.head(dst) }

func (f *commaSeparated) head(dst []byte) []byte {
	if f.headed {
		return dst
	}
	f.headed = true
	return f.write(dst, Keys)
}

func (f *commaSeparated) write(dst []byte, row []string) []byte {
	f.out.Reset()
	_ = f.w.Write(row) // into memory
	f.w.Flush()
	return append(dst, f.out.Bytes()...)
}
