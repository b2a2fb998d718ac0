package track_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/fixtures"
	given "github.com/wirectl/wirectl/session/context"
)

// followNamed follows a session with the contexts of its models.
func followNamed(t *testing.T, name string) (*track.Trackers, *given.View) {
	t.Helper()
	cfg := decode.Config{Workers: 1, Resync: true, Notice: func(string) {}}
	o := source.Opener{Getenv: func(string) string { return "" }}
	in, err := o.Session(context.Background(), name, cfg, false)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer in.Close()
	ts := track.Trackers{Contexts: &given.Log{Keep: true}}
	f := track.NewFollower(&ts, in.Input, cfg)
	cfg.Event = f.Event
	if _, err := decode.Run(context.Background(), in.Input, io.Discard, cfg, func() decode.View { return f.View }); err != nil && !errors.Is(err, capture.ErrCut) {
		t.Fatalf("%s: %v", name, err)
	}
	f.End()
	return &ts, ts.Contexts.View(time.Time{})
}

// In all recorded sessions with models, the shares of the items add up to the tokens that the provider
// tells, and those to the usage of the calls. Nothing is said about their caches, of which none has lost
// anything.
func TestContextsOfRecordings(t *testing.T) {
	var names []string
	for _, name := range fixtures.Sessions() {
		names = append(names, "fixture:"+name)
	}
	for _, pattern := range []string{
		"recordings/*", "runs/*/run.json", "files/claude-code/projects/*/*.jsonl", "files/codex/sessions/*/*/*/*.jsonl", "files/qwen/projects/*/*/*.jsonl",
		"files/gemini/tmp/*/chats/*.jsonl", "files/copilot/session-state/*/*.jsonl", "files/opencode-export.json", "files/har/*.har",
	} {
		found, err := filepath.Glob("../../test/testdata/" + pattern)
		if err != nil || len(found) == 0 {
			t.Errorf("%s: %v, %v", pattern, found, err)
		}
		for _, name := range found {
			names = append(names, strings.TrimSuffix(name, "/run.json"))
		}
	}
	var with []string
	for _, name := range names {
		if _, err := os.Stat(name + "/c2s.bin"); err != nil && strings.Contains(name, "/recordings/") {
			continue
		}
		ts, v := followNamed(t, name)
		var used, told int64
		for _, tr := range ts.List {
			for e := range tr.Exchanges() {
				if e.Context != nil || tr.Protocol.Name() == "agent-log" && e.Operation() == e {
					used += e.Usage.Input
				}
			}
		}
		for _, c := range v.Calls {
			told += c.Input
			var shared int64
			for _, n := range c.Tokens() {
				shared += n
			}
			if shared != c.Input && !c.Omitted {
				t.Errorf("%s: call %d: the shares are %d of %d tokens", name, c.Number, shared, c.Input)
			}
			if found := v.Verdict(c); found != nil {
				t.Errorf("%s: call %d: %s", name, c.Number, found.Text)
			}
		}
		if used != told {
			t.Errorf("%s: the contexts have %d tokens, and the calls %d", name, told, used)
		}
		if len(v.Calls) > 0 {
			with = append(with, fmt.Sprintf("%s %d/%d", filepath.Base(name), len(v.Calls), len(v.Conversations())))
		}
	}
	if len(with) < 15 {
		t.Errorf("only these have calls of models: %s", with)
	}
	for _, want := range []string{"claude 6/2", "codex 6/4", "fixture:api-openai-made 5/5"} {
		if !slices.Contains(with, want) {
			t.Errorf("no %s in %s", want, with)
		}
	}
}
