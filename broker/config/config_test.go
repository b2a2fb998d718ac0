package config_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/config"
	"github.com/wirectl/wirectl/broker/provider"
)

// world has one variable and one file.
var world = config.Env{
	Getenv: func(name string) string { return map[string]string{"KEY": "sk-planted\r\n", "LINES": "a\nb"}[name] },
	ReadFile: func(name string) ([]byte, error) {
		if name == "key.txt" {
			return []byte("sk-planted\n"), nil
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	},
}

// Without a file, or with one that has no models, a mock answers.
func TestDefault(t *testing.T) {
	for name, text := range map[string]string{"built in": "default: mock\nproviders: {mock: {kind: mock}}\nmodels: {mock: {provider: mock}}\n", "empty": "", "a comment": "# later\n", "a byte order mark": "\uFEFFdefault: mock\n", "no models": "listen: {rlm: 1234}\n"} {
		c, err := config.Parse("c.yaml", []byte(text), world)
		if err != nil || c.Broker.Default != "mock" || len(c.Broker.Models) != 1 || c.Broker.Models[0].Name != "mock" {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

// A file that uses every key is parsed as intended.
func TestWhole(t *testing.T) {
	c, err := config.Parse("c.yaml", []byte(`
default: fast
listen: {rlm: 9000, proxy: "0.0.0.0:9001", nexus: off, admin: ":9002", openai: "[::1]:9003"}
providers:
  a: {kind: openai, key: {env: KEY}, concurrency: 3, rate: 2.5, burst: 4, retries: 0, backoff: 1s, max_wait: 2s,
      breaker: {failures: 5, delay: 3s}, timeouts: {connect: 1s, first_token: 4s, total: 1m}, headers: {X-Team: blue, X-Number: 7, X-Api-Key: {env: KEY}, X-Auth: written}}
  b: {kind: anthropic, key: {file: key.txt}, max_tokens: 9, drop: [n, logit_bias], backoff: 1ms, base_url: "http://127.0.0.1:0"}
  m: {kind: mock, mock: {prefix: "", latency: 1ms, script: [{when: a, tool_calls: [{id: x, name: f, arguments: {n: 1}}]}], faults: [{every: 2}]}}
models:
  one: {provider: a, model: big, fallbacks: [fast, "two-5"]}
  "two-*": {routes: [{provider: a, weight: 3}, {provider: b, model: small}]}
  m: {provider: m, fallbacks: [one]}
  x-small: {provider: b}
aliases: {fast: two-1}
limits: {batch: 2, connections: 3, body_bytes: 4, idle: 5s, read: 6s}
token: {env: KEY}
`), world)
	if err != nil {
		t.Fatal(err)
	}
	for door, want := range map[string]string{"rlm": "127.0.0.1:9000", "proxy": "0.0.0.0:9001", "nexus": "off", "latis": "127.0.0.1:8766", "admin": "127.0.0.1:9002", "openai": "[::1]:9003"} {
		if c.Listen[door] != want {
			t.Errorf("%s listens on %s, want %s", door, c.Listen[door], want)
		}
	}
	m, one, two := c.Broker.Models[0], c.Broker.Models[1], c.Broker.Models[2]
	a := one.Routes[0].Backend
	if want := []string{"sk-planted", "sk-planted", "written", "sk-planted", "sk-planted"}; !slices.Equal(c.Secrets, want) {
		t.Errorf("the secrets are %q, want %q", c.Secrets, want)
	}
	got := []any{m.Name, one.Name, one.Routes[0].Model, two.Name, two.Routes[0].Weight, two.Routes[0].Backend == a, two.Routes[1].Backend.Retries, c.Broker.Default, c.Token, c.Limits.BodyBytes}
	want := []any{"m", "one", "big", "two-*", 3, true, 2, "fast", "sk-planted", int64(4)}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: %v, want %v", i, got[i], want[i])
		}
	}
	limits := broker.Backend{
		Name: "a", Provider: a.Provider, KeyEnv: "KEY", Concurrency: 3, Rate: 2.5, Burst: 4, Backoff: time.Second, MaxWait: 2 * time.Second,
		Breaker: 5, BreakerDelay: 3 * time.Second, FirstPart: 4 * time.Second, Total: time.Minute,
	}
	if *a != limits {
		t.Errorf("got %+v, want %+v", *a, limits)
	}
	made, err := broker.New(c.Broker, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Parameters to drop: a call is not rejected for them. It fails only because there is
	// no backend.
	for param, want := range map[string]provider.Cause{"n": provider.Unreachable, "logprobs": provider.Unsupported} {
		err := made.Do(t.Context(), &broker.Call{Model: "x-small", Body: []byte(`{"messages":[],"` + param + `":2}`)})
		if broker.CauseOf(err) != want {
			t.Errorf("%s: %v", param, err)
		}
	}
}

// rlmKeys are the keys of the section rlm.
const rlmKeys = "model, sub_model, allow_model, context, mode, tools, tool_choice, schema, env, image, unsandboxed, setup, memory, imports, max_iterations, max_depth, max_calls, max_tokens, max_cost, max_errors, timeout, cell_timeout, parallel, system, log_dir, capture, control, prices, output, fences, policy, proxy, exec, log, stop, compress, nest"

// The settings of the section rlm are returned as flags, with their positions.
func TestRLM(t *testing.T) {
	c, err := config.Parse("c.yaml", []byte(`
rlm:
  max_depth: 0
  sub_model: cheap
  timeout: 90s
  max_cost: 0.5
  unsandboxed: true
  memory: 4GiB
  fences: [repl, python]
  log: {prompts: new}
  nest: {over: 1000}
`), world)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range c.RLM {
		got = append(got, strings.TrimPrefix(s.At, "c.yaml:")+" "+s.Name+"="+strings.Join(s.Values, "+"))
	}
	want := []string{"4:3 sub_model=cheap", "7:3 unsandboxed=true", "8:3 memory=4GiB", "3:3 max_depth=0", "6:3 max_cost=0.5", "5:3 timeout=1m30s", "9:3 fences=repl+python", "10:9 log.prompts=new", "11:10 nest.over=1000"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// The facts about a model are found by every name of it.
func TestFacts(t *testing.T) {
	c, err := config.Parse("c.yaml", []byte(`
default: fast
providers: {m: {kind: mock}}
models:
  a: {provider: m, price: {input: 1, output: 2}, context_window: 100}
  "b-*": {provider: m, context_window: 200}
aliases: {fast: a}
`), world)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"": 100, "fast": 100, "a": 100, "b-1": 200, "c": 0} {
		if f := c.Facts(name); f.ContextWindow != want || (f.Price != nil) != (want == 100) {
			t.Errorf("%q: %+v, want %d", name, f, want)
		}
	}
}

// An error has its line, its column, and what was expected there.
func TestFaults(t *testing.T) {
	const models = "providers: {m: {kind: mock}}\nmodels:\n"
	for _, tt := range []struct{ text, want string }{
		// Not YAML, or not a mapping.
		{"models: {a: {provider: m", "1:13: could not find flow mapping end token '}'"},
		{"default: x\ndefault: y", `2:1: mapping key "default" already defined at [1:1]`},
		{"- x", "1:1: found a list; expected a mapping, with lines of the form key: value"},
		{"just text", "1:1: found text; expected a mapping, with lines of the form key: value"},
		{"default: a\n---\ndefault: b", "2:1: several documents; expected one"},
		{"---\ndefault: a\n--- # more\n---\n", "3:1: several documents; expected one"},

		// Unknown keys.
		{"modles: {}", `1:1: unknown key "modles" (did you mean models?); expected one of default, listen, providers, models, aliases, limits, token, clients, spent, join, on_hub_loss, rlm`},
		{models + "  a: {provider: m, modl: x}", `3:20: unknown key "modl" (did you mean model?); expected one of provider, model, routes, fallbacks, price, context_window, budget, rlm`},
		{models + "  a:\n    routes:\n      - provider: m\n        wait: 1", `6:9: unknown key "wait"; expected one of provider, model, weight`},
		{"providers: {m: {kind: mock, key: sk-planted}}", "1:34: found text; expected a mapping, with lines of the form key: value"},

		// Wrong types.
		{"default: [a]", "1:10: found a list; expected text"},
		{"limits: {batch: 1.5}", "1:17: found a number; expected a whole number"},
		{"limits: {batch: many}", "1:17: found text; expected a whole number"},
		{"limits: {idle: 5}", `1:16: "5" is not a duration: expected something like 1.5s, 200ms or 5m`},
		{"limits: {idle: -5s}", `1:16: "-5s" is not a duration: expected something like 1.5s, 200ms or 5m`},
		{"limits: {idle: [1s]}", "1:16: found a list; expected a duration like 1.5s, 200ms or 5m"},
		{"providers: {m: {kind: mock, headers: {X: [1]}}}", "1:42: found a list; expected text, or where a key is: {env: NAME} or {file: NAME}"},
		{"providers: {m: {kind: mock, headers: {X: {end: K}}}}", "1:43: unknown key \"end\" (did you mean env?); expected one of env, file"},
		{"providers: {m: {kind: mock, headers: {X: {env: NOPE}}}}", "1:39: providers.m.headers.X: the environment variable NOPE is not set"},
		{"providers: {m: {kind: mock, headers: {a b: x}}}", "1:39: providers.m.headers.a b: expected a header of HTTP: a name of letters, digits and '-', and a value of one line"},
		{"providers: {m: {kind: mock, headers: {X: \"a\\nb\"}}}", "1:39: providers.m.headers.X: expected a header of HTTP: a name of letters, digits and '-', and a value of one line"},
		{"providers: {m: {kind: mock, key: {env: LINES}}}", "1:29: providers.m.key: this is not a key: it has more than one line, or control characters"},
		{"providers: {m: {kind: anthropic, api_version: x}}", "1:34: providers.m.api_version: not used here; it is for the kind openai, at Azure"},
		{"providers: {m: {kind: openai, drop: [n]}}", "1:38: providers.m.drop.0: not used here; with the kind openai only tools can be dropped"},
		{"providers: {m: {kind: mock, drop: [n]}}", "1:29: providers.m.drop: not used here; a mock takes everything"},
		{"providers: {m: {kind: gemini, drop: [n, seed]}}", "1:41: providers.m.drop.1: \"seed\" is not a parameter that can be dropped; expected one of audio, frequency_penalty, function_call, functions, logit_bias, logprobs, modalities, n, parallel_tool_calls, presence_penalty, response_format, tools, top_logprobs, web_search_options"},
		{"providers: {m: {kind: openai, max_tokens: 9}}", "1:31: providers.m.max_tokens: not used here; it is for the kind anthropic"},
		{"providers: {m: {kind: mock}}", "1:1: providers: no models; expected models: {NAME: {provider: m}}"},
		{"models: {a: {routes: {provider: m}}}", "1:22: found a mapping; expected a list, with lines that begin with -"},

		// Numbers out of range.
		{"providers:\n  m: {kind: mock, concurrency: -1}", "2:19: providers.m.concurrency: expected a number from 0 to 2147483647"},
		{"providers:\n  m: {kind: mock, rate: .nan}", "2:19: providers.m.rate: expected a number from 0 to 2147483647"},
		{"providers:\n  m: {kind: mock, retries: 11}", "2:19: providers.m.retries: expected a number from 0 to 10"},
		{"providers:\n  m: {kind: mock, breaker: {failures: -1}}", "2:29: providers.m.breaker.failures: expected a number from 0 to 2147483647"},
		{"providers:\n  m:\n    kind: mock\n    mock:\n      faults:\n        - every: 0", "6:11: providers.m.mock.faults.0.every: expected a number from 1: every how many calls one fails"},
		{"providers:\n  m: {kind: mock, mock: {script: [{status: 200}]}}", "2:36: providers.m.mock.script.0.status: expected an error status, from 400 to 599"},
		{"limits:\n  body_bytes: -1", "2:3: limits.body_bytes: expected a number from 0; 0 means the default"},
		{models + "  a: {routes: [{provider: m, weight: -1}]}", "3:30: models.a.routes.0.weight: expected a number from 0; 0 means 1"},

		{"providers:\n  m: {kind: mock, mock: {turns: [{text: a}, {status: 200}]}}", "2:46: providers.m.mock.turns.1.status: expected an error status, from 400 to 599"},
		{"providers:\n  m: {kind: mock, mock: {prefix: a, turns: [{text: a}]}}", "2:37: providers.m.mock.turns: expected either turns, or script and prefix: a mock with turns says nothing else"},
		{models + "  a: {provider: m, price: {input: -1}}", "3:20: models.a.price: invalid price -1: want dollars per million tokens, from 0 to 1000000"},
		{models + "  a: {provider: m, context_window: -1}", "3:20: models.a.context_window: expected a number of tokens; 0 means unknown"},
		{models + "  a: {provider: m, budget: {calls: -1}}", "3:20: models.a.budget: expected calls, tokens and cost from 0; 0 means no limit"},
		{models + "  a: {provider: m, budget: {per: 1h}}", "3:20: models.a.budget: it limits nothing; expected calls, tokens or cost"},
		{"clients: {alice: {budget: {calls: 1}}}", "1:11: clients.alice: expected a token, as {env: NAME} or {file: NAME}"},
		{"clients: {alice: {token: {env: KEY}}, bob: {token: {file: key.txt}}}", "1:45: clients.bob.token: this token is in use already; each client needs its own"},
		{"token: {env: KEY}\nclients: {alice: {token: {env: KEY}}}", "2:19: clients.alice.token: this token is in use already; each client needs its own"},
		{"clients: {alice: {token: {env: KEY}, budget: {cost: .nan}}}", "1:38: clients.alice.budget: expected calls, tokens and cost from 0; 0 means no limit"},
		{"providers:\n  m: {kind: mock, mock: {chunk: -1}}", "2:26: providers.m.mock.chunk: expected a number of characters; 0 means a word"},
		{"rlm: {unsandboxed: maybe}", "1:20: found text; expected true or false"},
		{"rlm:\n  max_iteration: 3", "2:3: unknown key \"max_iteration\" (did you mean max_iterations?); expected one of " + rlmKeys},

		// Undefined names.
		{"providers: {m: {kind: mocks}}", `1:17: providers.m.kind: "mocks" is not a kind of provider; expected one of anthropic, gemini, mock, openai, workers`},
		{"providers: {m: {}}", `1:13: providers.m.kind: "" is not a kind of provider; expected one of anthropic, gemini, mock, openai, workers`},
		{models + "  a: {provider: x}", `3:7: models.a.provider: there is no provider "x"; expected a key of providers: m`},
		{models + "  a: {routes: [{provider: m}, {provider: x}]}", `3:32: models.a.routes.1.provider: there is no provider "x"; expected a key of providers: m`},
		{models + "  a: {provider: m, fallbacks: [b]}", `3:32: models.a.fallbacks.0: no model "b"`},
		{models + "  a: {provider: m}\naliases: {b: c}", `4:11: aliases.b: no model "c"`},
		{models + "  a: {provider: m}\ndefault: c", `4:1: default: no model "c"`},
		{"listen: {rlm: 1, rml: 2}", "1:18: listen.rml: unknown door; expected one of rlm, proxy, nexus, latis, latis_ws, openai, admin"},

		// Invalid models.
		{models + "  a: {}", "3:3: models.a: expected a provider, or routes"},
		{models + "  a: {provider: m, routes: [{provider: m}]}", "3:3: models.a: expected either provider or routes; got both"},
		{models + `  "a*b*": {provider: m}`, "3:3: models.a*b*: expected a name without surrounding space and with at most one *"},
		{models + "  a: {provider: m, fallbacks: [a]}", `3:32: models.a.fallbacks.0: "a" is the model itself; expected another to fall back to`},
		{models + "  a: {provider: m, fallbacks: [b]}\naliases: {b: a}", `3:32: models.a.fallbacks.0: "b" is the model itself; expected another to fall back to`},
		{models + `  "a-*": {provider: m, fallbacks: [a-1]}`, `3:36: models.a-*.fallbacks.0: "a-1" is the model itself; expected another to fall back to`},
		{models + "  a: {provider: m}\naliases: {a: a}", "4:11: aliases.a: a model has that name"},

		// Secrets, which are named by where they should be.
		{"providers: {m: {kind: openai, key: {env: NONE}}}", "1:31: providers.m.key: the environment variable NONE is not set"},
		{"providers: {m: {kind: openai, key: {file: none.txt}}}", "1:31: providers.m.key: cannot read none.txt: file does not exist"},
		{"providers: {m: {kind: openai, key: {env: KEY, file: key.txt}}}", "1:31: providers.m.key: expected either env or file; got both"},
		{"providers: {m: {kind: openai, base_url: \"http://u:sk-planted@h\"}}", "1:31: providers.m.base_url: expected a URL that begins with http:// or https://, without user and password"},
		{"providers: {m: {kind: openai, base_url: \"https://h/v1?x=y\"}}", "1:31: providers.m.base_url: expected a URL without ? and #: paths such as /chat/completions are appended"},
		{"providers: {m: {kind: openai, base_url: \"http://h/v1#x\"}}", "1:31: providers.m.base_url: expected a URL without ? and #: paths such as /chat/completions are appended"},

		// Addresses.
		{"listen: {rlm: 0.0.0.0}", `1:10: listen.rlm: "0.0.0.0" has no port for the door rlm; expected HOST:PORT, as 0.0.0.0:8760 is, or PORT, or off`},
		{"listen: {rlm: localhost}", `1:10: listen.rlm: "localhost" has no port for the door rlm; expected HOST:PORT, as localhost:8760 is, or PORT, or off`},
		{"listen: {rlm: \"::1\"}", `1:10: listen.rlm: invalid address "::1" for the door rlm; expected HOST:PORT, PORT or off`},
		{"listen: {rlm: 70000}", `1:10: listen.rlm: invalid address "70000" for the door rlm; expected HOST:PORT, PORT or off`},
		{"listen: {rlm: \"http://h:1\"}", `1:10: listen.rlm: invalid address "http://h:1" for the door rlm; expected HOST:PORT, PORT or off`},

		// Input that would cost the parser gigabytes.
		{"models: " + strings.Repeat("[", 50_000), "1:108: too deep: want at most 100 nested lists and mappings"},
		{strings.Repeat("#\n", 1<<19+1), "too large: want at most 1048576 bytes"},
	} {
		_, err := config.Parse("c.yaml", []byte(tt.text), world)
		var ce *config.Error
		if !errors.As(err, &ce) {
			t.Errorf("%s\n got %v, want a fault", tt.text, err)
			continue
		}
		if got := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "c.yaml: "), "c.yaml:"); got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.text, got, tt.want)
		}
		if strings.Contains(err.Error(), "sk-planted") {
			t.Errorf("%s\nthe error tells a key: %v", tt.text, err)
		}
	}
}

