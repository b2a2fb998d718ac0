package tui

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/store"
)

func (m *Model) askForFilter() tea.Cmd {
	cmd := m.askFor("filter ", m.filter, m.setFilter)
	kinds := m.page.overview.Kinds
	m.prompt.complete = func(text string) []string { return completions(text, kinds, m.names) }
	s := m.store
	return tea.Batch(cmd, func() tea.Msg { return namesMsg(s.Names()) })
}

// filterTime is how long keys wait, at most, for the frames that match a new filter. In a
// large session they then act on those that were found by then.
const filterTime = time.Second / 4

// setFilter makes text the filter of every view.
func (m *Model) setFilter(text string) tea.Cmd {
	f, err := store.ParseFilter(text)
	if err != nil {
		return m.refuse("filter: " + err.Error())
	}
	m.filter = strings.TrimSpace(text)
	m.ids.at, m.ids.line, m.ids.moved, m.ids.chosen = store.Spot{}, 0, 0, false
	m.frames.at, m.frames.top, m.frames.follow = 0, 0, f == nil
	m.await = time.Now().Add(filterTime)
	s := m.store
	return m.change(func() { s.SetFilter(f) })
}

// completions returns the possible completions of the last word of a filter.
func completions(text string, kinds, names []string) (list []string) {
	last := text[lastWord(text):]
	for field, values := range map[string][]string{"kind==": kinds, "name==": names} {
		value, ok := strings.CutPrefix(last, field)
		if !ok {
			continue
		}
		for _, v := range values {
			if quoted := quoteValue(v); strings.HasPrefix(quoted, value) || strings.HasPrefix(v, value) {
				list = append(list, field+quoted)
			}
		}
		return list
	}
	if strings.ContainsAny(last, "=<>~!") {
		return nil
	}
	for _, w := range store.Words {
		if strings.HasPrefix(w, last) {
			list = append(list, w)
		}
	}
	for _, f := range store.FieldNames() {
		if strings.HasPrefix(f, last) {
			list = append(list, f)
		}
	}
	return list
}

// lastWord returns where the last word of a filter begins. A space in quotes separates
// nothing.
func lastWord(text string) int {
	at := 0
	for i := range query.Unquoted(text) {
		if text[i] == ' ' {
			at = i + 1
		}
	}
	return at
}

// completed completes the last word of text as far as all candidates agree.
func completed(text string, candidates []string) string {
	if len(candidates) == 0 {
		return text
	}
	common := candidates[0]
	for _, c := range candidates[1:] {
		for !strings.HasPrefix(c, common) {
			common = common[:len(common)-1]
		}
	}
	start := lastWord(text)
	if len(common) < len(text)-start {
		return text
	}
	return text[:start] + common
}

// quoteValue writes a value of a condition, in quotes if it is not a plain word.
func quoteValue(text string) string {
	if text != "" && !strings.ContainsAny(text, " \"\\") {
		return text
	}
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

// number64 reads the number of a frame, as the screen writes it.
func number64(text string) (int64, error) {
	text = strings.ReplaceAll(strings.Trim(text, "# "), ",", "")
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && n < 1 {
		err = fmt.Errorf("frames are numbered from 1")
	}
	return n, err
}
