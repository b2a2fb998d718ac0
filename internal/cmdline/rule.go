package cmdline

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// A Rule says that each of some flags needs one of others, or excludes all of them. In it,
// "as unit" is a flag with that value, and "log FILE" one with any.
type Rule struct {
	Flags    string // separated by blanks
	Excludes bool
	Others   []string
	Message  string // "" is the usual one
}

// Because returns the rule with a message of its own.
func (r Rule) Because(message string) Rule {
	r.Message = message
	return r
}

// Check returns an error of usage if the flags break the rule.
func (r Rule) Check(c *cli.Context) error {
	at := slices.IndexFunc(r.Others, func(other string) bool { return isGiven(c, other) })
	for _, flag := range strings.Fields(r.Flags) {
		switch {
		case !isGiven(c, flag) || r.Excludes == (at < 0):
		case r.Message != "":
			return Errorf("%s", r.Message)
		case r.Excludes:
			return Errorf("give either --%s or --%s, not both", flag, r.Others[at])
		default:
			return Errorf("--%s needs --%s", flag, r.Others[0])
		}
	}
	return nil
}

// isGiven reports whether a flag of a rule is set, and not to a value that turns it off.
func isGiven(c *cli.Context, flag string) bool {
	name, want, _ := strings.Cut(flag, " ")
	return c.IsSet(name) && !reflect.ValueOf(c.Value(name)).IsZero() && (want == fmt.Sprint(c.Value(name)) || want == strings.ToUpper(want))
}

// TimeOf returns the time in a flag: a duration before now, or a date that may have a time of day;
// zero if it is not given.
func TimeOf(c *cli.Context, flag string) (time.Time, error) {
	text := c.String(flag)
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return time.Now().Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, Errorf("invalid --%s %q: want a duration such as 2h, a date such as 2026-01-31, or 2026-01-31T18:00", flag, text)
}
