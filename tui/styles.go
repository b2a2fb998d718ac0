package tui

import (
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"

	"github.com/wirectl/wirectl/internal/render"
)

// A theme is every colour of the screen. States differ by their glyphs too.
type theme struct {
	Dim, Bold, Title, Tab, TabOn, Rule       render.Paint
	Kind, ID, Number, Help, Key              render.Paint
	C2U, U2C                                 render.Paint // directions
	Open, Wait, Part, Gap, Done              render.Paint // the life of an exchange
	Failed, Cancel, After, Cancelled, Silent render.Paint
	Error, Warning, Note                     render.Paint // severities, and failures
	Selected, Marked, Found                  render.Paint
	JSON                                     render.Style
}

// A palette is the colours that a theme is made of, by number of the 256.
type palette struct {
	dim, blue, cyan, green, yellow, orange, red, magenta, title, tab, selection string
}

var (
	dark = palette{
		dim: "247", blue: "75", cyan: "80", green: "114", yellow: "222", orange: "215", red: "210",
		magenta: "213", title: "117", tab: "24", selection: "236",
	}
	light = palette{
		dim: "240", blue: "25", cyan: "23", green: "22", yellow: "58", orange: "94", red: "124",
		magenta: "127", title: "24", tab: "153", selection: "255",
	}
)

// Themes are the names of the themes.
var Themes = []string{"dark", "light"}

// newTheme returns the theme of that name. Without colour it has only the attributes that
// every terminal shows: bold, faint, reverse.
func newTheme(name string, colorful bool) *theme {
	p := dark
	if name == "light" {
		p = light
	}
	r := lipgloss.NewRenderer(nil)
	r.SetColorProfile(termenv.ANSI256)
	fg := func(color string) lipgloss.Style {
		if !colorful {
			return r.NewStyle()
		}
		return r.NewStyle().Foreground(lipgloss.Color(color))
	}
	bg := func(s lipgloss.Style, color string) lipgloss.Style {
		if !colorful {
			return s.Reverse(true)
		}
		return s.Background(lipgloss.Color(color))
	}
	plain := r.NewStyle()
	th := &theme{
		Dim: paint(fg(p.dim)), Bold: paint(plain.Bold(true)), Title: paint(fg(p.title).Bold(true)),
		Tab: paint(fg(p.dim)), TabOn: paint(bg(plain.Bold(true), p.tab)), Rule: paint(fg(p.dim)),
		Kind: paint(plain.Bold(true)), ID: paint(fg(p.yellow)), Number: paint(fg(p.cyan)),
		Help: paint(fg(p.dim)), Key: paint(fg(p.title)),
		C2U: paint(fg(p.blue)), U2C: paint(fg(p.green)),
		Open: paint(fg(p.cyan)), Wait: paint(fg(p.dim)), Part: paint(fg(p.blue)), Gap: paint(fg(p.dim)), Done: paint(fg(p.green)),
		Failed: paint(fg(p.red)), Cancel: paint(fg(p.magenta).Bold(true)), After: paint(fg(p.orange)),
		Cancelled: paint(fg(p.magenta)), Silent: paint(fg(p.orange)),
		Error: paint(fg(p.red).Bold(true)), Warning: paint(fg(p.orange)), Note: paint(fg(p.cyan)),
		Selected: paint(bg(plain, p.selection)), Marked: paint(fg(p.orange)), Found: paint(bg(plain.Bold(true), p.tab)),
	}
	th.JSON = render.Style{
		Key: paint(fg(p.blue)), String: paint(fg(p.green)), Number: paint(fg(p.cyan)), Literal: paint(fg(p.magenta)),
		Punct: paint(fg(p.dim)), Dim: paint(fg(p.dim)), Offset: paint(fg(p.dim)), Kind: th.Kind, ID: th.ID, Error: th.Error,
	}
	return th
}

// paint returns the sequences that a style puts around text.
func paint(s lipgloss.Style) render.Paint {
	on, off, _ := strings.Cut(s.Render("x"), "x")
	return render.Paint{On: on, Off: off}
}

// The glyphs, each one cell wide.
const (
	glyphWait    = "─"
	glyphGap     = "╌"
	glyphBegin   = "├"
	glyphOpen    = "▸"
	glyphDone    = "●"
	glyphFailed  = "✖"
	glyphCancel  = "✗"
	glyphStopped = "⊘"
	glyphSilent  = "┄"
	glyphLost    = "╳"
	glyphAfter   = "▒"
	glyphOut     = "→"
	glyphIn      = "←"
	glyphSame    = "┃"
	glyphMark    = "◆"
	glyphFinding = "!"
	glyphWarning = "▲"
	glyphAltered = "≠"

	glyphFolded   = "▸"
	glyphUnfolded = "▾"
	glyphBelow    = "└"
	glyphGuessed  = "?"
)

// bars are how full a slot of time is.
var bars = [...]string{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}
