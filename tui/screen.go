package tui

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/store"
)

// The least that the screen is drawn on.
const (
	minWidth  = 40
	minHeight = 10
)

// head returns the number of rows above the view.
func (m *Model) head() int {
	if m.filter != "" || m.hasChips() {
		return 3
	}
	return 2
}

// hasChips reports whether the words that filter with one key are offered.
func (m *Model) hasChips() bool {
	return m.height >= minPreview && m.detail == nil && !m.help && (m.view == viewIDs || m.view == viewFrames)
}

// body is how many rows the view has, its own heading included.
func (m *Model) body() int { return max(m.height-m.head()-len(m.caption())-1, 1) }

// listHead is how many rows a list has as heading.
func (m *Model) listHead() int { return 1 }

// rows is how many rows of its list the view shows.
func (m *Model) rows() int {
	return max(m.body()-m.listHead()-m.previewRows(), 1)
}

// View returns the screen, which is asked for after every message.
func (m *Model) View() string {
	if m.screen == "" {
		m.screen = m.draw()
	}
	return m.screen
}

func (m *Model) draw() string {
	if m.width < minWidth || m.height < minHeight {
		return "wirectl needs " + strconv.Itoa(minWidth) + "×" + strconv.Itoa(minHeight)
	}
	list := make([]string, 0, m.height)
	list = append(list, m.title(), m.tabs())
	if m.head() == 3 {
		list = append(list, m.filterLine())
	}
	switch {
	case m.help:
		list = append(list, m.helpView(m.body())...)
	case m.detail != nil:
		list = append(list, m.detailView(m.body())...)
	default:
		list = append(list, m.viewOf(m.view)...)
	}
	foot := m.foot()
	list = append(padded(list, m.height-len(foot)), foot...)
	return strings.Join(list, "\n")
}

func (m *Model) viewOf(v view) []string {
	switch v {
	case viewFrames:
		if m.wide() {
			n := m.rows()
			return m.split(m.width*3/5, n+1, func() []string { return m.framesView(n) }, func() []string { return m.payloadPreview(m.page.sample, n+1) })
		}
		return append(m.framesView(m.rows()), padded(m.payloadPreview(m.page.sample, m.previewRows()), m.previewRows())...)
	case viewFindings:
		return m.findingsView(m.body())
	case viewStats:
		return m.statsView(m.body())
	case viewPeers:
		return m.peersView(m.body())
	}
	return append(m.idsView(m.rows()), m.preview(m.previewRows())...)
}

// padded returns n lines: those of the list, and empty ones.
func padded(list []string, n int) []string {
	for len(list) < n {
		list = append(list, "")
	}
	return list[:n]
}

// title draws the first line: the session, and how it goes. Its name needs room first; the
// protocols and the name of the program are shown if they fit.
func (m *Model) title() string {
	right := newLine(m.width)
	m.counts(right)
	room := m.width - right.used - 1
	name, spoken := m.config.Name, ""
	if list := m.page.overview.Protocols; len(list) > 0 {
		spoken = " · " + strings.Join(list, ", ")
	}
	l := newLine(m.width)
	const program = " wirectl"
	need := 1 + render.Cells([]byte(render.Safe(name)))
	if need += len(program); need <= room {
		l.addText(m.theme.Title, program, room)
	}
	l.pad(1)
	l.addText(render.Paint{}, name, room-l.used)
	if need+render.Cells([]byte(spoken)) <= room {
		l.addText(render.Paint{}, spoken, room)
	}
	l.pad(m.width - right.used - l.used)
	l.buf = append(l.buf, right.buf...)
	return l.String()
}

