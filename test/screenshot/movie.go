package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// The measures of the film.
const (
	filmed = 200 * time.Millisecond // of the session, between two pictures of it
	shown  = 300 * time.Millisecond // how long each is shown
	held   = 4 * time.Second        // how long the last of the lanes is shown, and then the finding
)

// movie returns a moving picture: a client whose user presses Esc while a tool works, and a
// tool that goes on. It ends with the finding.
func movie(ctx context.Context) ([]byte, error) {
	size := tea.WindowSizeMsg{Width: 110, Height: 15}
	var f film
	session := cancelled()
	end := session.list[len(session.list)-1].Time
	for now := begun.Add(filmed); now.Before(end.Add(filmed)); now = now.Add(filmed) {
		screen, err := draw(ctx, session.until(now), size, "")
		if err != nil {
			return nil, err
		}
		f.show(screen, shown)
	}
	f.length += held
	screen, err := draw(ctx, session.until(end), size, "3")
	if err != nil {
		return nil, err
	}
	f.show(screen, held)
	return f.draw(size), nil
}

// cancelled is the session of the film.
func cancelled() *script {
	s := &script{session: capture.Session{Created: begun, Framing: "line", Protocol: "mcp", Unit: "files"}}
	s.addRequest(0, 0, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"editor","version":"3.2.0"}`)
	s.addMessage(90, frame.U2C, `"id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"files","version":"1.4.0"}}`)
	s.addMessage(95, frame.C2U, `"method":"notifications/initialized"`)
	s.addRequest(150, 1, "tools/list", `"cursor":""`)
	s.addMessage(240, frame.U2C, `"id":1,"result":{"tools":[{"name":"read_file"},{"name":"search"},{"name":"index"}]}`)
	s.addCall(500, 2, "read_file", `"path":"README.md"`)
	s.addAnswer(620, 2, "# A project")
	s.addCall(900, 3, "index", `"path":"src"`)
	s.parts(3, "%d files", every(1000, 2500, 90)...)
	s.addCall(1300, 4, "search", `"text":"next"`)
	s.parts(4, "%d matches", every(1400, 1900, 130)...)
	s.addAnswer(2000, 4, "17 matches")
	s.addCancel(2500, 3) // Esc
	s.parts(3, "%d files", every(2600, 4200, 110)...)
	s.addCall(3000, 5, "read_file", `"path":"src/main.go"`)
	s.addAnswer(3150, 5, "package main")
	s.addAnswer(4300, 3, "812 files")
	slices.SortStableFunc(s.list, func(a, b capture.Record) int { return a.Time.Compare(b.Time) })
	return s
}

// until is the session as it was at a time.
func (s *script) until(now time.Time) *script {
	n := slices.IndexFunc(s.list, func(r capture.Record) bool { return r.Time.After(now) })
	if n < 0 {
		n = len(s.list)
	}
	return &script{session: s.session, list: s.list[:n]}
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
