package prices_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/internal/prices"
)

func TestParse(t *testing.T) {
	list, err := prices.Parse("p.yaml", []byte("a: {input: 3, output: 15}\nb: {input: 0.25}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := list["a"].Cost(1_000_000, 200_000); got != 6 {
		t.Errorf("a costs %v, want 6", got)
	}
	if got := list["b"].Cost(4_000_000, 1_000_000); got != 1 {
		t.Errorf("b costs %v, want 1", got)
	}
}

// A model has its own price, or that of its longest prefix. Cached tokens cost as much as other
// input, unless the file has a price for them.
func TestOf(t *testing.T) {
	list, err := prices.Parse("p.yaml", []byte("gpt-5*: {input: 2, output: 8}\ngpt-5.2*: {input: 3, cached: 0.5, output: 15}\ngpt-5: {input: 1}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]int64{"gpt-5": 100, "gpt-5-mini": 2*100 + 8*10, "gpt-5.2-2025-12-11": 3*60 + 20 + 15*10, "claude": 0} {
		price, ok := list.Of(model)
		if got := price.Micros(prices.Tokens{Input: 100, Cached: 40, Output: 10}, 0); got != want || ok != (want > 0) {
			t.Errorf("%s costs %d, %v, want %d", model, got, ok, want)
		}
	}
}

// Invalid prices are refused, with the line if possible.
func TestFaultyPrices(t *testing.T) {
	for text, want := range map[string]string{
		"a: {input: 3}\nb: {inptu: 3}":   `p.yaml:2:5: unknown field "inptu"; expected MODEL`,
		"a: {input: much}":               "p.yaml:1:12: ",
		"a: {input: -1}":                 "p.yaml: a: invalid price -1",
		"a: {output: .nan}":              "p.yaml: a: invalid price NaN",
		"- a":                            "p.yaml:1:1: ",
		"a: {input: 1}\na: {input: 2}":   "p.yaml:2:1: ",
		"a: [":                           "p.yaml:1:",
		strings.Repeat("[", 200) + "x":   "p.yaml: [1:101] too deep",
		"a: {input: 3, output: 1e400}\n": "p.yaml",
	} {
		if list, err := prices.Parse("p.yaml", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.40s: %v, %v, want %s", text, list, err, want)
		}
	}
}

// The default file may be missing, but a named file must exist.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	env := func(name string) string { return map[string]string{"XDG_CONFIG_HOME": dir}[name] }
	if list, err := prices.Load("", env); list != nil || err != nil {
		t.Errorf("%v, %v, want none", list, err)
	}
	if _, err := prices.Load(filepath.Join(dir, "no.yaml"), env); err == nil {
		t.Error("a file that is not there was read")
	}
	if err := os.MkdirAll(filepath.Dir(prices.Path(env)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(prices.Path(env), []byte("a: {input: 1}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := prices.Load("", env); err != nil || list["a"].Input != 1 {
		t.Errorf("%v, %v", list, err)
	}
	nowhere := func(string) string { return "" }
	if list, err := prices.Load("", nowhere); list != nil || err != nil {
		t.Errorf("%v, %v, want none", list, err)
	}
}

// The list that is built in says for each model who says so, and when.
func TestListed(t *testing.T) {
	for model, price := range prices.Listed() {
		if len(price.Sources) < 2 || !regexp.MustCompile(`^20\d\d-\d\d(-\d\d)?$`).MatchString(price.Date) || price.Input <= 0 || price.Output <= 0 {
			t.Errorf("%s: %+v", model, price)
		}
	}
}

// A model may be named with its version. The prices of the user come first, and have no date.
func TestBook(t *testing.T) {
	user, err := prices.Parse("p.yaml", []byte("claude-opus-4*: {input: 7, output: 9, date: 2026-01, above: {tokens: 200000, input: 70, output: 90}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	book := prices.Book{User: user, Listed: prices.Listed()}
	for model, want := range map[string]float64{
		"claude-sonnet-4-5": 3, "claude-sonnet-4-5-20250929": 3, "models/gemini-2.5-pro": 1.25,
		"gpt-4o-2024-08-06": 2.5, "gpt-4o-2024-05-13": 5, "gpt-4o-audio-preview": 0, "claude-sonnet-4-5-fast": 0, "claude-opus-4-1": 7,
		// Other providers, and models of one's own, have other prices.
		"claude-sonnet-4-5@20250929": 0, "us.anthropic.claude-sonnet-4-5-20250929-v1:0": 0, "anthropic/claude-sonnet-4-5": 0, "ft:gpt-4o-mini-2024-07-18:acme::9x": 0,
	} {
		price, ok := book.Of(model)
		if ok != (want > 0) || price.Input != want || (price.Date == "") != (want == 7 || want == 0) {
			t.Errorf("%s: %+v, %v, want %v", model, price, ok, want)
		}
	}
}

// Tokens that were written to a cache, and those of a long input, have their own prices.
func TestMicros(t *testing.T) {
	price, _ := prices.Book{Listed: prices.Listed()}.Of("claude-sonnet-4-5")
	n := prices.Tokens{Input: 1000, Cached: 100, Written: 300, Kept: 200, Output: 10}
	for band, want := range map[int64]int64{
		0:                      600*3 + 30 + 375 + 200*6 + 150,
		128_000:                600*3 + 30 + 375 + 200*6 + 150,
		prices.Band(200_001):   600*6 + 60 + 300*7.5 + 225, // without a price of an hour
		prices.Band(1_000_000): 600*6 + 60 + 300*7.5 + 225,
	} {
		if got := price.Micros(n, band); got != want {
			t.Errorf("above %d: %d, want %d", band, got, want)
		}
	}
	if _, err := prices.Parse("p.yaml", []byte("a: {input: 1, above: {tokens: 5, input: 2}}")); err == nil || !strings.Contains(err.Error(), "above 5 tokens") {
		t.Error(err)
	}
}
