package source

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
)

// Lines reads a file of JSON lines.
type Lines struct {
	r       io.Reader
	live    bool
	text    bool
	buf     []byte
	at, end int   // buf[at:end] was not returned
	offset  int64 // of buf[0] in the file
	err     error
	skipped int // lines that are over the limit, or no records
	skips   bool
}

const (
	// maxLine is the longest line, in bytes: results of tools contain images.
	maxLine  = 32 << 20
	readSize = 64 << 10
)

// ErrIdle says that a file that grows has no more for now.
var ErrIdle = errors.New("no more for now")

// NewLines returns the lines of r. At the end of a live file, Next returns [ErrIdle].
func NewLines(r io.Reader, live bool) *Lines { return &Lines{r: r, live: live} }

// NewTextLines is [NewLines] for a file whose lines need not be JSON, so that a last one without its end counts.
func NewTextLines(r io.Reader, live bool) *Lines { return &Lines{r: r, live: live, text: true} }

// Next returns the next line that is not blank, valid until the next call. A last line without its end
// counts if it is complete JSON; otherwise the error is a [*CutError].
func (l *Lines) Next() ([]byte, error) {
	for seen := 0; ; {
		if i := bytes.IndexByte(l.buf[l.at+seen:l.end], '\n'); i >= 0 {
			line := bytes.TrimSpace(l.buf[l.at : l.at+seen+i])
			l.at, seen = l.at+seen+i+1, 0
			if l.skips {
				l.skips = false
				continue
			}
			if len(line) > 0 {
				return line, nil
			}
			continue
		}
		if seen = l.end - l.at; seen > maxLine {
			if !l.skips {
				l.skipped++
			}
			l.skips, l.at, seen = true, l.end, 0
		}
		if l.err != nil {
			return l.last()
		}
		l.makeRoom()
		n, err := l.r.Read(l.buf[l.end:])
		l.end, l.err = l.end+n, err
		if n == 0 && err == nil && l.live {
			return nil, ErrIdle
		}
	}
}

// Skip says that the last line is no record.
func (l *Lines) Skip() { l.skipped++ }

// Remark says what was skipped; "" for nothing.
func (l *Lines) Remark() string {
	if l.skipped == 0 {
		return ""
	}
	return render.Count(int64(l.skipped), "line") + " skipped: no records, or over the limit of 32 MiB"
}

// last returns the rest of the file.
func (l *Lines) last() ([]byte, error) {
	line := bytes.TrimSpace(l.buf[l.at:l.end])
	begin := l.offset + int64(l.at)
	l.at = l.end
	switch {
	case l.err != io.EOF:
		return nil, l.err
	case len(line) == 0 || l.skips:
		l.release()
		return nil, io.EOF
	case !l.text && jsonscan.WellFormed(line) != nil:
		l.release()
		return nil, &CutError{begin}
	}
	return line, nil
}

// release gives the buffer back.
func (l *Lines) release() {
	if cap(l.buf) == readSize {
		buffers.Put((*[readSize]byte)(l.buf))
	}
	l.buf, l.at, l.end = nil, 0, 0
}

// buffers are kept because listings read many files.
var buffers = sync.Pool{New: func() any { return new([readSize]byte) }}

func (l *Lines) makeRoom() {
	if l.at > 0 {
		l.offset += int64(l.at)
		l.end = copy(l.buf, l.buf[l.at:l.end])
		l.at = 0
	}
	if l.buf == nil {
		l.buf = buffers.Get().(*[readSize]byte)[:]
	}
	if len(l.buf)-l.end < readSize/4 {
		grown := make([]byte, max(2*len(l.buf), l.end+readSize))
		copy(grown, l.buf[:l.end])
		l.buf = grown
	}
}
