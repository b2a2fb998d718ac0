package index

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/session/query"
)

// Find calls each for the sessions of an organisation that a query is about, newest first,
// but for its words.
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
	rows, err := x.db.QueryContext(ctx, "SELECT info, calls, failures, findings FROM session WHERE "+strings.Join(s.wants, " AND ")+" ORDER BY started DESC, id", s.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		var i hub.Info
		var calls, failures, findings int64
		if err := rows.Scan(&text, &calls, &failures, &findings); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(text), &i); err != nil {
			return err
		}
		i.Calls, i.Failures, i.Findings = &calls, &failures, &findings
		if err := each(&i); err != nil {
			return err
		}
	}
	return rows.Err()
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

// term adds a comparison. Only names that are known become a part of the SQL.
func (s *selection) term(t query.Term) error {
	switch {
	case t.Field == "text":
		return s.selectText(t)
	case slices.Contains(texts, t.Field):
		switch t.Op {
		case "==":
			s.want(t.Field+" = ?", t.Value)
		case "!=":
			s.want(t.Field+" <> ?", t.Value)
		case "~":
			s.want("instr("+t.Field+", ?) > 0", t.Value)
		default:
			return fmt.Errorf("%s is a text: want ==, != or ~ behind it", t.Field)
		}
	case slices.Contains(numbers, t.Field):
		n, err := strconv.ParseFloat(t.Value, 64)
		if err != nil || t.Op == "~" {
			return fmt.Errorf("%s is a number: want such as %[1]s>0", t.Field)
		}
		s.want(t.Field+" "+t.Op+" ?", n) // SQL has the same operators
	case slices.Contains(facts, t.Field):
		const have = "EXISTS (SELECT 1 FROM fact WHERE fact.session = session.n AND what = ? AND "
		switch t.Op {
		case "==":
			s.want(have+"value = ?)", t.Field, t.Value)
		case "!=":
			s.want("NOT "+have+"value = ?)", t.Field, t.Value)
		case "~":
			s.want(have+"instr(value, ?) > 0)", t.Field, t.Value)
		default:
			return fmt.Errorf("%s is a text: want ==, != or ~ behind it", t.Field)
		}
	default:
		return fmt.Errorf("a session has no field %q", t.Field)
	}
	return nil
}

// selectText adds a comparison with what a session says. All words are in one passage; with ~
// they may go on.
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
		return fmt.Errorf("no word is in %q: want text~WORD", t.Value)
	case t.Op == "!=":
		in = "NOT IN"
	case t.Op != "==" && t.Op != "~":
		return fmt.Errorf("text is a text: want ==, != or ~ behind it")
	}
	s.want("n "+in+" (SELECT session FROM passage WHERE n IN (SELECT rowid FROM words WHERE words MATCH ?))", strings.Join(match, " AND "))
	return nil
}