// counts draws the right of the first line: whether the screen is live, and what needs
// attention.
func (m *Model) counts(right *line) {
	th, o := m.theme, &m.page.overview
	stat := func(n int64, word string, p render.Paint) {
		right.pad(2)
		right.addText(p, count(n), 20)
		right.addText(th.Dim, " "+word, 20)
	}
	if o.Altered {
		right.addText(th.Warning, glyphAltered+" altered", 9)
		right.pad(2)
	}
	m.state(right)
	if o.Open > 0 || !o.Ended {
		stat(o.Open, "in flight", th.Open)
	}
	if n := o.Failed; n > 0 && m.width >= 80 {
		stat(n, "failed", th.Failed)
	}
	if n := o.Lost; n > 0 {
		stat(n, "missed", th.Warning)
	}
	if n := o.Dropped; n > 0 && m.width >= 100 {
		stat(n, "dropped", th.Warning)
	}
	right.pad(1)
}

// state says whether the screen is live.
func (m *Model) state(l *line) {
	th, o := m.theme, &m.page.overview
	switch {
	case m.frozen:
		l.addText(th.Warning, "‖ frozen", 10)
	case o.Ended && o.Err != nil:
		l.addText(th.Error, "■ broken off", 14)
	case o.Ended && m.config.Next:
		l.addText(th.Dim, "○ ended, waiting", 20)
	case o.Ended:
		l.addText(th.Dim, "■ ended", 10)
	case o.Frames == 0:
		l.addText(th.Dim, "○ waiting", 10)
	default:
		l.addText(th.Done, "● live", 10)
	}
}

// tabs draws the names of the views.
func (m *Model) tabs() string {
	th := m.theme
	l := newLine(m.width)
	for v := range numViews {
		paint := th.Tab
		switch {
		case m.view == v:
			paint = th.TabOn
		case v == viewFindings && m.page.overview.Findings > 0:
			paint = th.Warning
		}
		l.addText(paint, m.tab(v), m.width)
	}
	if m.view == viewIDs && m.detail == nil && m.width >= 100 {
		label := m.ids.sort.String() + " first"
		switch m.ids.group {
		case store.Ungrouped:
		case store.GroupRun:
			label = "by run"
		default:
			label += ", grouped by " + m.ids.group.String()
		}
		if m.ids.openOnly {
			label += ", in flight only"
		}
		if room := m.width - l.used - len(label) - 1; room > 0 {
			l.pad(room)
			l.addText(th.Dim, label, m.width)
		}
	}
	return l.String()
}

// tab is the name of a view with its key and how much is in it; on a narrow screen
// without the key, and with the number of findings alone.
func (m *Model) tab(v view) string {
	o := &m.page.overview
	name, n := viewNames[v]+" ", [numViews]int64{viewFindings: o.Findings}
	if m.width >= 76 {
		n[viewIDs], n[viewFrames] = o.Exchanges, o.Frames
	}
	if n[v] > 0 {
		name += size(n[v]) + " "
	}
	if m.width < 60 {
		return name
	}
	return " " + strconv.Itoa(int(v)+1) + " " + name
}

// clickTab turns to the view whose name is at that column.
func (m *Model) clickTab(x int) tea.Cmd {
	at := 0
	for v := range numViews {
		if at += len(m.tab(v)); x < at {
			return m.show(v)
		}
	}
	return nil
}

// matches says how much of the view matches the filter.
func (m *Model) matches() string {
	o := &m.page.overview
	text := " · " + count(o.Matches) + " of " + count(o.Frames) + " frames"
	if m.view == viewIDs {
		text = " · " + count(o.Calls) + " of " + count(o.Exchanges) + " calls"
	}
	if o.Searched < o.Frames-o.Dropped {
		text += " · looking…"
	}
	return text
}

