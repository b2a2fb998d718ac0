package tui

import (
	"context"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/store/live"
)

// Pick lets the user choose. It returns -1 if the user quits.
func Pick(ctx context.Context, choices []live.Choice, c Config) (int, error) {
	p := &picker{choices: choices, keys: newKeyMap(), width: 80, height: 24, chosen: -1}
	err := run(ctx, c, func(c Config) tea.Model {
		p.config, p.theme = c, newTheme(c.Theme, c.Color)
		return p
	})
	if err != nil {
		return -1, err
	}
	return p.chosen, nil
}

// A picker is the list to choose from.
type picker struct {
	config        Config
	choices       []live.Choice
	keys          keyMap
	theme         *theme
	width, height int
	list          listState
	chosen        int
}

// rows is how many choices fit, below the question and an empty line.
func (p *picker) rows() int { return max(p.height-2, 1) }

// Init waits for keys.
func (p *picker) Init() tea.Cmd { return p.config.ask }

// Update moves the choice.
func (p *picker) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		p.width, p.height = msg.Width, msg.Height
	case background:
		p.theme = newTheme(msg.theme(p.config.Theme), p.config.Color)
	case tea.KeyMsg:
		switch {
		case key.Matches(msg, p.keys.Quit, p.keys.Back):
			return p, tea.Quit
		case key.Matches(msg, p.keys.Up):
			p.list.move(-1, 0, len(p.choices), p.rows())
		case key.Matches(msg, p.keys.Down):
			p.list.move(1, 0, len(p.choices), p.rows())
		case key.Matches(msg, p.keys.Open):
			p.chosen = p.list.at
			return p, tea.Quit
		}
	}
	return p, nil
}

// View draws the list.
func (p *picker) View() string {
	head := newLine(p.width)
	head.addText(p.theme.Title, " Which session?", p.width)
	head.addText(p.theme.Dim, "  j/k select, enter opens, q quits", p.width)
	name := 0
	for i := range p.choices {
		name = max(name, ansi.StringWidth(p.choices[i].Name))
	}
	out := head.String() + "\n"
	top := p.list.from(p.rows())
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
