package tui

import (
	"context"
	"slices"
	"strings"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/store/live"
)

// Pick lets the user choose, and returns the chosen input; "" if the user quits. next waits
// for the choices to change, as sessions start and end; nil means no change.
func Pick(ctx context.Context, choices []live.Choice, next func(context.Context) []live.Choice, c Config) (string, error) {
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
	choices       []live.Choice
	next          tea.Cmd
	keys          keyMap
	theme         *theme
	width, height int
	list          listState
	ended         bool // the selected one, which is listed until another is selected
	said          string
	chosen        string
}

// changed are the choices after a change.
type changed []live.Choice

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
		p.said = ""
		by, moves := movement(&p.keys, msg, p.rows())
		switch {
		case key.Matches(msg, p.keys.Quit, p.keys.Back):
			return p, tea.Quit
		case moves:
			p.move(by)
		case key.Matches(msg, p.keys.Open) && p.ended:
			p.said = p.choices[p.list.at].Name + " has ended"
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
func (p *picker) follow(choices []live.Choice) bool {
	was := p.list.at
	selected := p.choices[was]
	index := func(of live.Choice) int {
		return slices.IndexFunc(choices, func(c live.Choice) bool { return c.Input == of.Input })
	}
	at := index(selected)
	p.ended = at < 0 && selected.Input != live.Await
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
		if isTap := func(c live.Choice) bool { return strings.HasPrefix(c.Input, "tap:") }; isTap(choices[0]) && !slices.ContainsFunc(choices[1:], isTap) {
			p.chosen = live.Await
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
	if p.said != "" {
		head.addText(p.theme.Warning, "  "+p.said, p.width)
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
