package index

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/session/query"
)

// Find calls each for the sessions of an organisation that match a query, newest first. It
// ignores the words of the query.
func (x *Index) Find(ctx context.Context, org string, q *hub.Query, each func(*hub.Info) error) error {
	s := selection{}
	s.want("org = ?", org)
	s.want("info <> ''")
	if !q.Since.IsZero() {
		s.want("(ended = 0 OR ended >= ?)", q.Since.UnixNano())
	}
	if !q.Until.IsZero() {
		s.want("started <= ?", q.Until.UnixNano())
	}
	if q.Where != "" {
		where, err := query.Parse(q.Where, hub.Fields)
		if err != nil {
			return err
		}
		for _, t := range where.Terms() {
			if err := s.term(t); err != nil {
				return err
			}
		}
	}
	return eachRow(ctx, x.db, func(row *sql.Rows) error {
		var text string
		var i hub.Info
		var frames, calls, failures, findings int64
		if err := row.Scan(&text, &frames, &calls, &failures, &findings); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(text), &i); err != nil {
			return err
		}
		i.Frames, i.Calls, i.Failures, i.Findings = frames, &calls, &failures, &findings // up to now, unlike the summary's
		return each(&i)
	}, "SELECT info, frames, calls, failures, findings FROM session WHERE "+strings.Join(s.wants, " AND ")+" ORDER BY started DESC, id", s.args...)
}

// A selection is a condition in SQL.
type selection struct {
	wants []string
	args  []any
}

func (s *selection) want(sql string, args ...any) {
	s.wants = append(s.wants, sql)
	s.args = append(s.args, args...)
}

// Columns of a session, by the names of their fields.
var (
	texts   = []string{"id", "host", "kind", "name", "controller", "unit", "level", "policy"}
	numbers = []string{"frames", "bytes", "lost", "calls", "failures", "findings"}
	facts   = []string{protocolFact, requestFact, toolFact, modelFact, outcomeFact, findingFact}
)

// comparisons are the operators of texts, in SQL.
var comparisons = map[string]string{"==": "%s = ?", "!=": "%s <> ?", "~": "instr(%s, ?) > 0"}

// term adds a comparison. Only known names become part of the SQL.
func (s *selection) term(t query.Term) error {
	isFact := slices.Contains(facts, t.Field)
	switch {
	case t.Field == "text":
		return s.selectText(t)
	case isFact, slices.Contains(texts, t.Field):
		column, before, after, args := t.Field, "", "", []any{t.Value}
		if isFact {
			column, before, after, args = "value", "EXISTS (SELECT 1 FROM fact WHERE fact.session = session.n AND what = ? AND ", ")", []any{t.Field, t.Value}
			if t.Op == "!=" { // of which it has none, rather than another one
				before, t.Op = "NOT "+before, "=="
			}
		}
		comparison, ok := comparisons[t.Op]
		if !ok {
			return fmt.Errorf("%s is text: use ==, != or ~ with it", t.Field)
		}
		s.want(before+fmt.Sprintf(comparison, column)+after, args...)
	case slices.Contains(numbers, t.Field):
		n, err := strconv.ParseFloat(t.Value, 64)
		if err != nil || t.Op == "~" {
			return fmt.Errorf("%s is a number: want a comparison such as %[1]s>0", t.Field)
		}
		s.want(t.Field+" "+t.Op+" ?", n) // SQL has the same operators
	default:
		return fmt.Errorf("a session has no field %q", t.Field)
	}
	return nil
}

// selectText adds a comparison with the words of a session. One passage must have all of
// them; with ~, they may be the beginnings of words.
func (s *selection) selectText(t query.Term) error {
	var match []string
	for word := range words([]byte(t.Value)) {
		one := `"` + string(word) + `"`
		if t.Op == "~" {
			one += "*"
		}
		match = append(match, one)
	}
	in := "IN"
	switch {
	case len(match) == 0:
		return fmt.Errorf("no word in %q: want text~WORD", t.Value)
	case t.Op == "!=":
		in = "NOT IN"
	case t.Op != "==" && t.Op != "~":
		return fmt.Errorf("the field text takes ==, != or ~")
	}
	s.want("n "+in+" (SELECT session FROM passage WHERE n IN (SELECT rowid FROM words WHERE words MATCH ?))", strings.Join(match, " AND "))
	return nil
}
