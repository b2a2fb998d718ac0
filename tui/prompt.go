package tui

import (
	"slices"

	tea "github.com/charmbracelet/bubbletea"
)

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
	m.said, m.wrong, m.refused = why, true, true
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
