package cmdline

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/internal/render"
)

// HelpWidth is the width of help, in cells. It fits on every terminal.
const HelpWidth = 80

// Help explains an application.
type Help struct {
	Groups     []string // the categories of its commands, in their order
	ExitStatus string   // what the exit statuses mean
}

// Install makes the library print help by h. Its own templates do not break lines. It calls
// FlagStringer for each flag of a command that runs, to sort them; its own is slow.
func (h Help) Install() {
	cli.FlagStringer = func(f cli.Flag) string { return f.Names()[0] }
	cli.HelpPrinter = func(w io.Writer, _ string, subject any) {
		switch s := subject.(type) {
		case *cli.App:
			_, _ = w.Write(h.App(s))
		case *cli.Command:
			if s.Name == "help" { // it is the library's
				s.Usage, s.ArgsUsage = "list the commands, or describe one", "[COMMAND]"
				s.Description = "   wirectl help relay"
			}
			_, _ = w.Write(Command(s))
		}
	}
}

// App returns the help of the application.
func (h Help) App(app *cli.App) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "wirectl: %s\n\nUsage: wirectl COMMAND [FLAGS] [OPERANDS]\n\n%s", app.Usage, described(app.Description))
	for _, group := range h.Groups {
		fmt.Fprintf(&b, "\n%s\n", group)
		for _, c := range app.VisibleCommands() {
			if c.Category == group {
				entry(&b, c.Name, 14, c.Usage)
			}
		}
	}
	fmt.Fprintf(&b, "\nExit status\n%s", described(h.ExitStatus))
	return b.Bytes()
}

// Command returns the help of a command.
func Command(c *cli.Command) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\nUsage: %s\n\n%s", described("wirectl "+c.Name+": "+c.Usage), usageLine(c), described(c.Description))
	for _, g := range flagGroups(c) {
		fmt.Fprintf(&b, "\n%s\n", g.title)
		for _, f := range g.flags {
			entry(&b, flagNotation(f), 22, flagSentence(f))
		}
	}
	return b.Bytes()
}

// A flagGroup is the flags of one category.
type flagGroup struct {
	title string
	flags []cli.Flag
}

// flagGroups returns the flags of a command, those without a category first.
func flagGroups(c *cli.Command) []flagGroup {
	list := []flagGroup{{title: "Flags"}}
	for _, f := range c.VisibleFlags() {
		title := "Flags"
		if cf, ok := f.(cli.CategorizableFlag); ok && cf.GetCategory() != "" {
			title = cf.GetCategory()
		}
		i := slices.IndexFunc(list, func(g flagGroup) bool { return g.title == title })
		if i < 0 {
			i = len(list)
			list = append(list, flagGroup{title: title})
		}
		list[i].flags = append(list[i].flags, f)
	}
	return slices.DeleteFunc(list, func(g flagGroup) bool { return len(g.flags) == 0 })
}

func usageLine(c *cli.Command) string { return "wirectl " + c.Name + operandsOf(c) }

// operandsOf returns what follows the name of a command in its usage line.
func operandsOf(c *cli.Command) string {
	line := c.ArgsUsage
	if len(c.VisibleFlags()) > 0 {
		line = "[FLAGS] " + line
	}
	return strings.TrimRight(" "+line, " ")
}

// flagNotation returns a flag as it is typed: "--where EXPR, -w EXPR".
func flagNotation(f cli.Flag) string {
	value, ok := Placeholder(UsageOf(f))
	switch {
	case !TakesValue(f):
		value = ""
	case !ok:
		value = " VALUE"
	default:
		value = " " + value
	}
	var names []string
	for _, name := range f.Names() {
		dashes := "--"
		if len(name) == 1 {
			dashes = "-"
		}
		names = append(names, dashes+name)
	}
	return strings.Join(names, ", ") + value
}

