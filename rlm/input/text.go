package input

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"unicode/utf8"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
)

// pieceSize is how much of a context is in memory at a time.
const pieceSize = 256 << 10

// errNotUTF8 is the error for a text that is not UTF-8.
var errNotUTF8 = errors.New("the text is not UTF-8")

// A notUTF8Error says where a text is not UTF-8.
type notUTF8Error struct{ at int64 }

func (e *notUTF8Error) Error() string {
	return fmt.Sprintf("byte %d: %v: convert it, for example with iconv", e.at, errNotUTF8)
}
func (e *notUTF8Error) Unwrap() error { return errNotUTF8 }

// eachPiece calls f with the pieces of a text in UTF-8. No piece ends inside a character.
func eachPiece(r io.Reader, f func(piece []byte) error) error {
	buf := make([]byte, pieceSize)
	var at int64
	rest := 0 // bytes of an incomplete character
	for {
		n, err := io.ReadFull(r, buf[rest:])
		end := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !end {
			return err
		}
		piece := buf[:rest+n]
		if !end {
			piece = piece[:len(piece)-render.CutRune(piece)]
		}
		if !jsonscan.ValidUTF8(piece) {
			return &notUTF8Error{at + int64(invalidAt(piece))}
		}
		if err := f(piece); err != nil || end {
			return err
		}
		at += int64(len(piece))
		rest = copy(buf, buf[len(piece):rest+n])
	}
}

func invalidAt(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return len(b)
}

// countChars returns how many characters are in UTF-8 text: all bytes except continuation
// bytes, 10xxxxxx.
func countChars(b []byte) int64 {
	n := len(b)
	for ; len(b) >= 8; b = b[8:] {
		w := binary.LittleEndian.Uint64(b)
		n -= bits.OnesCount64(w >> 7 &^ (w >> 6) & 0x0101010101010101)
	}
	for _, c := range b {
		if !utf8.RuneStart(c) {
			n--
		}
	}
	return int64(n)
}

// copyText copies a text and returns its length in characters.
func copyText(w io.Writer, r io.Reader) (chars int64, err error) {
	err = eachPiece(r, func(piece []byte) error {
		chars += countChars(piece)
		_, err := w.Write(piece)
		return err
	})
	return chars, err
}

// writeText writes a text as a JSON string.
func writeText(w *bufio.Writer, r io.Reader) (chars int64, err error) {
	_ = w.WriteByte('"') // an error comes back with the next write
	var quoted []byte
	err = eachPiece(r, func(piece []byte) error {
		chars += countChars(piece)
		quoted = jsonscan.AppendQuote(quoted[:0], piece)
		_, err := w.Write(quoted[1 : len(quoted)-1])
		return err
	})
	_ = w.WriteByte('"')
	return chars, err
}

// writeList writes lines of JSON as a list.
func writeList(w *bufio.Writer, r io.Reader) (chars int64, err error) {
	_ = w.WriteByte('[')
	lines := &separator{w: w}
	s := newScanner(r)
	s.copy = lines
	err = s.lines(func(v value) {
		chars += v.asItem()
		lines.next = true
	})
	_ = w.WriteByte(']')
	return chars, err
}

// A separator writes a comma between values.
type separator struct {
	w    *bufio.Writer
	next bool // a value has ended
}

func (s *separator) Write(b []byte) (int, error) {
	if s.next && len(bytes.TrimLeft(b, " \t\r\n")) > 0 {
		s.next = false
		_ = s.w.WriteByte(',')
	}
	return s.w.Write(b)
}

// beginMember writes the key of a member of an object.
func beginMember(w *bufio.Writer, first bool, key string) {
	before := byte(',')
	if first {
		before = '{'
	}
	_ = w.WriteByte(before)
	_, _ = w.Write(append(jsonscan.AppendQuote(nil, []byte(key)), ':'))
}
