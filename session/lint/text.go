package lint

import (
	"io"
	"slices"
	"strconv"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
)

// Text writes a report for people, one line per finding. The first finding of each name is
// followed by the rule and advice for fixing it.
func (r *Report) Text(w io.Writer, style *render.Style) error {
	said := make(map[string]bool)
	var b []byte
	for _, s := range r.Sessions {
		if len(r.Sessions) > 1 && len(s.Findings) > 0 {
			b = style.Kind.Append(b, render.Safe(s.Name)+":")
			b = append(b, '\n')
		}
		several := s.severalConns()
		for _, f := range s.Findings {
			b = appendFinding(b, &f, several, style)
			if !said[f.Name] {
				b = appendRule(b, &f, style)
			}
			said[f.Name] = true
		}
	}
	_, err := w.Write(b)
	return err
}

// The widths of the columns, in cells.
const (
	severityWidth = 7
	nameWidth     = 15
)

func appendFinding(b []byte, f *session.Finding, conn bool, style *render.Style) []byte {
	b = appendColumn(b, f.Severity.String(), severityWidth, paintOf(f.Severity, style))
	b = appendColumn(b, f.Name, nameWidth, style.Kind)
	b = style.ID.Append(b, where(f, conn))
	b = append(b, ": "...)
	return append(append(b, render.Safe(f.Message)...), '\n')
}

// appendRule appends the rule of a finding, below the finding.
func appendRule(b []byte, f *session.Finding, style *render.Style) []byte {
	for _, text := range []string{f.Rule, Rules[ruleIndex(f.Name)].Do} {
		b = appendColumn(b, "", severityWidth, render.Paint{})
		b = append(style.Dim.Append(b, render.Safe(text)), '\n')
	}
	return b
}

func appendColumn(b []byte, text string, width int, paint render.Paint) []byte {
	b = paint.Append(b, text)
	for range max(width-len(text), 0) + 1 {
		b = append(b, ' ')
	}
	return b
}

func paintOf(s session.Severity, style *render.Style) render.Paint {
	switch s {
	case session.Error:
		return style.Error
	case session.Warning:
		return style.ID
	}
	return style.Dim
}

// severalConns reports whether there are findings of different connections.
func (s *Session) severalConns() bool {
	first := slices.IndexFunc(s.Findings, ofConn)
	return first >= 0 && slices.ContainsFunc(s.Findings, func(f session.Finding) bool { return ofConn(f) && f.Conn != s.Findings[first].Conn })
}

// ofConn reports whether a finding is about one connection. The findings of a contract may be
// about the whole session; their number is 0.
func ofConn(f session.Finding) bool { return f.Conn != 0 }

// where writes the frames of a finding and, if conn is set, its connection: "frames 1, 7 of
// connection 2".
func where(f *session.Finding, conn bool) string {
	if len(f.Frames) == 0 {
		return "the session"
	}
	text := "frame "
	if len(f.Frames) > 1 {
		text = "frames "
	}
	for i, n := range f.Frames {
		if i > 0 {
			text += ", "
		}
		text += strconv.FormatInt(n, 10)
	}
	if conn && ofConn(*f) {
		text += " of connection " + strconv.Itoa(f.Conn)
	}
	return text
}
