package observe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/broker/provider"
)

// documented returns the keys of a line according to docs/broker.md, with a dot for those
// of its objects.
func documented(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/broker.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "appends a line of JSON for each call, version 1:\n")
	if !found {
		t.Fatal("docs/broker.md has no table of the log's version 1")
	}
	word := regexp.MustCompile("`([a-z_]+)`")
	var keys []string
	for _, row := range strings.Split(table, "\n") {
		cells := strings.Split(row, "|")
		if len(cells) != 4 {
			continue
		}
		names := word.FindAllStringSubmatch(cells[1], -1)
		for _, name := range names {
			keys = append(keys, name[1])
		}
		if len(names) == 1 && (names[0][1] == "hops" || names[0][1] == "cancel") {
			for _, member := range word.FindAllStringSubmatch(cells[2], -1) {
				keys = append(keys, names[0][1]+"."+member[1])
			}
		}
	}
	return keys
}

// keys collects the keys of an object.
func keys(into map[string]bool, prefix string, object map[string]any) {
	for key, value := range object {
		into[prefix+key] = true
		switch v := value.(type) {
		case map[string]any:
			if key != "prompt" {
				keys(into, key+".", v)
			}
		case []any:
			for _, elem := range v {
				if o, ok := elem.(map[string]any); ok {
					keys(into, key+".", o)
				}
			}
		}
	}
}

// calls makes a call that succeeds, one that fails, one that is cancelled and one for an
// unknown model, and returns their lines.
func calls(t *testing.T, prompts bool) []map[string]any {
	t.Helper()
	var out bytes.Buffer
	log := observe.NewLog(&out, prompts)
	b, err := broker.New(broker.Config{Models: []broker.Model{
		{Name: "good", Routes: []broker.Route{{Backend: &broker.Backend{Name: "good", Provider: provider.NewMock(provider.MockConfig{})}}}},
		{Name: "bad", Routes: []broker.Route{{Backend: &broker.Backend{Name: "bad", Provider: provider.NewMock(provider.MockConfig{Faults: []provider.Fault{{Every: 1, Status: 503}}})}}}},
		{Name: "slow", Routes: []broker.Route{{Backend: &broker.Backend{Name: "slow", Provider: provider.NewMock(provider.MockConfig{Latency: time.Hour})}}}},
	}}, log)
	if err != nil {
		t.Fatal(err)
	}
	for _, model := range []string{"good", "bad", "slow", "none"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if model == "slow" {
			cancel(broker.ErrCancelled)
		}
		c := &broker.Call{Door: "rlm", Client: "127.0.0.1", Ref: "r", Model: model, Prompt: []byte(`"sesame"`), Parent: client}
		_ = b.Do(ctx, c)
		cancel(nil)
	}
	if err := log.Err(); err != nil {
		t.Fatal(err)
	}
	if !prompts && strings.Contains(out.String(), "sesame") {
		t.Errorf("a prompt is in the log:\n%s", &out)
	}
	var lines []map[string]any
	for _, text := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		lines = append(lines, line)
	}
	return lines
}

// The lines of the log have exactly the documented keys, and say how each call ended.
func TestLogIsAsDocumented(t *testing.T) {
	want := documented(t)
	slices.Sort(want)
	seen := map[string]bool{}
	var outcomes []string
	for _, line := range calls(t, true) {
		keys(seen, "", line)
		outcomes = append(outcomes, line["outcome"].(string))
		if line["v"] != float64(observe.Version) {
			t.Errorf("the version is %v", line["v"])
		}
	}
	if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, want) {
		t.Errorf("\n got %v\nwant %v", got, want)
	}
	if want := []string{"ok", "error", "cancelled", "refused"}; !slices.Equal(outcomes, want) {
		t.Errorf("outcomes %v, want %v", outcomes, want)
	}
	for _, line := range calls(t, false) {
		if line["prompt"] != nil || line["response"] != nil {
			t.Errorf("a prompt is in the log: %v", line)
		}
	}
}

// A log that cannot be written is reported at the end, and disturbs no call.
func TestLogThatFails(t *testing.T) {
	log := observe.NewLog(full{}, false)
	log.Ended(&broker.Call{}, &broker.Report{})
	log.Ended(&broker.Call{}, &broker.Report{Err: &provider.Error{Err: errors.New("secret")}})
	if err := log.Err(); !errors.Is(err, errFull) {
		t.Error(err)
	}
}

type full struct{}

var errFull = errors.New("the disk is full")

func (full) Write([]byte) (int, error) { return 0, errFull }
