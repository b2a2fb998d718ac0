package cmdline

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
)

// CheckText returns an error of usage if text is not UTF-8, which no protocol can carry: JSON
// would change it, and peers of protobuf would not read it.
func CheckText(what, text string) error {
	for i, r := range text {
		if _, size := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && size == 1 {
			return Errorf("%s must be UTF-8: byte %d is %#02x", what, i, text[i])
		}
	}
	return nil
}

// PairsOf returns the values of a flag of the form KEY=VALUE by their keys; nil if there are
// no values.
func PairsOf(c *cli.Context, flag string) (map[string]string, error) {
	var m map[string]string
	for _, pair := range c.StringSlice(flag) {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, Errorf("invalid --%s %q: want KEY=VALUE", flag, pair)
		}
		if err := CheckText("--"+flag, pair); err != nil {
			return nil, err
		}
		if m == nil {
			m = map[string]string{}
		}
		m[key] = value
	}
	return m, nil
}

// WithUnset adds the flags that are not set to err, which may be about them.
func WithUnset(c *cli.Context, err error, flags ...string) error {
	flags = slices.DeleteFunc(flags, c.IsSet)
	if len(flags) == 0 {
		return err
	}
	return fmt.Errorf("%w (not given: --%s)", err, strings.Join(flags, ", --"))
}
