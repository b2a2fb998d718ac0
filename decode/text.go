package decode

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/wirectl/wirectl/capture/ndjson"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
)

// Text shows items to people: a line each, and more if asked for.
type Text struct {
	// Width is how many cells a line may take; with 0 nothing is cut to a width.
	Width int
	// Verbose adds the payload, pretty-printed, from 1 on, and the bytes in
	// hexadecimal from 2 on.
	Verbose int
	// Clock is how the times of frames are written, if they are known.
	Clock Clock
	// Style is the palette.
	Style *render.Style
}

// A Clock is a way to write the time of a frame.
type Clock string

const (
	Relative Clock = "rel"   // seconds since the first frame
	Delta    Clock = "delta" // seconds since the frame before
	Local    Clock = "abs"   // time of day, here
	UTC      Clock = "utc"   // date and time, UTC
)

// Clocks are all values of Clock.
var Clocks = []Clock{Relative, Delta, Local, UTC}

// append appends the time of an item, in a column of fixed width.
func (c Clock) append(dst []byte, it *Item) []byte {
	switch c {
	case Delta:
		return fmt.Appendf(dst, "%+11.6f", it.Time.Sub(it.Previous).Seconds())
	case Local:
		return it.Time.Local().AppendFormat(dst, "15:04:05.000000")
	case UTC:
		return it.Time.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000000Z")
	default:
		return fmt.Appendf(dst, "%11.6f", it.Time.Sub(it.First).Seconds())
	}
}

// The widths of the columns, in cells.
const (
	seqWidth      = 5
	offsetWidth   = 8
	dirWidth      = 3
	protocolWidth = 8
	kindWidth     = 25
	idWidth       = 10
	sizeWidth     = 6
	minSummary    = 8
)

// On a terminal narrower than this, columns that can be cut are.
const (
	narrow          = 100
	narrowKindWidth = 18
	narrowIDWidth   = 8
)

// View returns the view that t describes. Everything that one fault makes unreadable has
// one line, that of its first piece.
func (t Text) View() View {
	l := line{style: t.Style, kind: kindWidth, id: idWidth, whole: t.Width == 0}
	if t.Width > 0 && t.Width < narrow {
		l.kind, l.id = narrowKindWidth, narrowIDWidth
	}
	return func(dst []byte, it *Item) ([]byte, error) {
		if !it.goesOn {
			it.CheckForm()
			l.dst, l.used = dst, 0
			l.item(it, t.Clock)
			l.say(it, t.Width)
			dst = append(l.dst, '\n')
		}
		if t.Verbose >= 1 {
			dst = t.payload(dst, it)
		}
		if t.Verbose >= 2 {
			dst = t.hex(dst, it.Frame)
		}
		return dst, nil
	}
}

// payload appends the payload below its line, indented.
func (t Text) payload(dst []byte, it *Item) []byte {
	if m := it.Frame.Meta; m != nil {
		dst = head(dst, m.Head, t.Style)
		if m.Signal != frame.NoSignal && len(it.Payload) == 0 {
			return dst
		}
	}
	form, _, err := it.JSON()
	switch {
	case err == nil && form != nil:
		return render.AppendJSON(dst, form, "  ", indent, t.Style)
	case t.Verbose == 1:
		return t.hex(dst, it.Frame)
	}
	return dst
}

// head appends a head of HTTP, if there is one, line by line.
func head(dst []byte, h *frame.Head, style *render.Style) []byte {
	if h == nil {
		return dst
	}
	if h.Start != "" {
		dst = append(render.AppendSafe(append(dst, indent...), []byte(h.Start)), '\n')
	}
	for _, f := range h.Fields {
		dst = append(append(dst, indent...), style.Key.On...)
		dst = render.AppendSafe(dst, []byte(f.Name))
		dst = append(append(dst, style.Key.Off...), ": "...)
		dst = append(render.AppendSafe(dst, []byte(f.Value)), '\n')
	}
	return dst
}

// hex appends the bytes of a frame, indented like its payload.
func (t Text) hex(dst []byte, f *frame.Frame) []byte {
	h := render.Hex{Base: f.Offset, Start: f.Start, End: f.End, Prefix: indent}
	return h.Append(dst, f.Raw, t.Style)
}

// indent begins the lines that belong to the line above.
const indent = "        "