// filterLine draws the chips, and the filter with how much matches it. The filter needs room first.
func (m *Model) filterLine() string {
	th := m.theme
	label, paint := " filter ", th.Key
	if m.filterIsKept() {
		label, paint = " filter of the last visit (x clears it) ", th.Warning
	}
	matches := m.matches()
	l := newLine(m.width)
	for i, chip := range m.chips() {
		word, tab := store.Chips[i], th.Tab
		if store.Has(m.filter, word) {
			tab = th.TabOn
		}
		before, _ := strings.CutSuffix(chip, word+" ")
		l.addText(th.Key, before, m.width)
		l.addText(tab, word, m.width)
		l.pad(1)
	}
	if m.filter == "" {
		return l.String()
	}
	room := m.width - render.Cells([]byte(matches)) - l.used
	l.addText(paint, label, max(room-12, 8))
	l.addText(render.Paint{}, m.filter, max(m.width-render.Cells([]byte(matches))-l.used, 12))
	l.addText(th.Dim, matches, 40)
	return l.String()
}

// filterIsKept reports whether the filter is that of the last visit.
func (m *Model) filterIsKept() bool {
	return m.config.FilterKept && m.filter == strings.TrimSpace(m.config.Filter)
}

// chips are the words that filter with one key, and the keys if they fit; none if the filter
// needs the room.
func (m *Model) chips() (chips []string) {
	if !m.hasChips() {
		return nil
	}
	width, keyed := 0, 0
	for i, word := range store.Chips {
		chips = append(chips, " "+m.keys.Chips[i].Help().Key+" "+word+" ")
		width, keyed = width+len(word)+2, keyed+len(chips[i])
	}
	room := m.width
	if m.filter != "" {
		room -= len(" filter ") + render.Cells([]byte(m.filter)) + render.Cells([]byte(m.matches()))
	}
	switch {
	case width > room || m.filter != "" && m.filterIsKept():
		return nil
	case keyed <= room:
		return chips
	}
	for i, word := range store.Chips {
		chips[i] = " " + word + " "
	}
	return chips
}

// clickChip turns the word at that column on or off.
func (m *Model) clickChip(x int) tea.Cmd {
	at := 0
	for i, chip := range m.chips() {
		if at += len(chip); x < at {
			return m.setFilter(store.Turn(m.filter, store.Chips[i]))
		}
	}
	return nil
}

// foot draws the last line: the prompt, a message, or the keys.
func (m *Model) foot() []string {
	th := m.theme
	l := newLine(m.width)
	switch {
	case m.pending != nil:
		return m.wrapped(th.Warning, m.pending.question+" y/n")
	case m.prompt != nil:
		return append(m.answerLines(), m.promptLine())
	case len(m.page.overview.Held) > 0:
		m.heldLine(l, m.page.overview.Held)
		return append(m.answerLines(), l.String())
	case m.notice != "":
		return m.answerLines()
	case m.page.overview.Ended && m.page.overview.Err != nil:
		return m.wrapped(th.Error, m.page.overview.Err.Error())
	default:
		m.hints(l)
	}
	return append(m.caption(), l.String())
}

// caption draws the caption of the demonstration.
func (m *Model) caption() []string {
	if !m.config.Captions || m.page.overview.Notice == "" {
		return nil
	}
	return m.wrapped(m.theme.Title, m.page.overview.Notice)
}

// answerLines draws the message, if there is one.
func (m *Model) answerLines() []string {
	paint := m.theme.Title
	switch {
	case m.notice == "":
		return nil
	case m.wrong:
		paint = m.theme.Error
	}
	return m.wrapped(paint, m.notice)
}

// promptLine draws the prompt and its completions.
func (m *Model) promptLine() string {
	th, p := m.theme, m.prompt
	l := newLine(m.width)
	l.addText(th.Key, " "+p.label, m.width*3/4)
	room, after := m.width-l.used-1, string(p.text[p.at:])
	l.addText(render.Paint{}, tail(string(p.text[:p.at]), max(room/2, room-render.Cells([]byte(render.Safe(after))))), m.width)
	l.glyph(th.Key, "▏")
	l.addText(render.Paint{}, after, m.width)
	if len(p.text) == 0 {
		l.addText(th.Dim, " "+p.hint, m.width)
	}
	if p.complete != nil {
		l.addText(th.Dim, "   "+strings.Join(p.complete(string(p.text)), " "), m.width)
	}
	return l.String()
}

