package test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/wirectl/wirectl/commands"
	"github.com/wirectl/wirectl/fixtures"
)

// The golden file has the answer of why for each recorded session, each run and each file of another
// program, or that there is nothing to explain. Whoever changes a rule reads here what it changes.
func TestWhy(t *testing.T) {
	const golden = "testdata/why.txt"
	var sources []string
	for _, name := range fixtures.Sessions() {
		sources = append(sources, "fixture:"+name)
	}
	for _, folder := range []string{"recordings", "runs"} {
		list, err := os.ReadDir("testdata/" + folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range list {
			if entry.IsDir() {
				sources = append(sources, "testdata/"+folder+"/"+entry.Name())
			}
		}
	}
	if err := filepath.WalkDir("testdata/files", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && slices.Contains([]string{".jsonl", ".json", ".har", ".log", ".sse", ".mitm", ".zst", ".pcap", ".pcapng", ".txt", ".db"}, filepath.Ext(path)) && !strings.Contains(path, "keys") {
			sources = append(sources, filepath.ToSlash(path))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, name := range sources {
		var out bytes.Buffer
		env := commands.OSEnv()
		env.Stdin, env.Stdout, env.Stderr, env.Getenv = strings.NewReader(""), &out, &out, func(string) string { return "" }
		status := commands.Run(context.Background(), env, []string{"wirectl", "why", "-q", name})
		fmt.Fprintf(&got, "=== %s\n%s", name, out.String())
		if status != 0 {
			fmt.Fprintf(&got, "[exit status %d]\n", status)
		}
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Error(diff)
	}
}
