package python_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/env"
	"github.com/wirectl/wirectl/rlm/env/python"
)

// A turn has one cell.
func BenchmarkCell(b *testing.B) {
	i := start(b, env.Config{}, python.Options{})
	i.run("import math, json; a = [1, 2]; s = 'text'")
	for b.Loop() {
		if r := i.run("n = len(s)\nprint(n)"); r.Stdout != "4\n" {
			b.Fatal(r)
		}
	}
}

// Consecutive calls, each with a prompt of a few words.
func BenchmarkCall(b *testing.B) {
	i := start(b, env.Config{}, python.Options{})
	const calls = 1000
	for b.Loop() {
		if r := i.run(fmt.Sprintf("for _ in range(%d): llm_query('what is it?')", calls)); r.Err != nil {
			b.Fatal(r.Err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/calls, "µs/call")
}

func BenchmarkBatch(b *testing.B) {
	i := start(b, env.Config{}, python.Options{})
	for b.Loop() {
		if r := i.run("llm_query_batched(['what is it?'] * 2000)"); r.Err != nil {
			b.Fatal(r.Err)
		}
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		i := start(b, env.Config{}, python.Options{})
		i.run("pass")
		i.Close()
	}
}

// A text of 200 MiB.
func BenchmarkLoad(b *testing.B) {
	path := filepath.Join(b.TempDir(), "context")
	if err := os.WriteFile(path, []byte(strings.Repeat("0123456789abcdef", 200<<16)), 0o600); err != nil {
		b.Fatal(err)
	}
	i := start(b, env.Config{}, python.Options{})
	for b.Loop() {
		if err := i.Load(b.Context(), rlm.Context{Path: path, Type: "text"}); err != nil {
			b.Fatal(err)
		}
	}
	b.Log(i.run("print(len(context), *[l for l in open('/proc/self/status') if 'Rss' in l or 'HWM' in l])").Stdout)
}
