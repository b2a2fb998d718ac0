package sse_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/wirectl/wirectl/internal/sse"
)

var streams = []struct {
	about, stream string
	want          []string // as show writes events
}{
	{"names, ids and comments", ": hi\nevent: e\nid: 7\nretry: 5\ndata: x\n\ndata:y\n\n", []string{`e 7 "x" 35`, `  "y" 43`}},
	{"data of many lines", "data: a\ndata:b\ndata\n\n", []string{`  "a\nb\n"`}},
	{"data that is empty", "data\n\ndata:\n\n", []string{`  ""`, `  ""`}},
	{"one space is none of the data", "data:  a \n\n", []string{`  " a " 6`}},
	{"no data, no event, and no name for the next", "event: e\nid: 1\n\ndata: x\n\n", []string{`  "x" 22`}},
	{"lines end in CR", "data: x\r\rdata: y\r\r", []string{`  "x" 6`, `  "y" 15`}},
	{"lines end in CR and LF", "data: x\r\nid: 1\r\n\r\ndata: y\r\n\r\n", []string{` 1 "x" 6`, `  "y" 24`}},
	{"line ends of all kinds", "id: 1\rdata: x\r\n\ndata: y\n\r\n", []string{` 1 "x" 12`, `  "y" 22`}},
	{"a byte order mark", "\ufeffdata: x\n\n\ufeffdata: y\n\n", []string{`  "x" 9`}},
	{"an event that the stream ends in", "data: x\n\ndata: y\n", []string{`  "x" 6`}},
	{"a line that it ends in", "data: x\n\ndata: y", []string{`  "x" 6`}},
	{"a name that is too long", "event: " + strings.Repeat("n", 2*sse.MaxName) + "\ndata: x\n\n", []string{strings.Repeat("n", sse.MaxName) + fmt.Sprintf(`  "x" %d`, 2*sse.MaxName+14)}},
	{"fields of another case and with space", "Data: x\n data: y\ndata : z\n\n", nil},
}

// An event is the same wherever the stream is cut.
func TestEvents(t *testing.T) {
	for _, tt := range streams {
		for _, size := range []int{1, 2, 3, len(tt.stream)} {
			if got := push(tt.stream, size); !slices.Equal(got, tt.want) {
				t.Errorf("%s, in pieces of %d: %q, want %q", tt.about, size, got, tt.want)
			}
		}
	}
}

// push shows the events of a stream that comes in pieces of a size.
func push(stream string, size int) (list []string) {
	var p sse.Parser
	add := func(e *sse.Event) {
		if e != nil {
			list = append(list, show(stream, e))
		}
	}
	for at := 0; at < len(stream); {
		n, e := p.Next([]byte(stream[at:min(at+size, len(stream))]), int64(at))
		at += n
		add(e)
	}
	add(p.Settle())
	return list
}

// show writes an event, with the place of its data where that is in one piece.
func show(stream string, e *sse.Event) string {
	text := fmt.Sprintf("%s %s %q", e.Name, e.ID, e.Data)
	if len(e.Data) > 0 && e.End-e.Begin == int64(len(e.Data)) {
		if stream[e.Begin:e.End] != string(e.Data) {
			return "another place"
		}
		text += fmt.Sprint(" ", e.Begin)
	}
	return text
}

// A reader has an event as soon as its last line has ended, and not with the byte
// after that.
func TestEventAtOnce(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\r", "\r\n\r\n"} {
		r, w := io.Pipe()
		go func() { _, _ = io.WriteString(w, "data: x"+end) }()
		for e, err := range sse.Events(r, 100, nil) {
			if err != nil || string(e.Data) != "x" {
				t.Error(e, err)
			}
			break
		}
		r.Close()
	}
}

// Reading ends with the limit or with the error of the reader.
func TestEventsEnd(t *testing.T) {
	long, broken := errors.New("long"), errors.New("broken")
	for _, tt := range []struct {
		stream string
		want   error
	}{
		{"data: 12345\n\n", nil},
		{"data: 1234567890123456\n\n", long},
		{"data: 12345\ndata: 67890\ndata: 12345\n\n", long},
		{": " + strings.Repeat("c", 20) + "\n", long},
	} {
		for _, end := range []error{io.EOF, broken} {
			var last error
			r := iotest.OneByteReader(io.MultiReader(strings.NewReader(tt.stream), iotest.ErrReader(end)))
			for _, err := range sse.Events(r, 15, long) {
				last = err
			}
			want := tt.want
			if want == nil && end == broken {
				want = broken
			}
			if last != want {
				t.Errorf("%q, %v: %v, want %v", tt.stream, end, last, want)
			}
		}
	}
}

// However a stream is cut, it has the same events, and the parser keeps no more
// than it was given.
func FuzzEvents(f *testing.F) {
	for _, tt := range streams {
		f.Add(tt.stream, uint8(3))
	}
	f.Fuzz(func(t *testing.T, stream string, n uint8) {
		size := int(n) + 1
		whole := push(stream, len(stream)+1)
		if cut := push(stream, size); !slices.Equal(whole, cut) {
			t.Errorf("in one piece %q, in pieces of %d %q", whole, size, cut)
		}
		var read []string
		for e, err := range sse.Events(iotest.OneByteReader(strings.NewReader(stream)), len(stream)+1, nil) {
			if err != nil {
				t.Fatal(err)
			}
			if e == sse.Comment {
				continue
			}
			read = append(read, fmt.Sprintf("%s %s %q", e.Name, e.ID, e.Data))
		}
		if len(read) != len(whole) {
			t.Errorf("read %q, want %q", read, whole)
		}
		for i, e := range read {
			if !strings.HasPrefix(whole[i], e) {
				t.Errorf("read %q, want %q", e, whole[i])
			}
		}
	})
}
