package render

import (
	"bytes"
	"io"
)

// Records returns a writer of NDJSON to w, which is a terminal: characters that are
// not safe to show become JSON escapes, so that each line is still the same JSON
// value. Each Write is of whole lines.
func Records(w io.Writer) io.Writer { return &records{w: w} }

type records struct {
	w   io.Writer
	buf []byte
}

func (r *records) Write(lines []byte) (int, error) {
	r.buf = r.buf[:0]
	for line := range bytes.Lines(lines) {
		text, ended := bytes.CutSuffix(line, []byte("\n"))
		r.buf, _ = appendSafe(r.buf, text, noBond, escapeRecord)
		if ended {
			r.buf = append(r.buf, '\n')
		}
	}
	if _, err := r.w.Write(r.buf); err != nil {
		return 0, err
	}
	return len(lines), nil
}

// escapeRecord is escapeJSON for a whole text, where a tab is white space.
func escapeRecord(dst []byte, r rune) []byte {
	if r == '\t' {
		return append(dst, '\t')
	}
	return escapeJSON(dst, r)
}
