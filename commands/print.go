package commands

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/table"
)

// quietFlag is the flag of commands that print messages on standard error.
func quietFlag() cli.Flag {
	return &cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print only errors on stderr"}
}

// colorFlag is the flag of commands with coloured output.
func colorFlag(what string) cli.Flag {
	return &cli.StringFlag{Name: "color", Value: "auto", Usage: "colour " + what + ": auto, always or never"}
}

// style returns the style of a command's output on a stream of the environment. Commands without
// --color colour terminals.
func (env Env) style(c *cli.Context, stream any) (*render.Style, error) {
	colorful, err := env.colorful(cmp.Or(c.String("color"), "auto"), stream)
	return render.Palette(colorful), err
}

// colorful decides, for a stream of the environment, whether its output has colour.
func (env Env) colorful(mode string, stream any) (bool, error) {
	colorful, err := render.Colorful(mode, env.Getenv, env.IsTerminal(stream))
	return colorful, asUsage(err)
}

// table returns where --output prints rows, and in which of the forms.
func (env Env) table(c *cli.Context, forms ...string) (table.Output, error) {
	out := table.Output{To: env.Stdout, Form: c.String("output"), Width: env.width(env.Stdout)}
	switch {
	case !slices.Contains(forms, out.Form):
		last := len(forms) - 1
		return out, usagef("invalid --output %q: want %s or %s", out.Form, strings.Join(forms[:last], ", "), forms[last])
	case out.Form == table.AsNDJSON, out.Form == table.AsJSON:
		out.To = env.ndjson()
	case out.Form != table.AsText:
		out.To = env.bytes()
	}
	var err error
	out.Style, err = env.style(c, env.Stdout)
	return out, err
}

// section prints a title and, below it, rows whose cells are aligned.
func (env Env) section(title string, rows [][]string) error {
	columns := make([]table.Column[[]string], 3)
	for i := range columns {
		columns[i] = table.Column[[]string]{Title: " ", Value: func(row *[]string) any { return append(*row, "", "")[i] }}
	}
	if _, err := io.WriteString(env.Stdout, title+":\n"); err != nil {
		return err
	}
	return table.Write(table.Output{To: env.Stdout, Form: table.AsText, Style: &render.Style{}, Indent: "  "}, columns, rows)
}
