package question_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/env"
	"github.com/wirectl/wirectl/run/question"
)

// values reads settings as a line: name=text, of which names may be there again.
func values(t *testing.T, line string) map[string]question.Value {
	t.Helper()
	list := map[string]question.Value{}
	for part := range strings.FieldsSeq(line) {
		name, text, _ := strings.Cut(part, "=")
		list[name] = question.Value{Texts: append(list[name].Texts, text), From: "--" + name}
	}
	return list
}

func TestDefaults(t *testing.T) {
	s, err := question.Read(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := rlm.Limits{Depth: 1, Calls: 500}
	if s.Run.Limits != want || s.CellTimeout != 5*time.Minute || s.Run.Parallel != 16 || s.Output != "text" || s.Run.Nesting != nil || s.Run.Compressor != nil || s.Run.Stopping != nil {
		t.Errorf("%+v", s)
	}
}

func TestSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "system.txt")
	if err := os.WriteFile(file, []byte("be brief"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := question.Read(values(t, "max-depth=0 max-calls=0 max-cost=0.5 max-tokens=9000000000 memory=8GiB cell-timeout=6h context=a context=b unsandboxed=true imports=site policy=strict nest.over=1000 compress.truncate=50 stop.exec="+os.Args[0]+" stop.exec=y fences=repl fences=python log.prompts=new system="+file))
	if err != nil {
		t.Fatal(err)
	}
	if l := s.Run.Limits; l.Depth != 0 || l.Calls != 0 || l.Cost != 0.5 || l.Tokens != 9e9 || s.Memory != 8<<30 || !s.Unsandboxed || len(s.Context) != 2 || !s.NewPrompts || s.Python != (env.PythonOptions{Site: true, Strict: true}) {
		t.Errorf("%+v", s)
	}
	if s.Run.Nesting != rlm.Over(1000) || s.Run.Compressor != rlm.Truncate(50) || s.Run.System(s.Run.Facts) != "be brief" {
		t.Errorf("%+v", s.Run)
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{"100000K": 100000 << 10, "33 MiB": 33 << 20, "4GB": 4 << 30, "1TiB": 1 << 40} {
		s, err := question.Read(map[string]question.Value{"memory": {Texts: []string{text}}})
		if err != nil || s.Memory != want {
			t.Errorf("%s: %v, %v", text, s, err)
		}
	}
}

// A faulty setting is refused with its place, its value and what was expected.
func TestFaultySettings(t *testing.T) {
	for line, want := range map[string]string{
		"max-iterations=0":                    `--max-iterations: invalid value "0": want a whole number from 1 to 2147483647`,
		"max-calls=-1":                        `--max-calls: invalid value "-1": want a whole number from 0 to 2147483647`,
		"max-depth=1.5":                       `--max-depth: invalid value "1.5": want a whole number from 0 to 2147483647`,
		"parallel=99999999999":                `--parallel: invalid value "99999999999": want a whole number from 1 to 2147483647`,
		"max-cost=NaN":                        `--max-cost: invalid value "NaN": want a number of dollars such as 0.5`,
		"timeout=10":                          `--timeout: invalid value "10": want a duration such as 30s or 10m`,
		"cell-timeout=7h":                     `--cell-timeout: invalid value "7h": want at most 6h`,
		"policy=lax":                          `--policy: invalid value "lax": want strict`,
		"env=perl":                            `--env: invalid value "perl": want auto or python or starlark or container`,
		"mode=tool":                           `--mode: invalid value "tool": want code or tools`,
		"mode=tools":                          `--mode: invalid value "tools": name the tools with --tools FILE`,
		"imports=all":                         `--imports: invalid value "all": want site`,
		"output=xml":                          `--output: invalid value "xml": want text or json or ndjson`,
		"memory=0":                            `--memory: invalid value "0": want a size such as 512MiB or 8GiB`,
		"memory=31MiB":                        `--memory: invalid value "31MiB": want at least 32MiB`,
		"nest.match=(":                        `--nest.match: invalid value "(": error parsing regexp`,
		"nest.over=1 nest.always=true":        `--nest.over: invalid value "1": nest.always is set, too: want only one of them`,
		"compress.truncate=1 compress.exec=a": `--compress.exec: invalid value "a": compress.truncate is set, too`,
		"stop.exec=no-such-program":           `--stop.exec: invalid value "no-such-program": exec: "no-such-program": executable file not found in `,
		"nest.exec=no-such-program":           `--nest.exec: invalid value "no-such-program": exec: `,
		"compress.exec=no-such-program":       `--compress.exec: invalid value "no-such-program": exec: `,
		"system=no-such-file":                 `--system: open no-such-file: `,
		"log.prompts=some":                    `--log.prompts: invalid value "some": want all or new`,
		"max-tokens=99999999999999999999999":  `--max-tokens: invalid value`,
		"max-errors=0":                        `--max-errors: invalid value "0": want a whole number from 1 to 2147483647`,
	} {
		if s, err := question.Read(values(t, line)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %s", line, s, err, want)
		}
	}
}
