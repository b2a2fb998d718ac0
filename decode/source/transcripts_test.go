package source

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// prompts is a transcript with some prompts of the user.
func prompts(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`{"type":"user","uuid":"u` + string(rune('a'+i)) + `","parentUuid":null,"sessionId":"s","version":"2","cwd":"/secret/project","timestamp":"2026-01-01T00:00:00Z","message":{"role":"user","content":"a secret"}}` + "\n")
	}
	return b.String()
}

// Counts are those of the cache while a file has the same size and time. A cache that cannot be used is
// made anew. It holds no text.
func TestCache(t *testing.T) {
	home := t.TempDir()
	getenv := func(name string) string {
		return map[string]string{"CLAUDE_CONFIG_DIR": home, "CODEX_HOME": home, "XDG_STATE_HOME": home, "HOME": home}[name]
	}
	name, at := filepath.Join(home, "projects", "p", "s.jsonl"), time.Unix(1_700_000_000, 0)
	write := func(file, text string, at time.Time) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	count := func(fresh bool) int64 {
		t.Helper()
		list := Transcripts(getenv)
		counts, failed, err := Count(t.Context(), getenv, list, fresh)
		if err != nil || len(list) != 1 || failed[0] != nil {
			t.Fatalf("%v, %v, %v", list, failed, err)
		}
		return counts[0].Calls
	}
	write(name, prompts(2), at)
	if got := count(false); got != 2 {
		t.Errorf("%d calls", got)
	}
	cached := filepath.Join(home, "wirectl", "transcripts.json")
	text, err := os.ReadFile(cached)
	if info, statErr := os.Stat(cached); err != nil || statErr != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 || bytes.Contains(text, []byte("secret")) || bytes.Contains(text, []byte(home)) {
		t.Errorf("the cache is %s, %v", text, err)
	}

	other := prompts(2)
	other = strings.Replace(other, `"user"`, `"none"`, 1)
	write(name, other, at)
	if got := count(false); got != 2 {
		t.Errorf("of a file that seems unchanged: %d calls", got)
	}
	if got := count(true); got != 1 {
		t.Errorf("without the cache: %d calls", got)
	}
	write(name, other, at.Add(1))
	if got := count(false); got != 1 {
		t.Errorf("of a file with another time: %d calls", got)
	}
	write(name, prompts(3), at.Add(1))
	if got := count(false); got != 3 {
		t.Errorf("of a file with another size: %d calls", got)
	}
	for _, broken := range []string{"", "{", `{"Version":99,"Files":{}}`, `{"Version":1,"Files":[]}`, "[]", strings.Replace(string(text), `"Calls":2`, `"Calls":"2"`, 1)} {
		write(cached, broken, at)
		write(name, prompts(2), at)
		if got := count(false); got != 2 {
			t.Errorf("with the cache %q: %d calls", broken, got)
		}
		if now, err := os.ReadFile(cached); err != nil || !bytes.Equal(now, text) {
			t.Errorf("the cache after %q is %s", broken, now)
		}
	}
	// A sub-agent that goes on changes its session.
	write(filepath.Join(home, "projects", "p", "s", "subagents", "agent-a.jsonl"), strings.ReplaceAll(prompts(1), `"ua"`, `"x"`), at.Add(time.Hour))
	if got, list := count(false), Transcripts(getenv); got != 3 || !list[0].Time.Equal(at.Add(time.Hour)) {
		t.Errorf("with a sub-agent: %d calls, %v", got, list)
	}
	// What is gone is forgotten.
	if err := os.Rename(name, filepath.Join(home, "projects", "p", "t.jsonl")); err != nil {
		t.Fatal(err)
	}
	count(false)
	if now, _ := os.ReadFile(cached); strings.Count(string(now), "Calls") != 1 {
		t.Errorf("the cache has a file that is gone: %s", now)
	}
}

// A name has enough of an id to be unique.
func TestNames(t *testing.T) {
	home := t.TempDir()
	getenv := func(name string) string { return map[string]string{"CODEX_HOME": home, "HOME": home}[name] }
	const begins = "sessions/2026/11/28/rollout-2026-11-28T02-16-18-"
	for _, file := range []string{
		begins + "01a21ff0-666d-71e2-bfbc-6a0ba234f3b7.jsonl", begins + "01a21ff0-6667-71e2-bfbc-6a0ba234f3b7.jsonl.zst",
		"archived_sessions/rollout-2026-11-28T02-16-18-01a21ff0-666d-71e2-bfbc-6a0ba234f3b7.jsonl.zst", begins + "11a21ff0-666d-71e2-bfbc-6a0ba234f3b7.jsonl",
		begins + "none.jsonl", "sessions/2026/rollout-2026-11-28T02-16-18-21a21ff0-666d-71e2-bfbc-6a0ba234f3b7.jsonl",
	} {
		name := filepath.Join(home, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for _, found := range Transcripts(getenv, "codex") {
		names = append(names, found.Name)
	}
	slices.Sort(names)
	if got, want := strings.Join(names, " "), "codex:01a21ff0-6667 codex:01a21ff0-666d codex:11a21ff0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for name, want := range map[string]string{"codex:11": "11a21ff0", "codex:01": "", "codex:2": "", "codex:latest": ""} {
		if found, err := FindTranscript(getenv, name); (err == nil) != (want != "") || !strings.HasPrefix(found.ID, want) {
			t.Errorf("%s is %v, %v", name, found.ID, err)
		}
	}
}
