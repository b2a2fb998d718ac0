package cmdline

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

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