// Budgets of clients and of models are parsed as intended.
func TestBudgets(t *testing.T) {
	c, err := config.Parse("c.yaml", []byte("providers: {m: {kind: mock}}\nmodels:\n  a: {provider: m, price: {input: 3}, budget: {tokens: 9, cost: 1.5}}\nspent: s.json\nclients: {alice: {token: {env: KEY}, budget: {calls: 7, per: 24h}}}"), world)
	if err != nil {
		t.Fatal(err)
	}
	a, alice := c.Broker.Models[0], c.Broker.Clients["alice"]
	if *a.Budget != (broker.Budget{Tokens: 9, Cost: 1.5}) || a.Price.Input != 3 || *alice != (broker.Budget{Calls: 7, Per: 24 * time.Hour}) || c.Clients["sk-planted"] != "alice" || c.Spent != "s.json" || !c.Broker.Budgets() {
		t.Errorf("got %+v %+v %+v", a, alice, c)
	}
	if without := c.Broker.WithoutBudgets(); without.Budgets() {
		t.Error("there are budgets left")
	}
}

// A single model is the default under any name. With several models there is no default,
// and a pattern cannot be one.
func TestOnlyModelIsTheDefault(t *testing.T) {
	for text, want := range map[string]string{
		"providers: {m: {kind: mock}}\nmodels: {a: {provider: m}}":                              "a",
		"providers: {m: {kind: mock}}\nmodels: {a: {provider: m}, b: {provider: m}}":            "",
		"providers: {m: {kind: mock}}\nmodels: {\"a*\": {provider: m}}":                         "",
		"providers: {m: {kind: mock}}\nmodels: {\"a*\": {provider: m}}\ndefault: a-1":           "a-1",
		"providers: {m: {kind: mock}}\nmodels: {a: {provider: m}}\ndefault: x\naliases: {x: a}": "x",
	} {
		c, err := config.Parse("c.yaml", []byte(text), world)
		if err != nil || c.Broker.Default != want {
			t.Errorf("%s\n got %v, %v, want %q", text, c, err, want)
		}
	}
}

// FuzzParse checks that every file is parsed or rejected, and that a parsed one makes a
// broker.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"default: mock\nproviders: {mock: {kind: mock}}\nmodels: {mock: {provider: mock}}\n", "a: [", "&a {default: *a}", "<<: {default: a}", "? [a]: b", "models: {a: {routes: [{provider: m}]}}\nproviders: {m: {kind: mock}}",
		"providers: {m: {kind: mock, mock: {script: [{when: x, tool_calls: [{arguments: {a: .inf}}]}]}}}", "!!binary x", "limits: {idle: 1h}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := config.Parse("c.yaml", text, world)
		if err != nil {
			return
		}
		if _, err := broker.New(c.Broker, nil); err != nil {
			t.Errorf("%q was accepted: %v", text, err)
		}
	})
}