// wrapped draws a text in as many lines as it takes, up to half of the screen. Names with
// hyphens are not split.
func (m *Model) wrapped(paint render.Paint, text string) []string {
	var list []string
	for part := range strings.SplitSeq(wrap(text, m.width-2), "\n") {
		list = append(list, m.text(1, paint, part))
	}
	return list[:min(len(list), m.height/2)]
}

// wrap breaks a text into lines of so many cells, not at hyphens.
func wrap(text string, width int) string {
	const hyphen = "\u2011" // at which lines do not break
	return strings.ReplaceAll(ansi.Wrap(strings.ReplaceAll(text, "-", hyphen), width, ""), hyphen, "-")
}

// heldLine names the frame that is held, and its keys.
func (m *Model) heldLine(l *line, held []store.Held) {
	th := m.theme
	l.addText(th.Warning, " ‖ "+count(int64(len(held)))+" held ", 16)
	for _, b := range []key.Binding{m.keys.Release, m.keys.Edit, m.keys.Drop} {
		l.addText(th.Key, b.Help().Key+" ", 4)
		word, _, _ := strings.Cut(b.Help().Desc, " ")
		l.addText(th.Help, word+" ", 12)
	}
	arrow(l, th, held[0].Dir)
	l.pad(1)
	l.addText(th.ID, "#"+count(held[0].Number)+" ", 12)
	l.addText(render.Paint{}, held[0].Text, m.width)
}

// tail returns the end of text, about n cells of it.
func tail(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for i := range text {
		if len(text)-i <= n {
			return text[i:]
		}
	}
	return text
}

// hints draws the keys that are useful here.
func (m *Model) hints(l *line) {
	k := &m.keys
	list := []key.Binding{k.Help, k.Next, k.Open, k.Filter, k.Freeze, k.Quit}
	switch {
	case m.help:
		list = []key.Binding{k.Back, k.Up, k.Down}
	case m.detail != nil:
		list = []key.Binding{k.Back, k.Help, k.Pane, k.Fold, k.Search, k.JQ, k.Copy, k.Write}
	case m.view == viewIDs:
		list = append(list, k.Sort, k.Group, k.Live, k.Wider)
		if x := m.ids.selected(m.page.ids); m.page.changeable && x != nil && x.Refusal == "" {
			list = append(list, k.Cancel)
		}
	case m.view == viewFrames:
		list = append(list, k.Search, k.Follow, k.Bookmark, k.Diff, k.Write)
	}
	for _, b := range list {
		h := b.Help()
		if h.Key, _, _ = strings.Cut(h.Key, " "); h.Key == "" {
			h.Key = "space"
		}
		if l.used+len(h.Key)+len(h.Desc)+3 > l.room {
			return
		}
		l.pad(1)
		l.addText(m.theme.Key, h.Key, 20)
		l.pad(1)
		l.addText(m.theme.Help, h.Desc, 40)
		l.pad(1)
	}
}

// rule draws a horizontal line with a title in it.
func (m *Model) rule(title string) string {
	l := newLine(m.width)
	l.addText(m.theme.Rule, "──", 2)
	l.pad(1)
	l.addText(m.theme.Bold, title, m.width-6)
	l.pad(1)
	l.addText(m.theme.Rule, strings.Repeat("─", max(m.width-l.used, 0)), m.width)
	return l.String()
}

// nothing says why a list is empty.
func (m *Model) nothing(yet, filtered string) string {
	text := yet
	switch {
	case m.filter != "":
		text = filtered
	case m.page.overview.Frames == 0 && m.config.Waiting != "" && (m.config.Next || !m.page.overview.Ended):
		text = m.config.Waiting
	case m.page.overview.Ended:
		text = strings.TrimSuffix(yet, " yet") // there will be none
	}
	return m.text(3, m.theme.Dim, text)
}

