package fault

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/session/query"
)

// A SyntaxError says where and why a rule is invalid.
type SyntaxError struct {
	Column int // of the character that cannot be, from 1
	Msg    string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("column %d: %s", e.Column, e.Msg) }

// Parse reads a rule:
//
//	ACTION [ARGUMENT] [nth N | every N] [limit N] [chance P] [when CONDITION]
//
// The condition is in the language of --where, on [Fields]. The error is a
// [*SyntaxError].
func Parse(text string) (Rule, error) {
	p := parser{text: text}
	return p.rule()
}

// A parser reads words.
type parser struct {
	text string
	at   int // after the current word
	from int // where the current word begins
	word string
}

// nextWord moves to the next word.
func (p *parser) nextWord() bool {
	p.from = p.at + len(p.text[p.at:]) - len(strings.TrimLeft(p.text[p.at:], " \t\r\n"))
	end := strings.IndexAny(p.text[p.from:], " \t\r\n")
	if end < 0 {
		end = len(p.text) - p.from
	}
	p.at = p.from + end
	p.word = p.text[p.from:p.at]
	return p.word != ""
}

func (p *parser) fail(format string, args ...any) error {
	return &SyntaxError{len([]rune(p.text[:p.from])) + 1, fmt.Sprintf(format, args...)}
}

func (p *parser) rule() (r Rule, err error) {
	p.nextWord()
	i, err := p.action()
	if err != nil {
		return r, err
	}
	a := actions[i]
	r.Action, r.N = a.action, a.initial
	more := p.nextWord()
	if a.takes != none && more && isArgument(p.word) {
		if err := p.argument(&r, a.takes, a.least); err != nil {
			return r, err
		}
		more = p.nextWord()
	} else if !a.optional {
		return r, p.fail("%s needs a duration, such as 200ms", a.action)
	}
	for ; more; more = p.nextWord() {
		if p.word == "when" {
			return r, p.when(&r)
		}
		if err := p.clause(&r); err != nil {
			return r, err
		}
	}
	if r.Nth > 0 && r.Every > 0 {
		return r, p.fail("nth and every exclude each other")
	}
	return r, nil
}

// isArgument reports whether a word is what follows an action, not a clause.
func isArgument(word string) bool {
	return word[0] >= '0' && word[0] <= '9' || word[0] == '-' || word[0] == '.'
}

func (p *parser) action() (int, error) {
	var names []string
	for i, a := range actions {
		if string(a.action) == p.word {
			return i, nil
		}
		names = append(names, string(a.action))
	}
	return 0, p.fail("a rule begins with one of %s, not with %q%s", strings.Join(names, ", "), p.word, nearest.Question(p.word, names))
}

func (p *parser) argument(r *Rule, takes argument, least int) (err error) {
	if takes == duration {
		if r.For, err = time.ParseDuration(p.word); err != nil || r.For < 0 {
			return p.fail("invalid duration %q: want one such as 200ms", p.word)
		}
		return nil
	}
	if r.N, err = strconv.Atoi(p.word); err != nil || r.N < least {
		return p.fail("%s takes a number from %d; got %q", r.Action, least, p.word)
	}
	return nil
}

// clause reads a word that says how often, and its value.
func (p *parser) clause(r *Rule) error {
	name := p.word
	counts := map[string]*int64{"nth": &r.Nth, "every": &r.Every, "limit": &r.Limit}
	n, ok := counts[name]
	if !ok && name != "chance" {
		clauses := []string{"nth", "every", "limit", "chance", "when"}
		return p.fail("unknown clause %q: want %s%s", name, strings.Join(clauses, ", "), nearest.Question(name, clauses))
	}
	if ok && *n != 0 || !ok && r.Chance != 0 {
		return p.fail("duplicate clause %s", name)
	}
	if !p.nextWord() {
		return p.fail("%s needs a number", name)
	}
	var err error
	if !ok {
		if r.Chance, err = probability(p.word); err != nil {
			return p.fail("invalid probability %q: want one such as 0.1 or 10%%", p.word)
		}
		return nil
	}
	if *n, err = strconv.ParseInt(p.word, 10, 64); err != nil || *n < 1 {
		return p.fail("%s takes a number from 1; got %q", name, p.word)
	}
	return nil
}

func probability(word string) (float64, error) {
	digits, percent := strings.CutSuffix(word, "%")
	c, err := strconv.ParseFloat(digits, 64)
	if percent {
		c /= 100
	}
	if err == nil && !(c > 0 && c <= 1) {
		err = errors.New("out of range")
	}
	return c, err
}

// when reads the rest as a condition.
func (p *parser) when(r *Rule) (err error) {
	condition := p.text[p.at:]
	r.When, err = query.Parse(condition, Fields)
	if syntax, ok := errors.AsType[*query.SyntaxError](err); ok {
		return &SyntaxError{len([]rune(p.text[:p.at])) + syntax.Column, syntax.Msg}
	}
	return err
}
