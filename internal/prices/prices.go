// Package prices computes the cost of tokens. The user keeps the prices of models in a file, in
// dollars per million tokens:
//
//	claude-sonnet-4-5: {input: 3, cached: 0.3, output: 15}
//	gpt-5*: {input: 1.25, output: 10}
package prices

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/goccy/go-yaml"

	"github.com/wirectl/wirectl/internal/yamlfile"
)

// A Price is the price of a million tokens, in dollars.
type Price struct {
	Input float64 `yaml:"input"`
	// Cached is the price of input tokens that were read from a cache; nil means Input.
	Cached *float64 `yaml:"cached"`
	Output float64  `yaml:"output"`
}

// Check returns an error if a price is invalid.
func (p Price) Check() error {
	for _, n := range []float64{p.Input, p.cached(), p.Output} {
		if !(0 <= n && n <= 1e6) { // written so that NaN is refused, too
			return fmt.Errorf("invalid price %v: want dollars per million tokens, from 0 to 1000000", n)
		}
	}
	return nil
}

func (p Price) cached() float64 {
	if p.Cached == nil {
		return p.Input
	}
	return *p.Cached
}

// Micros returns the cost of tokens, in millionths of a dollar. Cached tokens are part of the
// input.
func (p Price) Micros(input, cached, output int64) int64 {
	cached = min(cached, input)
	return int64(math.Round(float64(input-cached)*p.Input + float64(cached)*p.cached() + float64(output)*p.Output))
}

// Cost returns the cost of tokens, in dollars.
func (p Price) Cost(input, output int64) float64 {
	return (float64(input)*p.Input + float64(output)*p.Output) / 1e6
}

// A List maps names of models to prices. A name that ends with * is a prefix. It applies to
// models that have neither a price of their own nor a longer prefix.
type List map[string]Price

// Of returns the price of a model.
func (l List) Of(model string) (Price, bool) {
	if price, ok := l[model]; ok {
		return price, true
	}
	for n := len(model); n >= 0; n-- {
		if price, ok := l[model[:n]+"*"]; ok {
			return price, true
		}
	}
	return Price{}, false
}

// Path returns the default file of the user's prices: wirectl/prices.yaml in the folder for
// configurations. It is "" if that folder is unknown.
func Path(getenv func(string) string) string {
	base := getenv("XDG_CONFIG_HOME")
	switch home := getenv("HOME"); {
	case filepath.IsAbs(base):
	case runtime.GOOS == "windows":
		base = getenv("AppData")
	case runtime.GOOS == "darwin":
		base = filepath.Join(home, "Library", "Application Support")
	default:
		base = filepath.Join(home, ".config")
	}
	if !filepath.IsAbs(base) {
		return ""
	}
	return filepath.Join(base, "wirectl", "prices.yaml")
}

// Load reads a price file. If name is "", it reads the user's prices, whose file may be
// missing.
func Load(name string, getenv func(string) string) (List, error) {
	if name != "" {
		return read(name)
	}
	path := Path(getenv)
	if path == "" {
		return nil, nil
	}
	list, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return list, err
}

func read(name string) (List, error) {
	data, err := yamlfile.Read(name)
	if err != nil {
		return nil, err
	}
	return Parse(name, data)
}

// Parse parses prices strictly. The name is for errors.
func Parse(name string, data []byte) (List, error) {
	if err := yamlfile.Check(data); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var list List
	if err := yaml.UnmarshalWithOptions(data, &list, yaml.Strict()); err != nil {
		msg, line, column := yamlfile.Explain(err)
		if line == 0 {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return nil, fmt.Errorf("%s:%d:%d: %s; expected MODEL: {input: DOLLARS, cached: DOLLARS, output: DOLLARS}, per million tokens", name, line, column, msg)
	}
	for _, model := range slices.Sorted(maps.Keys(list)) {
		if err := list[model].Check(); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", name, model, err)
		}
	}
	return list, nil
}
