// Package prices computes the cost of tokens. It has the list prices of the usual models. The user
// may keep others in a file, in dollars per million tokens:
//
//	claude-sonnet-4-5: {input: 3, cached: 0.3, output: 15}
//	gpt-5*: {input: 1.25, output: 10}
package prices

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sync"

	"github.com/goccy/go-yaml"

	"github.com/wirectl/wirectl/internal/yamlfile"
)

// A Price is the price of a million tokens, in dollars.
type Price struct {
	Input float64 `yaml:"input"`
	// Cached is the price of input tokens that were read from a cache; nil means Input.
	Cached *float64 `yaml:"cached"`
	// Write is the price of those that were written to a cache, nil means Input; and Write1h of
	// those that it keeps for an hour, nil means Write.
	Write   *float64 `yaml:"write"`
	Write1h *float64 `yaml:"write_1h"`
	Output  float64  `yaml:"output"`
	// Above has the prices of calls whose input has more tokens than one of the Bands.
	Above *Above `yaml:"above"`

	// Date is when the price was on the list, and Sources say so: set in the list that is built in.
	Date    string   `yaml:"date"`
	Sources []string `yaml:"sources"`
}

// Above is the price of calls whose input has more than so many tokens.
type Above struct {
	Tokens int64 `yaml:"tokens"`
	Price  `yaml:",inline"`
}

// Tokens are those of one call. Cached and Written are parts of the input, and Kept is the part of
// Written that the cache keeps for an hour.
type Tokens struct{ Input, Cached, Written, Kept, Output int64 }

// Bands are the sizes of input, in tokens, above which a price may differ. Sums of calls keep each band
// apart.
var Bands = []int64{100_000, 128_000, 200_000, 256_000, 272_000}

// Band returns the largest of the Bands that an input exceeds, or 0.
func Band(input int64) (band int64) {
	for _, n := range Bands {
		if input > n {
			band = n
		}
	}
	return band
}

// Check returns an error if a price is invalid.
func (p Price) Check() error {
	if a := p.Above; a != nil {
		switch err := a.Price.Check(); {
		case err != nil:
			return err
		case a.Above != nil, !slices.Contains(Bands, a.Tokens):
			return fmt.Errorf("a price above %d tokens is not known: want one of %v", a.Tokens, Bands)
		}
	}
	for _, n := range []*float64{&p.Input, p.Cached, p.Write, p.Write1h, &p.Output} {
		if n != nil && !(0 <= *n && *n <= 1e6) { // written so that NaN is refused, too
			return fmt.Errorf("invalid price %v: want dollars per million tokens, from 0 to 1000000", *n)
		}
	}
	return nil
}

// At returns the price of calls whose inputs are in a band.
func (p Price) At(band int64) Price {
	if a := p.Above; a != nil && band >= a.Tokens {
		return a.Price
	}
	return p
}

// Micros returns the cost of calls, in millionths of a dollar. Band is that of their inputs.
func (p Price) Micros(n Tokens, band int64) int64 {
	p = p.At(band)
	or := func(price *float64, other float64) float64 {
		if price != nil {
			return *price
		}
		return other
	}
	cached := min(n.Cached, n.Input)
	written := min(n.Written, n.Input-cached)
	kept := min(n.Kept, written)
	write := or(p.Write, p.Input)
	return int64(math.Round(float64(n.Input-cached-written)*p.Input + float64(cached)*or(p.Cached, p.Input) +
		float64(written-kept)*write + float64(kept)*or(p.Write1h, write) + float64(n.Output)*p.Output))
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
	for n := len(model); n >= 0 && len(l) > 0; n-- {
		if price, ok := l[model[:n]+"*"]; ok {
			return price, true
		}
	}
	return Price{}, false
}

//go:embed list.yaml
var listText []byte

// Listed returns the list prices that are built in: of the provider's own API, at its standard tier.
var Listed = sync.OnceValue(func() List {
	list, err := Parse("list.yaml", listText)
	if err != nil {
		panic(err) // a test reads it
	}
	return list
})

// versionPattern is what may follow the name of a model: its version.
var versionPattern = regexp.MustCompile(`^models/|(-20\d{6}|-20\d\d-\d\d-\d\d|-latest)$`)

// A Book has the prices of the user, and those that are built in.
type Book struct {
	User   List
	Listed List
}

// Of returns the price of a model. It is not listed if it has no date.
func (b Book) Of(model string) (Price, bool) {
	if price, ok := b.User.Of(model); ok {
		price.Date = ""
		return price, true
	}
	if price, ok := b.Listed[model]; ok {
		return price, true
	}
	price, ok := b.Listed[versionPattern.ReplaceAllString(model, "")]
	return price, ok
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

// LoadBook reads the user's prices, as [Load] does, beside those that are built in.
func LoadBook(name string, getenv func(string) string) (Book, error) {
	list, err := Load(name, getenv)
	return Book{list, Listed()}, err
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
