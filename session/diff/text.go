package diff

import (
	"fmt"
	"strconv"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session/contract"
	"github.com/wirectl/wirectl/table"
)

// Write writes a report: NDJSON, or text with each exchange that differs, followed by a line for
// each difference.
func (r *Report) Write(out table.Output) error {
	if out.Form == table.AsNDJSON {
		return table.Write(out, nil, r.Differences)
	}
	style := out.Style
	var b []byte
	var last *Difference
	for i := range r.Differences {
		d := &r.Differences[i]
		if d.What == Version {
			b = fmt.Appendf(b, "%s: %s %s\n", style.Kind.Text(render.Safe(d.Kind)), style.Key.Text(string(Version)), style.String.Text(either(shown(d.A.Value), shown(d.B.Value))))
			continue
		}
		if last == nil || !d.continues(last) {
			b = appendHeading(b, d, style)
		}
		if d.What != Exchange {
			b = appendDifference(b, d, style)
		}
		last = d
	}
	_, err := out.To.Write(b)
	return err
}

// continues reports whether d is about the same exchange as the one before it.
func (d *Difference) continues(before *Difference) bool {
	return before.What != Exchange && d.What != Exchange &&
		d.A.Opened == before.A.Opened && d.B.Opened == before.B.Opened && d.Kind == before.Kind && d.A.ID == before.A.ID
}

// appendHeading names an exchange: "PROMPT_SEND 1 → 7, frame 3 → 9".
func appendHeading(b []byte, d *Difference, style *render.Style) []byte {
	named := func(kind, id string) {
		b = style.Kind.Append(b, render.Safe(kind))
		if id != "" {
			b = style.ID.Append(append(b, ' '), render.Safe(id))
		}
	}
	named(d.Kind, either(idOf(d.A), idOf(d.B)))
	if d.Of != nil {
		b = append(b, " of "...)
		named(d.Of.Kind, d.Of.ID)
	}
	switch {
	case d.B == nil:
		b = fmt.Appendf(b, ": %s%s", frames(d.A), style.Error.Text(", only in A"))
	case d.A == nil:
		b = fmt.Appendf(b, ": %s%s", frames(d.B), style.Error.Text(", only in B"))
	}
	return append(b, '\n')
}

func idOf(s *Side) string {
	if s == nil {
		return ""
	}
	return s.ID
}

// either returns the value of both sides, the only value, or "a → b".
func either(a, b string) string {
	switch {
	case a == b || b == "":
		return a
	case a == "":
		return b
	}
	return a + " → " + b
}

// appendDifference appends the line of a difference:
// "  frame 5 → 7: RESPONSE_CHUNK responseChunk.content: "a" → "b"".
func appendDifference(b []byte, d *Difference, style *render.Style) []byte {
	b = fmt.Appendf(b, "  %s: ", place(d))
	if d.Change != nil {
		paint := style.Dim
		if d.Change.Class == contract.Breaking {
			paint = style.Error
		}
		return fmt.Appendf(b, "%s %s\n", render.Safe(d.Change.Text), paint.Text("("+string(d.Change.Class)+")"))
	}
	if d.Message != "" {
		b = append(append(b, render.Safe(d.Message)...), ' ')
	}
	label := string(d.What)
	switch d.What {
	case Message:
		if d.B.Frames == nil {
			return append(style.Error.Append(b, "only in A"), '\n')
		}
		return append(style.Error.Append(b, "only in B"), '\n')
	case Payload, Model:
		label = d.Path
	}
	if label != "" {
		b = append(style.Key.Append(b, render.Safe(label)), ": "...)
	}
	return fmt.Appendf(b, "%s → %s\n", style.String.Text(shown(d.A.Value)), style.String.Text(shown(d.B.Value)))
}

// place names the frames of a difference: "frame 5", "frame 5 → 7".
func place(d *Difference) string {
	a, b := frames(d.A), frames(d.B)
	switch {
	case a == b || len(d.B.Frames) == 0:
		return a
	case len(d.A.Frames) == 0:
		return b
	}
	return a + " → " + b[len(word(d.B)):]
}

// frames lists the frames of a side, or the frame that opened its exchange if there are none.
func frames(s *Side) string {
	list := s.Frames
	if len(list) == 0 {
		list = []int64{s.Opened}
	}
	text := word(s)
	for i, n := range list {
		if i > 0 {
			text += ", "
		}
		text += strconv.FormatInt(n, 10)
	}
	return text
}

// word returns the first word of a list of frames.
func word(s *Side) string {
	if len(s.Frames) > 1 {
		return "frames "
	}
	return "frame "
}

// shown returns a value for people; an absent one is a dash.
func shown(value string) string {
	if value == "" {
		return "–"
	}
	return render.Safe(value)
}
