package replay

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/wirectl/wirectl/internal/junit"
	"github.com/wirectl/wirectl/internal/render"
)

// The forms of a report.
const (
	Text   = "text"
	NDJSON = "ndjson"
	JUnit  = "junit"
)

// Forms are the forms of a report.
var Forms = []string{Text, NDJSON, JUnit}

// A Reporter writes what comes of runs, which may be under way at once.
type Reporter struct {
	Out   io.Writer
	Form  string
	Width int // of a line of text
	Style *render.Style
	Brief bool // a line of text for a divergence: there may be many of them
	Named bool // JUnit: after their connections, because there are several

	mu     sync.Mutex
	suites []junit.Suite
	points int
}

// Trace returns what writes each frame; nil if that is not part of the form.
func (w *Reporter) Trace(start time.Time) func(Event) {
	if w.Form != NDJSON {
		return nil
	}
	return func(e Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		_, _ = w.Out.Write(e.AppendNDJSON(nil, start)) // the report fails, too, and says so
	}
}

// AddResult writes what came of a run.
func (w *Reporter) AddResult(who string, r *Result) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b []byte
	switch w.Form {
	case JUnit:
		if w.Named {
			who = fmt.Sprintf("%s, connection %d", who, r.Conn)
		}
		w.suites = append(w.suites, r.JUnit(who))
		return nil
	case NDJSON:
		for _, d := range r.Divergences {
			b = d.AppendNDJSON(b, r.Conn)
		}
		b = r.AppendNDJSON(b)
	default:
		for _, d := range r.Divergences {
			if w.Brief {
				b = d.AppendLines(b, w.Width, w.Style)
			} else {
				b = d.AppendText(b, w.Width, w.Style)
			}
		}
	}
	_, err := w.Out.Write(b)
	return err
}

// AddPoint writes what came of a point of a sweep.
func (w *Reporter) AddPoint(p *Point) error {
	var b []byte
	if w.Form == NDJSON {
		b = p.AppendNDJSON(b)
	} else {
		if w.points == 0 {
			b = append(b, Title...)
		}
		b = p.AppendText(b, w.Style)
	}
	w.points++
	_, err := w.Out.Write(b)
	return err
}

// Close writes what is only whole at the end.
func (w *Reporter) Close() error {
	if w.Form != JUnit {
		return nil
	}
	suites := junit.Suites{Name: "wirectl replay", List: w.suites}
	return suites.Write(w.Out)
}