// flagSentence returns the usage of a flag, with its default.
func flagSentence(f cli.Flag) string {
	sentence := strings.ReplaceAll(UsageOf(f), "`", "")
	d, ok := f.(cli.DocGenerationFlag)
	if !ok || !TakesValue(f) || strings.Contains(sentence, "(default") {
		return sentence
	}
	if value := strings.Trim(d.GetDefaultText(), `"`); value != "" && value != "0" && value != "0s" {
		sentence += " (default: " + value + ")"
	}
	return sentence
}

// entry writes a name and, from the given column on, its description. A name that is too
// long gets its own line.
func entry(b *bytes.Buffer, name string, column int, sentence string) {
	const indent = 2
	fmt.Fprintf(b, "%*s%s", indent, "", name)
	at := indent + len(name)
	if at+2 > column {
		b.WriteByte('\n')
		at = 0
	}
	for i, line := range wrapped(sentence, HelpWidth-column) {
		if i > 0 {
			at = 0
		}
		fmt.Fprintf(b, "%*s%s\n", column-at, "", line)
	}
}

// Example begins the lines of a Description that show a command.
const Example = "   "

// described breaks the lines of a Description again, except its examples.
func described(text string) string {
	var b strings.Builder
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		lines := strings.Split(paragraph, "\n")
		if !strings.HasPrefix(paragraph, Example) {
			lines = wrapped(paragraph, HelpWidth)
		}
		for _, line := range lines {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// wrapped breaks text at spaces into lines of at most width cells.
func wrapped(text string, width int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case render.Cells([]byte(*last))+1+render.Cells([]byte(word)) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

// A Page is a page of the manual, in Markdown.
type Page struct {
	Name, Title string
	Body        string
}

// Manual returns a page about the application and one about each command.
func (h Help) Manual(app *cli.App) []Page {
	pages := []Page{{"wirectl", app.Usage, h.appPage(app)}}
	for _, c := range app.VisibleCommands() {
		pages = append(pages, Page{"wirectl-" + c.Name, c.Usage, commandPage(c)})
	}
	return pages
}

func (h Help) appPage(app *cli.App) string {
	var b strings.Builder
	section(&b, "Synopsis", "**wirectl** COMMAND [FLAGS] [OPERANDS]\n")
	section(&b, "Description", markdown(app.Description))
	for _, group := range h.Groups {
		b.WriteString("## " + group + "\n\n")
		for _, c := range app.VisibleCommands() {
			if c.Category == group {
				fmt.Fprintf(&b, "**wirectl-%s**(1)\n: %s\n\n", c.Name, escaped(c.Usage))
			}
		}
	}
	section(&b, "Exit status", escaped(h.ExitStatus))
	return b.String()
}

func commandPage(c *cli.Command) string {
	var b strings.Builder
	section(&b, "Synopsis", "**wirectl "+c.Name+"**"+escaped(operandsOf(c))+"\n")
	section(&b, "Description", markdown(c.Description))
	for _, g := range flagGroups(c) {
		b.WriteString("## " + g.title + "\n\n")
		for _, f := range g.flags {
			fmt.Fprintf(&b, "**%s**\n: %s\n\n", escaped(flagNotation(f)), escaped(flagSentence(f)))
		}
	}
	return b.String()
}

func section(b *strings.Builder, title, text string) {
	fmt.Fprintf(b, "## %s\n\n%s\n", title, text)
}

// markdown returns a Description in Markdown, with its examples as blocks of code.
func markdown(text string) string {
	var b strings.Builder
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if strings.HasPrefix(paragraph, Example) {
			b.WriteString("```\n")
			for line := range strings.SplitSeq(paragraph, "\n") {
				b.WriteString(strings.TrimPrefix(line, Example) + "\n")
			}
			b.WriteString("```\n\n")
			continue
		}
		b.WriteString(escaped(paragraph) + "\n\n")
	}
	return b.String()
}

var escaped = strings.NewReplacer(
	`\`, `\\`, `*`, `\*`, `_`, `\_`, "`", "\\`", `[`, `\[`, `]`, `\]`, `<`, `\<`, `|`, `\|`, `~`, `\~`,
).Replace
