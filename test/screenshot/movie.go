package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
)

// The measures of the film.
const (
	filmed = 250 * time.Millisecond // of the session, between two pictures of it
	shown  = 250 * time.Millisecond // how long each is shown
	held   = 6 * time.Second        // how long the last is shown
)

// turn is the capture of wirectl demo.
//
//go:embed turn.pcapng
var turn []byte

// movie returns a moving picture: a turn of an agent on three wires, whose user presses Esc while a
// tool works, and a tool that goes on.
func movie(ctx context.Context) ([]byte, error) {
	size := tea.WindowSizeMsg{Width: 112, Height: 17}
	var f film
	session, err := recorded()
	if err != nil {
		return nil, err
	}
	end := session.list[len(session.list)-1].Time
	for now := session.list[0].Time.Add(filmed); now.Before(end.Add(filmed)); now = now.Add(filmed) {
		screen, err := draw(ctx, session.until(now), size, "")
		if err != nil {
			return nil, err
		}
		f.show(screen, shown)
	}
	f.length += held
	return f.draw(size), nil
}

// recorded is the session of the film.
func recorded() (*script, error) {
	in, err := pcapng.NewReader(bytes.NewReader(turn), 0)
	if err != nil {
		return nil, err
	}
	s := &script{session: *in.Session(), joins: true}
	for later := time.Duration(0); ; {
		var r capture.Record
		if err := in.Next(&r); err == io.EOF {
			return s, nil
		} else if err != nil {
			return nil, err
		}
		r = r.Clone()
		if later == 0 {
			later = begun.Sub(r.Time)
		}
		r.Time = r.Time.Add(later) // what is past does not age
		s.list = append(s.list, r)
	}
}

// until is the session as it was at a time.
func (s *script) until(now time.Time) *script {
	n := slices.IndexFunc(s.list, func(r capture.Record) bool { return r.Time.After(now) })
	if n < 0 {
		n = len(s.list)
	}
	return &script{session: s.session, joins: s.joins, list: s.list[:n]}
}

// A film is the lines that each row shows, and from when on.
type film struct {
	length time.Duration
	rows   [][]take
}

type take struct {
	line string
	from time.Duration
}

// show adds a picture, which stays for that long.
func (f *film) show(screen string, stay time.Duration) {
	lines := strings.Split(screen, "\n")
	f.rows = append(f.rows, make([][]take, max(len(lines)-len(f.rows), 0))...)
	for i := range f.rows {
		line := ""
		if i < len(lines) {
			line = lines[i]
		}
		if n := len(f.rows[i]); n == 0 || f.rows[i][n-1].line != line {
			f.rows[i] = append(f.rows[i], take{line, f.length})
		}
	}
	f.length += stay
}

// draw returns the film, which begins again at its end.
func (f *film) draw(size tea.WindowSizeMsg) []byte {
	b := window(size)
	for row, takes := range f.rows {
		for i, t := range takes {
			to := f.length
			if i+1 < len(takes) {
				to = takes[i+1].from
			}
			if len(takes) == 1 {
				drawLine(b, t.line, row)
				continue
			}
			if to < f.length {
				b.WriteString(`<g display="none">`)
			} else {
				b.WriteString("<g>")
			}
			drawLine(b, t.line, row)
			f.animate(b, t.from, to)
			b.WriteString("</g>\n")
		}
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// animate shows a group from one time to another. A viewer that does not move
// pictures shows the last ones alone.
func (f *film) animate(b *strings.Builder, from, to time.Duration) {
	at := func(d time.Duration) string { return fmt.Sprintf("%.4g", d.Seconds()/f.length.Seconds()) }
	times, values := []string{"0"}, []string{"none"}
	if from == 0 {
		values[0] = "inline"
	} else {
		times, values = append(times, at(from)), append(values, "inline")
	}
	if to < f.length {
		times, values = append(times, at(to)), append(values, "none")
	}
	fmt.Fprintf(b, `<animate attributeName="display" calcMode="discrete" dur="%.4gs" repeatCount="indefinite" keyTimes="%s" values="%s"/>`,
		f.length.Seconds(), strings.Join(times, ";"), strings.Join(values, ";"))
}
