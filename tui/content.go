package tui

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session/diff"
	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/store"
)

// A content is the content of a frame, and of the one beside it. A command reads it,
// because reading and laying out a large one takes longer than a key may wait.
type content struct {
	of     wanted
	frame  *store.Detail
	beside *store.Detail
	tree   []treeLine
	hex    []string
	pairs  [][2]string
	failed string
}

// wanted says which content it is.
type wanted struct {
	seq, other int64
	jq         *query.JQ
}

// A treeLine is a line of a payload.
type treeLine struct {
	text string
	end  int // index of the closing line; its own if it opens nothing
}

const (
	// maxHex bounds the bytes that are shown in hexadecimal.
	maxHex = 1 << 20
	// jqTime is how long a filter may take.
	jqTime = time.Second
)

// get reads a content, and makes the lines of the payload, or of the output of jq for it.
func (w wanted) get(s *store.Store) *content {
	c := &content{of: w, frame: s.Detail(w.seq)}
	f := c.frame
	if f == nil {
		return c
	}
	c.failed = f.Err
	if w.other != 0 {
		if c.beside = s.Detail(w.other); c.beside != nil {
			c.pairs = diff.Beside(linesOf(f), linesOf(c.beside))
			return c
		}
	}
	if w.jq != nil && f.JSON != nil {
		c.query(w.jq, f.JSON)
	} else if f.JSON != nil {
		c.tree = treeOf(f.JSON, 0)
	}
	h := render.Hex{Base: f.Offset, Start: f.Start, End: f.End}
	c.hex = splitLines(h.Append(nil, f.Raw[:min(len(f.Raw), maxHex)], nil))
	return c
}

// query makes the lines of the output of jq for a payload.
func (c *content) query(jq *query.JQ, form []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), jqTime)
	defer cancel()
	out, err := jq.Append(ctx, nil, form)
	if err != nil {
		c.failed = err.Error()
	}
	for _, one := range bytes.Split(bytes.TrimSpace(out), []byte("\n")) {
		c.tree = append(c.tree, treeOf(one, len(c.tree))...)
	}
}

// A sample is the beginning of a payload, which is shown beside a list.
type sample struct {
	seq   int64
	kind  string
	lines []string // of JSON, or of bytes
	json  bool
	left  int // bytes after them
}

// maxSample bounds a sample, in bytes.
const maxSample = 64 << 10

// get returns the sample of a frame: have, if it is of that frame.
func (have *sample) get(s *store.Store, seq int64) *sample {
	if have != nil && have.seq == seq {
		return have
	}
	f := s.Detail(seq)
	if f == nil || len(f.Payload) == 0 {
		return nil
	}
	p := &sample{seq: seq, kind: f.Kind, json: f.JSON != nil}
	text, layout := f.JSON, func(b []byte) []byte { return render.AppendJSON(nil, b, "  ", "", nil) }
	if !p.json {
		text, layout = f.Payload, func(b []byte) []byte { return render.Hex{End: len(b)}.Append(nil, b, nil) }
	}
	first := text[:min(len(text), maxSample)]
	p.lines, p.left = splitLines(layout(first)), len(text)-len(first)
	return p
}

func splitLines(b []byte) []string {
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// treeOf returns the lines of a JSON text, the first of which has that number. An object or
// array ends at the next line of the same depth.
func treeOf(form []byte, first int) []treeLine {
	var list []treeLine
	var open []int
	for i, text := range splitLines(render.AppendJSON(nil, form, "  ", "", nil)) {
		list = append(list, treeLine{text, first + i})
		trimmed := strings.TrimLeft(text, " ")
		if strings.HasPrefix(trimmed, "}") || strings.HasPrefix(trimmed, "]") {
			if n := len(open); n > 0 {
				list[open[n-1]].end = first + i
				open = open[:n-1]
			}
		}
		if strings.HasSuffix(text, "{") || strings.HasSuffix(text, "[") {
			open = append(open, i)
		}
	}
	return list
}
