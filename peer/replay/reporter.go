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

// A Reporter writes the results of runs, which may be concurrent.
type Reporter struct {
	Out   io.Writer
	Form  string
	Width int // of a line of text
	Style *render.Style
	Brief bool // write divergences in their short form
	Named bool // put the connection into the names of JUnit suites

	mu     sync.Mutex
	suites []junit.Suite
	points int
}

// Trace returns a function that writes each frame; nil if the form has no frames.
func (w *Reporter) Trace(start time.Time) func(Event) {
	if w.Form != NDJSON {
		return nil
	}
	return func(e Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		_, _ = w.Out.Write(e.AppendNDJSON(nil, start)) // the report will fail, too
	}
}

// AddResult writes the result of a run.
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

// AddPoint writes a point of a sweep.
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

// Close writes the JUnit report, which is complete only now.
func (w *Reporter) Close() error {
	if w.Form != JUnit {
		return nil
	}
	suites := junit.Suites{Name: "wirectl replay", List: w.suites}
	return suites.Write(w.Out)
}
