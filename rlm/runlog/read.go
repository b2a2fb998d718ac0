package runlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxLine bounds a line that a [Reader] reads, in bytes.
const MaxLine = 256 << 20

// ErrTooLong says that a line is longer than [MaxLine].
var ErrTooLong = fmt.Errorf("longer than %d MiB", MaxLine>>20)

// A Record is a line of a log. Metadata or Iteration is set, unless the line has another
// type.
type Record struct {
	Type      string
	Metadata  *Metadata
	Iteration *Iteration
}

// A Reader reads a log line by line, also one of another implementation.
type Reader struct {
	r    *bufio.Reader
	max  int
	line int
	err  error
}

// NewReader returns a reader of the log in r.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 64<<10), max: MaxLine}
}

// Read returns the next record. At the end of the log, it returns io.EOF, unwrapped; if the
// last line was cut, the error wraps io.ErrUnexpectedEOF and has the number of the line.
// After an error, it returns that error again.
func (r *Reader) Read() (Record, error) {
	for r.err == nil {
		line, whole, err := r.next()
		if err != nil {
			r.err = err
			break
		}
		r.line++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		rec, err := parse(line)
		if err == nil {
			return rec, nil
		}
		var syntax *json.SyntaxError
		if !whole && errors.As(err, &syntax) && syntax.Offset >= int64(len(line)) {
			err = fmt.Errorf("cut inside of the record: %w", io.ErrUnexpectedEOF)
		}
		r.err = fmt.Errorf("line %d: %w", r.line, err)
	}
	return Record{}, r.err
}

// next returns the next line, and whether it has its line break.
func (r *Reader) next() (line []byte, whole bool, err error) {
	for {
		part, err := r.r.ReadSlice('\n')
		if len(line)+len(part) > r.max {
			return nil, false, fmt.Errorf("line %d: %w", r.line+1, ErrTooLong)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line, true, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && len(line) > 0:
			return line, false, nil
		default:
			return nil, false, err
		}
	}
}

func parse(line []byte) (Record, error) {
	var head struct {
		SchemaVersion int    `json:"schema_version"`
		Type          string `json:"type"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return Record{}, err
	}
	rec := Record{Type: head.Type}
	var into any
	switch head.Type {
	case "metadata":
		rec.Metadata = new(Metadata)
		into = rec.Metadata
	case "iteration":
		rec.Iteration = new(Iteration)
		into = rec.Iteration
	case "":
		return Record{}, errors.New("no type: this is not the log of a recursive language model")
	default:
		return rec, nil
	}
	if head.SchemaVersion > Version {
		return Record{}, fmt.Errorf("schema_version is %d, want at most %d", head.SchemaVersion, Version)
	}
	return rec, json.Unmarshal(line, into)
}
