package test

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/wirectl/wirectl/broker/config"
)

// The YAML of contrib, including that in its strings, is valid. The flags for wirectl
// exist, and the broker's configuration is accepted.
func TestContrib(t *testing.T) {
	manual, err := os.ReadFile("../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := fs.Glob(os.DirFS("../contrib"), "otlp/*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatalf("found %q, %v", files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(path.Join("../contrib", name))
		if err != nil {
			t.Fatal(err)
		}
		documents := 0
		for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; documents++ {
			var document map[string]any
			if err := decoder.Decode(&document); err != nil {
				if err.Error() != "EOF" {
					t.Errorf("%s: %v", name, err)
				}
				break
			}
			walk(document, func(key string, value any) {
				switch text, isText := value.(string); {
				case isText && (key == "content" || key == "broker.yaml"):
					var inner map[string]any
					if err := yaml.Unmarshal([]byte(text), &inner); err != nil || len(inner) == 0 {
						t.Errorf("%s: in %s: %v", name, key, err)
					}
					if key == "broker.yaml" {
						if _, err := config.Parse(name, []byte(text), config.Env{Getenv: func(string) string { return "key" }}); err != nil {
							t.Errorf("%s: in %s: %v", name, key, err)
						}
					}
				case key == "args":
					checkArgs(t, name, manual, value.([]any))
				}
			})
		}
		if documents == 0 {
			t.Errorf("%s has nothing", name)
		}
	}
}

// checkArgs checks that the manual has the command and the flags below it.
func checkArgs(t *testing.T, name string, manual []byte, args []any) {
	t.Helper()
	_, section, ok := strings.Cut(string(manual), "\n# wirectl "+args[0].(string)+"\n")
	if !ok {
		t.Fatalf("%s: no command %v", name, args[0])
	}
	section, _, _ = strings.Cut(section, "\n# ")
	for _, arg := range args[1:] {
		if flag, _, _ := strings.Cut(arg.(string), "="); strings.HasPrefix(flag, "--") && !strings.Contains(section, "**"+flag) {
			t.Errorf("%s: %v has no %s", name, args[0], flag)
		}
	}
}

// walk visits all values below one, with their keys.
func walk(value any, visit func(key string, value any)) {
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			visit(key, below)
			walk(below, visit)
		}
	case []any:
		for _, below := range v {
			walk(below, visit)
		}
	}
}