// formatSeconds writes seconds with that many decimals.
func formatSeconds(d time.Duration, decimals int) string {
	return strconv.FormatFloat(d.Seconds(), 'f', decimals, 64)
}

// A prompt is a line that is being typed.
type prompt struct {
	label string
	text  []rune
	at    int // of the cursor
	done  func(text string) tea.Cmd
	// complete returns possible continuations of the text; nil for none.
	complete func(text string) []string
	// turn switches to another scope; nil if there is only one.
	turn func()
	hint string // an example, shown while the text is empty
}

func (m *Model) askFor(label, text string, done func(string) tea.Cmd) tea.Cmd {
	m.prompt = &prompt{label: label, text: []rune(text), at: len([]rune(text)), done: done}
	return nil
}

// refuse rejects the text with a reason.
func (m *Model) refuse(why string) tea.Cmd {
	m.notice, m.wrong, m.refused = why, true, true
	return nil
}

func (m *Model) promptKey(k tea.KeyMsg) tea.Cmd {
	p := m.prompt
	switch k.Type {
	case tea.KeyEsc:
		m.prompt = nil
	case tea.KeyEnter:
		m.prompt, m.refused = nil, false
		cmd := p.done(string(p.text))
		if m.refused { // to be mended
			m.prompt = p
		}
		return cmd
	case tea.KeyTab:
		if p.turn != nil {
			p.turn()
		}
		if p.complete != nil {
			p.set(completed(string(p.text), p.complete(string(p.text))))
		}
	default:
		p.edit(k)
	}
	return nil
}

func (p *prompt) set(text string) {
	p.text = []rune(text)
	p.at = len(p.text)
}

// edit changes the line as a shell would.
func (p *prompt) edit(k tea.KeyMsg) {
	switch k.Type {
	case tea.KeyRunes, tea.KeySpace:
		p.insert(k.Runes)
	case tea.KeyBackspace:
		if p.at > 0 {
			p.text = append(p.text[:p.at-1:p.at-1], p.text[p.at:]...)
			p.at--
		}
	case tea.KeyDelete:
		if p.at < len(p.text) {
			p.text = append(p.text[:p.at:p.at], p.text[p.at+1:]...)
		}
	case tea.KeyLeft:
		p.at = max(p.at-1, 0)
	case tea.KeyRight:
		p.at = min(p.at+1, len(p.text))
	case tea.KeyHome, tea.KeyCtrlA:
		p.at = 0
	case tea.KeyEnd, tea.KeyCtrlE:
		p.at = len(p.text)
	case tea.KeyCtrlU:
		p.set("")
	case tea.KeyCtrlW:
		p.word()
	}
}

func (p *prompt) insert(text []rune) {
	p.text = slices.Insert(p.text, p.at, text...)
	p.at += len(text)
}

// word takes away the word before the cursor.
func (p *prompt) word() {
	at := p.at
	for at > 0 && p.text[at-1] == ' ' {
		at--
	}
	for at > 0 && p.text[at-1] != ' ' {
		at--
	}
	p.text = append(p.text[:at:at], p.text[p.at:]...)
	p.at = at
}

// Pick lets the user choose, and returns the chosen input; "" if the user quits. next waits
// for the choices to change, as sessions start and end; nil means no change.
func Pick(ctx context.Context, choices []store.Choice, next func(context.Context) []store.Choice, c Config) (string, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p := &picker{choices: choices, keys: newKeyMap(), width: 80, height: 24}
	p.next = func() tea.Msg { return changed(next(ctx)) }
	err := run(ctx, c, func(c Config) tea.Model {
		p.config, p.theme = c, newTheme(c.Theme, c.Color)
		return p
	})
	return p.chosen, err
}

