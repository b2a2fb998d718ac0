package merge

import (
	"fmt"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
)

// columns is how wide the lanes are drawn.
const columns = 64

// draw writes the two ends as two lines, and lists what was found.
func (r *Report) draw() string {
	var b strings.Builder
	for s, name := range r.options.Names {
		end := "the controller's end"
		if s != r.near {
			end = "the unit's end"
		}
		fmt.Fprintf(&b, "%s  %s: %s, %s%s\n", letters[s], render.Safe(name), render.Count(int64(len(r.x.sides[s].entries)), "frame"), end, r.spans[s].period())
	}
	fmt.Fprintf(&b, "%s\n\n", capital(r.clock.describe(letters[r.near], letters[1-r.near])))
	for s, line := range r.lines() {
		fmt.Fprintf(&b, "%s  %s\n", letters[s], line)
	}
	b.WriteString("   ─ nothing  · frames  ✗ lost  ≠ changed  ◷ held  ? not covered by the other\n\n")
	for i := range r.Findings {
		f := &r.Findings[i]
		fmt.Fprintf(&b, "%-16s  %-9s  %s\n", f.Name, numbers(f), f.Text)
	}
	if len(r.Findings) > 0 {
		b.WriteByte('\n')
	}
	for _, line := range r.remarks() {
		fmt.Fprintf(&b, "%s\n", line)
	}
	return b.String()
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// numbers are those of the frame at both ends.
func numbers(f *Finding) string {
	switch {
	case f.A == 0:
		return fmt.Sprintf("B#%d", f.B)
	case f.B == 0:
		return fmt.Sprintf("A#%d", f.A)
	}
	return fmt.Sprintf("A#%d B#%d", f.A, f.B)
}

// period says from when to when a capture goes.
func (s *scan) period() string {
	if s.begin == 0 {
		return ", without times"
	}
	const layout = "15:04:05.000"
	return fmt.Sprintf(", %s to %s", time.Unix(0, s.begin).UTC().Format(layout), time.Unix(0, s.end).UTC().Format(layout))
}

// lines draw what happened at the two ends, in the order of A's time.
func (r *Report) lines() [2]string {
	var from, to int64
	at := func(s int, e *entry) int64 {
		if s == 1 && r.x.timed[e.dir] {
			return e.at + r.x.shift[e.dir]
		}
		return e.at
	}
	for s, of := range r.x.sides {
		for i := range of.entries {
			if t := at(s, &of.entries[i]); t != 0 {
				if from == 0 || t < from {
					from = t
				}
				to = max(to, t)
			}
		}
	}
	marks := []string{isBoth: "·", isDelayed: "◷", isChanged: "≠", isLost: "✗", isAdded: "≠", isUncovered: "?", isOwn: "·"}
	worst := []int{isBoth: 1, isDelayed: 3, isChanged: 4, isLost: 6, isAdded: 5, isUncovered: 2, isOwn: 1}
	var lines [2]string
	for s, of := range r.x.sides {
		var cells [columns]string
		var ranks [columns]int
		for i := range of.entries {
			col := i * columns / len(of.entries)
			if e := &of.entries[i]; e.at != 0 && to > from {
				col = int(float64(at(s, e)-from) / float64(to-from) * (columns - 1))
			}
			st := r.states[s][i]
			if b := r.x.other[s][i]; b != 0 && s != r.near {
				st = r.states[r.near][b-1]
			}
			if rank := worst[st]; rank > ranks[col] {
				ranks[col], cells[col] = rank, marks[st]
			}
		}
		for i := range cells {
			if cells[i] == "" {
				cells[i] = "─"
			}
		}
		lines[s] = strings.Join(cells[:], "")
	}
	return lines
}

// remarks count what is not a finding.
func (r *Report) remarks() (lines []string) {
	add := func(n int, thing, rest string) {
		switch {
		case n > 0 && thing == "":
			lines = append(lines, fmt.Sprintf("%d of these%s", n, rest))
		case n > 0:
			lines = append(lines, render.Count(int64(n), thing)+rest)
		}
	}
	add(r.Both, "frame", " at both ends")
	add(r.Rewritten, "", " written in another way: other ids, paths or spelling, with the same content")
	add(r.Vague, "", " with masked or missing content, of which changes cannot be told")
	add(r.Uncovered, "frame", " not covered: the other capture had not begun, or had ended")
	add(r.Own, "frame", " not judged: heads of HTTP, answers to what is told above, and connections that only one end has")
	for s, n := range r.alone {
		add(n, "connection", fmt.Sprintf(" of %s of which %s has nothing", letters[s], letters[1-s]))
	}
	for s := range r.spans {
		add(int(r.spans[s].carried), "frame", fmt.Sprintf(" of %s's carrier, such as pings, not compared", letters[s]))
	}
	return lines
}

// Clean says what did not happen, as far as that is known, where nothing was found.
func (r *Report) Clean() string {
	text := "nothing was lost"
	if r.Vague < r.Both {
		text += ", changed"
	}
	if !r.clock.stepped && (r.clock.sent || r.clock.received) {
		text += ", delayed"
	}
	if i := strings.LastIndex(text, ", "); i >= 0 {
		text = text[:i] + " or" + text[i+1:]
	}
	return text + " between A and B"
}

// Summary counts the findings; "" if there are none.
func (r *Report) Summary() string {
	var parts []string
	for _, c := range []struct {
		n    int
		name string
	}{{r.Lost, session.LostBetween}, {r.Changed, session.ChangedBetween}, {r.Delayed, session.DelayedBetween}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.name))
		}
	}
	text := strings.Join(parts, ", ")
	if text != "" && (r.clock.stepped || r.Lost+r.Changed > r.Both) {
		text += "; perhaps these are not the two ends of the same connections"
	}
	return text
}

// Frames returns how many frames of A and of B were compared.
func (r *Report) Frames() [2]int { return [2]int{len(r.x.sides[0].entries), len(r.x.sides[1].entries)} }
