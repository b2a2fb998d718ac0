package yamlfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/internal/yamlfile"
)

// What is too deep or too large is refused, in whatever way it is written, and what
// people write is not.
func TestCheck(t *testing.T) {
	var blocks, mixed strings.Builder
	for n := range 300 {
		blocks.WriteString(strings.Repeat(" ", n) + "a:\n")
		mixed.WriteString(strings.Repeat(" ", 2*n) + "- a:\n")
	}
	for name, tt := range map[string]struct {
		text string
		want string
	}{
		"empty":             {"", ""},
		"long and flat":     {strings.Repeat("- {a: [1, 2], b: {c: d}}\n", 2000), ""},
		"deep enough":       {strings.Repeat("[", 99) + strings.Repeat("]", 99), ""},
		"brackets in texts": {"a: \"" + strings.Repeat("[", 500) + "\"\nb: '" + strings.Repeat("{", 500) + "' # " + strings.Repeat("[", 500) + "\n", ""},
		"brackets":          {"a: " + strings.Repeat("[", 50_000), "[1:103] too deep"},
		"brackets, closed":  {strings.Repeat("[", 50_000) + strings.Repeat("]", 50_000), "too deep"},
		"braces":            {strings.Repeat("{a: ", 50_000), "too deep"},
		"lists in a line":   {strings.Repeat("- ", 50_000) + "x", "too deep"},
		"keys in a line":    {strings.Repeat("? ", 50_000) + "x", "too deep"},
		"mappings":          {blocks.String(), "[101:101] too deep"},
		"lists of mappings": {mixed.String(), "too deep"},
		"too large":         {strings.Repeat("- a\n", yamlfile.MaxSize/4+1), "too large"},
	} {
		err := yamlfile.Check([]byte(tt.text))
		var ye *yamlfile.Error
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.want != "" && (!errors.As(err, &ye) || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}

// The check itself takes memory with the size alone, which is bounded.
func TestCheckIsCheap(t *testing.T) {
	for _, unit := range []string{"[", "{a: ", "- ", "&a ", "\"\n", "a: |\n "} {
		text := []byte(strings.Repeat(unit, yamlfile.MaxSize/len(unit)))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := yamlfile.Check(text)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 512<<20 {
			t.Errorf("%q: %d MiB (%v)", unit, took>>20, err)
		}
	}
}

// Of a file that is too large no more is read than tells so.
func TestRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(name, make([]byte, 3*yamlfile.MaxSize), 0o600); err != nil {
		t.Fatal(err)
	}
	data, err := yamlfile.Read(name)
	if err != nil || len(data) != yamlfile.MaxSize+1 || yamlfile.Check(data) == nil {
		t.Errorf("%d bytes, %v, %v", len(data), err, yamlfile.Check(data))
	}
}