// A picker is the list to choose from.
type picker struct {
	config        Config
	choices       []store.Choice
	next          tea.Cmd
	keys          keyMap
	theme         *theme
	width, height int
	list          listState
	ended         bool // the selected one, which is listed until another is selected
	notice        string
	chosen        string
}

// changed are the choices after a change.
type changed []store.Choice

// rows is how many choices fit, below the question and an empty line.
func (p *picker) rows() int { return max(p.height-2, 1) }

// Init waits for keys and changes.
func (p *picker) Init() tea.Cmd { return tea.Batch(p.config.ask, p.next) }

// Update moves the choice.
func (p *picker) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		p.width, p.height = msg.Width, msg.Height
	case background:
		p.theme = newTheme(msg.theme(p.config.Theme), p.config.Color)
	case changed:
		if len(msg) > 0 && p.follow(msg) {
			return p, tea.Quit
		}
		return p, p.next
	case tea.KeyMsg:
		p.notice = ""
		by, moves := movement(&p.keys, msg, p.rows())
		switch {
		case key.Matches(msg, p.keys.Quit, p.keys.Back):
			return p, tea.Quit
		case moves:
			p.move(by)
		case key.Matches(msg, p.keys.Open) && p.ended:
			p.notice = p.choices[p.list.at].Name + " has ended"
		case key.Matches(msg, p.keys.Open):
			p.chosen = p.choices[p.list.at].Input
			return p, tea.Quit
		}
	}
	return p, nil
}

// move selects another choice. One that has ended is not listed any more afterwards.
func (p *picker) move(by int) {
	was := p.list.at
	p.list.move(by, 0, len(p.choices), p.rows())
	if p.ended && p.list.at != was {
		p.choices = slices.Delete(p.choices, was, was+1)
		if p.ended = false; p.list.at > was {
			p.list.at--
		}
	}
}

// follow takes over the choices after a change. The selection stays on its session. If that is
// to wait for one, and one starts, that is the choice, which follow reports.
func (p *picker) follow(choices []store.Choice) bool {
	was := p.list.at
	selected := p.choices[was]
	index := func(of store.Choice) int {
		return slices.IndexFunc(choices, func(c store.Choice) bool { return c.Input == of.Input })
	}
	at := index(selected)
	p.ended = at < 0 && selected.Input != store.Await
	switch {
	case p.ended: // it stays after the one that it was after
		for before := was - 1; at < 0 && before >= 0; before-- {
			at = index(p.choices[before])
		}
		at++
		selected.About = "has ended"
		choices = slices.Insert(slices.Clone(choices), at, selected)
	case at < 0:
		at = 0
		if isTap := func(c store.Choice) bool { return strings.HasPrefix(c.Input, "tap:") }; isTap(choices[0]) && !slices.ContainsFunc(choices[1:], isTap) {
			p.chosen = store.Await
		}
	}
	p.choices, p.list.at = choices, at
	p.list.top = max(p.list.top+at-was, 0)
	return p.chosen != ""
}

// View draws the list.
func (p *picker) View() string {
	head := newLine(p.width)
	head.addText(p.theme.Title, " Which session?", p.width)
	if p.notice != "" {
		head.addText(p.theme.Warning, "  "+p.notice, p.width)
	} else {
		head.addText(p.theme.Dim, "  j/k select, enter opens, q quits", p.width)
	}
	name := 0
	for i := range p.choices {
		name = max(name, ansi.StringWidth(p.choices[i].Name))
	}
	out := head.String() + "\n"
	top := min(p.list.from(p.rows()), max(len(p.choices)-p.rows(), 0))
	for i := top; i < min(top+p.rows(), len(p.choices)); i++ {
		c := &p.choices[i]
		l := newLine(p.width)
		l.pad(2)
		l.name(p.theme.ID, c.Name, min(name, p.width*3/4))
		l.addText(render.Paint{}, c.About, p.width)
		if i == p.list.at {
			l.selected(p.theme)
		}
		out += "\n" + l.String()
	}
	return out
}