// A line is built column by column.
type line struct {
	dst   []byte
	used  int  // cells
	kind  int  // width of the column
	id    int  // width of the column
	whole bool // nothing is cut
	style *render.Style
	buf   []byte
}

// item appends the columns that every item has.
func (l *line) item(it *Item, clock Clock) {
	l.right(l.style.Dim, strconv.AppendInt(l.buf[:0], it.Seq, 10), seqWidth)
	if !it.Time.IsZero() {
		l.right(l.style.Offset, clock.append(l.buf[:0], it), 0)
	}
	l.right(l.style.Offset, strconv.AppendInt(l.buf[:0], it.Frame.Offset, 10), offsetWidth)
	l.left(l.style.Dim, append(l.buf[:0], it.dir().String()...), dirWidth)
	if it.Frame.Gap {
		l.left(l.style.Dim, nil, protocolWidth)
		l.left(l.style.Error, []byte(ndjson.Skipped), l.kind)
		l.left(l.style.ID, nil, l.id)
	} else {
		l.left(l.style.Dim, append(l.buf[:0], it.Protocol.Name()...), protocolWidth)
		l.left(l.style.Kind, it.kind(), l.kind)
		l.left(l.style.ID, l.names(&it.Message), l.id)
	}
	if l.buf = l.buf[:0]; !all.Rules(it.Protocol).NoWire && (it.Frame.Meta == nil || !it.Frame.Meta.Head.IsAbsent()) {
		l.buf = strconv.AppendInt(l.buf, int64(it.Frame.Size()), 10)
	}
	if it.Frame.Gap && it.Err != nil && it.Frame.Size() >= gapSize {
		l.buf = append(l.buf, '+') // the rest has no line of its own
	}
	l.right(l.style.Dim, l.buf, sizeWidth)
}

// names writes the id and, after an arrow, the id that the message refers to.
func (l *line) names(m *protocol.Message) []byte {
	l.buf = append(l.buf[:0], m.ID.Text...)
	if !m.Ref.IsZero() {
		l.buf = append(l.buf, "→"...)
		l.buf = append(l.buf, m.Ref.Text...)
	}
	return l.buf
}

// say fills the rest of the line with the summary of the message, after the version that it
// states. Requests, which may all state one, leave the version out if there is little room.
// A fault is said in full, even if the line gets too long.
func (l *line) say(it *Item, width int) {
	if it.Err != nil {
		l.dst = append(append(l.dst, ' '), l.style.Error.On...)
		l.dst = render.AppendSafe(l.dst, []byte(it.Err.Error()))
		l.dst = append(l.dst, l.style.Error.Off...)
		return
	}
	text, room := it.Summary(), width-l.used-1
	v := render.Clip(it.version(), maxVersion)
	if len(v) > 0 && (l.whole || it.Message.Phase != protocol.Open || room >= 2*minSummary+len(v)) {
		l.buf = append(append(append(l.buf[:0], 'v'), v...), ' ')
		l.buf = append(l.buf, text...)
		text = bytes.TrimRight(l.buf, " ")
	}
	switch {
	case len(text) == 0:
	case l.whole:
		l.dst = render.AppendSafe(append(l.dst, ' '), text)
	case room >= minSummary:
		l.dst = render.AppendFit(append(l.dst, ' '), text, room)
	}
}

// maxVersion is how much of a version is shown, in bytes.
const maxVersion = 64

// left appends a column of text, cut to its width.
func (l *line) left(paint render.Paint, text []byte, width int) {
	l.separate()
	l.dst = append(l.dst, paint.On...)
	start := len(l.dst)
	if l.whole {
		l.dst = render.AppendSafe(l.dst, text)
	} else {
		l.dst = render.AppendFitPath(l.dst, text, width)
	}
	n := render.Cells(l.dst[start:])
	l.dst = append(l.dst, paint.Off...)
	l.pad(width - n)
	l.used += width
}

// right appends a number at the right of its column.
func (l *line) right(paint render.Paint, digits []byte, width int) {
	l.separate()
	l.pad(width - len(digits))
	l.dst = append(l.dst, paint.On...)
	l.dst = append(l.dst, digits...)
	l.dst = append(l.dst, paint.Off...)
	l.used += max(width, len(digits))
}

func (l *line) separate() {
	if l.used > 0 {
		l.pad(1)
		l.used++
	}
}

func (l *line) pad(n int) {
	for range n {
		l.dst = append(l.dst, ' ')
	}
}
