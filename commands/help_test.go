package commands

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/internal/render"
)

// Help is what a newcomer has: every command stands in a group and has an
// example, every flag a sentence, and nothing is wider than a terminal.
func TestHelpIsComplete(t *testing.T) {
	app := newApp(newInvocation(Env{}))
	shown := regexp.MustCompile(`(?m)^` + cmdline.Example + `(\S.*[ (])?wirectl `)
	list := help.App(app)
	narrow(t, "help", list)
	for _, c := range app.VisibleCommands() {
		if !strings.Contains(string(list), "\n  "+c.Name+" ") {
			t.Errorf("%s stands in no group: give it a Category", c.Name)
		}
		if !shown.MatchString(c.Description) {
			t.Errorf("the Description of %s has no example: a line that begins with three spaces", c.Name)
		}
		narrow(t, "help "+c.Name, cmdline.Command(c))
		for _, f := range c.VisibleFlags() {
			if cmdline.UsageOf(f) == "" {
				t.Errorf("%s --%s has no sentence", c.Name, f.Names()[0])
			}
		}
	}
}

func narrow(t *testing.T, name string, help []byte) {
	t.Helper()
	for line := range strings.Lines(string(help)) {
		if render.Cells([]byte(strings.TrimSuffix(line, "\n"))) > cmdline.HelpWidth {
			t.Errorf("%s: over %d cells: %s", name, cmdline.HelpWidth, line)
		}
	}
}

// A command that is asked for alone is found by the name it has among all.
func TestEveryCommandAlone(t *testing.T) {
	for _, m := range makers {
		app := newAppFor(newInvocation(Env{}), []string{"wirectl", m.name})
		if len(app.Commands) != 1 || app.Commands[0].Name != m.name || len(app.Commands[0].Aliases) > 0 {
			t.Errorf("%s makes %q", m.name, cmdline.CommandNames(app))
		}
	}
}

// Tab offers what a flag's sentence lists: every flag with a value lists its
// values, or says in backquotes what stands for one.
func TestEveryFlagCompletes(t *testing.T) {
	for _, c := range newApp(newInvocation(Env{})).VisibleCommands() {
		for _, f := range c.VisibleFlags() {
			if _, named := cmdline.Placeholder(cmdline.UsageOf(f)); !cmdline.TakesValue(f) || named {
				continue
			}
			choices := cmdline.Choices(cmdline.UsageOf(f))
			if len(choices) < 2 {
				t.Errorf("%s --%s: %q lists no values behind a colon", c.Name, f.Names()[0], cmdline.UsageOf(f))
			}
			for _, choice := range choices {
				if strings.ContainsAny(choice, " ()") {
					t.Errorf("%s --%s: %q is not a value", c.Name, f.Names()[0], choice)
				}
			}
		}
	}
}

// Tab offers something for every operand that help names, or leaves it alone
// knowingly.
func TestEveryOperandCompletes(t *testing.T) {
	config := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(config, []byte(`{"servers":{"files":{"command":"npx"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	folder, err := history.Open(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	record, err := folder.Start(history.Summary{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := record.Finish(); err != nil {
			t.Error(err)
		}
	}()
	alone := map[string]bool{"METHOD": true, "PARAMS": true, "NAME": true, "CMD": true, "MODEL": true, "ADDR": true, "QUESTION": true}
	inv := newInvocation(Env{Getenv: os.Getenv})
	app := newApp(inv)
	for _, c := range app.VisibleCommands() {
		for _, word := range slices.Concat(cmdline.OperandForms(c)...) {
			found := completer(inv).CompleteOperand(app, word, []string{config})
			if found.Shell == "" && len(found.Candidates) == 0 && !alone[word] {
				t.Errorf("%s: nothing completes %s", c.Name, word)
			}
		}
	}
}
