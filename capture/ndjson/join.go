package ndjson

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// Lines returns the content of r with each record on one line if the first record spans
// several lines, as in indented JSON. Otherwise it returns the content unchanged. It waits
// for the first line.
func Lines(r io.Reader) io.Reader {
	b := bufio.NewReaderSize(r, 64<<10) // r itself, if its buffer is that large
	for n := 1; ; n++ {
		_, err := b.Peek(n)
		n = b.Buffered()
		head, _ := b.Peek(n)
		line, _, whole := bytes.Cut(bytes.TrimLeft(head, " \t\r\n"), []byte("\n"))
		if cut, ok := errors.AsType[*jsonscan.SyntaxError](jsonscan.WellFormed(line)); whole && ok && cut.Truncated {
			return &joiner{r: b}
		}
		if whole || err != nil {
			return b
		}
	}
}

// A joiner puts each JSON value on one line, without insignificant white space.
type joiner struct {
	r     io.Reader
	at    values
	last  byte // the last returned byte
	space bool // white space was dropped after it
	two   [2]byte
	rest  []byte // unread part of two
}

func (j *joiner) Read(p []byte) (int, error) {
	if len(j.rest) > 0 {
		n := copy(p, j.rest)
		j.rest = j.rest[n:]
		return n, nil
	}
	if len(p) < 2 {
		n, err := j.Read(j.two[:])
		j.rest = j.two[:n]
		if n > 0 && len(p) > 0 {
			return j.Read(p)
		}
		return 0, err
	}
	n, err := j.r.Read(p[1:]) // leaves room for a space that is restored
	w := 0
	for _, c := range p[1 : 1+n] {
		inside := j.at.depth > 0 && !j.at.inText
		if inside && (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
			j.space = true
			continue
		}
		if inside && j.space && !isPunctuation(j.last) && !isPunctuation(c) {
			p[w] = ' ' // keep invalid JSON invalid
			w++
		}
		j.space, j.last = false, c
		j.at.addByte(c)
		p[w] = c
		w++
	}
	return w, err
}

func isPunctuation(c byte) bool { return bytes.IndexByte([]byte("{}[],:"), c) >= 0 }

// FirstValue returns the object or array that text begins with. If its end is missing, it
// returns all of text and false.
func FirstValue(text []byte) (value []byte, whole bool) {
	var at values
	for i, c := range text {
		if at.addByte(c); at.depth == 0 && (c == '}' || c == ']') {
			return text[:i+1], true
		}
	}
	return text, false
}

// values tracks the nesting depth in JSON.
type values struct {
	depth           int
	inText, escaped bool
}

func (v *values) addByte(c byte) {
	switch {
	case v.escaped:
		v.escaped = false
	case v.inText:
		v.escaped, v.inText = c == '\\', c != '"'
	case c == '"':
		v.inText = true
	case c == '{' || c == '[':
		v.depth++
	case (c == '}' || c == ']') && v.depth > 0:
		v.depth--
	}
}
