package shrink

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
	"github.com/wirectl/wirectl/session/lint"
	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/table"
)

// A Keep is what a session must show.
type Keep struct {
	text             string
	finding, outcome string
	filter           *query.JQ
	unknown          string // what a filter asks for and calls do not have
}

// String returns the text that was parsed.
func (k *Keep) String() string { return k.text }

// ParseKeep reads finding:NAME, outcome:NAME or jq:EXPR.
func ParseKeep(text string) (*Keep, error) {
	form, name, _ := strings.Cut(text, ":")
	k := &Keep{text: text}
	var err error
	switch form {
	case "finding":
		if k.finding = name; !slices.Contains(findings(), name) {
			return nil, fmt.Errorf("finding %q: there is none of this name%s; docs/findings.md lists them", name, nearest.Question(name, findings()))
		}
	case "outcome":
		k.outcome, err = named("outcome", name, session.Outcomes())
	case "jq":
		if strings.TrimSpace(name) == "" {
			return nil, fmt.Errorf("%q lacks the expression after the colon", text)
		}
		k.filter, err = query.CompileJQ(name, nil)
		k.unknown = unknownField(name)
	default:
		var whole []string
		for _, known := range findings() {
			whole = append(whole, "finding:"+known)
		}
		for _, known := range session.Outcomes() {
			whole = append(whole, "outcome:"+known)
		}
		meant := nearest.Question(text, whole)
		for _, one := range whole {
			if strings.HasSuffix(one, ":"+text) {
				meant = " (did you mean " + one + "?)"
			}
		}
		err = fmt.Errorf("%q: want finding:NAME, outcome:NAME or jq:EXPR%s", text, meant)
	}
	return k, err
}

func named(kind, name string, all []string) (string, error) {
	return nearest.Named(kind, name, all, func(one string) string { return one })
}

// findings are the names of findings that one session can have without options.
func findings() (names []string) {
	for _, r := range session.Findings {
		names = append(names, r.Name)
	}
	for _, r := range lint.Safeties {
		names = append(names, r.Name)
	}
	return names
}

var field = regexp.MustCompile(`(?:^|[^\w.\])"?])\.([a-z_]+)`)

// unknownField is a remark on the first field in a filter that calls do not have; "" if there is none.
func unknownField(expr string) string {
	for _, found := range field.FindAllStringSubmatch(expr, -1) {
		if meant := nearest.Question(found[1], calls.Keys); meant != "" && !slices.Contains(calls.Keys, found[1]) {
			return fmt.Sprintf("calls have no field %q%s", found[1], meant)
		}
	}
	return ""
}

// A verdict is what is known about a session.
type verdict struct {
	calls    []*calls.Call
	findings []session.Finding
}

// seen returns what of a session is as wanted: the kinds and names of calls, or of a finding. In a
// session that goes on, calls that are open do not count.
func (k *Keep) seen(ctx context.Context, v *verdict, goesOn bool) (found []string) {
	if k.finding != "" {
		if slices.ContainsFunc(v.findings, func(f session.Finding) bool { return f.Name == k.finding }) {
			found = append(found, k.finding)
		}
		return found
	}
	for _, c := range v.calls {
		if goesOn && c.Outcome == session.Open {
			continue
		}
		if k.outcome == c.Outcome.String() || k.filter != nil && k.holds(ctx, c) {
			found = append(found, strings.TrimSpace(c.Kind+" "+c.Name))
		}
	}
	return found
}

// results returns what the filter says of a call.
func (k *Keep) results(ctx context.Context, c *calls.Call) ([]byte, error) {
	var object bytes.Buffer
	if err := table.Write(table.Output{To: &object, Form: table.AsNDJSON}, calls.Columns, []calls.Call{*c}); err != nil {
		return nil, err
	}
	return k.filter.Append(ctx, nil, object.Bytes())
}

// complaint is the error of the filter, if it fails for all calls; "" otherwise.
func (k *Keep) complaint(ctx context.Context, v *verdict) (text string) {
	for _, c := range v.calls {
		if k.filter == nil {
			return ""
		}
		_, err := k.results(ctx, c)
		if err == nil {
			return ""
		}
		text = err.Error()
	}
	return text
}

// holds reports whether the filter has a result for a call that is neither false nor null.
func (k *Keep) holds(ctx context.Context, c *calls.Call) bool {
	results, err := k.results(ctx, c)
	if err != nil {
		return false // as for an object that the filter does not fit
	}
	for line := range bytes.Lines(results) {
		if text := string(bytes.TrimSpace(line)); text != "false" && text != "null" {
			return true
		}
	}
	return false
}
