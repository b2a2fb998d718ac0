// Package spec tests how agents behave: a spec is a file that names a session, or a command that is run afresh, and says what
// is expected of it in the words of its user: which tools are called, how it ends, what it costs.
package spec

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/internal/yamlfile"
	"github.com/wirectl/wirectl/rlm/tool"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/lint"
	"github.com/wirectl/wirectl/session/query"
)

// A Spec says what is expected of a session.
type Spec struct {
	File    string
	Session string   // that is judged; "" if Command makes one
	Command []string // of an agent
	Replay  string   // the run that the command plays again; "" for none
	Flags   []string // of wirectl run or replay
	Folder  string   // where the command runs
	Timeout time.Duration

	checks []check
	status bool // it expects a status
}

// A check is an expectation. It returns what differs from it, a sentence each.
type check struct {
	key   string
	line  int
	judge func(ctx context.Context, r *Reader, t *Trace) ([]string, error)
}

// An Error says what is wrong with a spec, and where.
type Error struct {
	File         string
	Line, Column int // 0 if it is the whole file
	Msg          string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Msg
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Msg)
}

// maxResults bounds the results of a filter that are judged.
const maxResults = 100

// usualTimeout is how long a command may run.
const usualTimeout = 10 * time.Minute

// Read reads a spec.
func Read(file string) (*Spec, error) {
	data, err := yamlfile.Read(file)
	if err != nil {
		return nil, err
	}
	return Parse(file, data)
}

// Parse reads the text of a spec. Paths in it are relative to its folder.
func Parse(file string, data []byte) (*Spec, error) {
	s := &Spec{File: file, Timeout: usualTimeout, Folder: filepath.Dir(file)}
	data = bytes.TrimPrefix(data, []byte("\uFEFF")) // which some editors write
	if bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data) {
		return nil, &Error{File: file, Msg: "is no YAML" + recordHint(file)}
	}
	err := yamlfile.Check(data)
	var doc *ast.File
	if err == nil {
		doc, err = parser.ParseBytes(data, 0)
	}
	switch {
	case err != nil:
		e := &Error{File: file}
		e.Msg, e.Line, e.Column = yamlfile.Explain(err)
		return nil, e
	case len(doc.Docs) == 0 || doc.Docs[0].Body == nil || doc.Docs[0].Body.Type() == ast.NullType:
		return nil, &Error{File: file, Msg: "is empty: name a session, or a command to run, and what is expected; wirectl test --record SESSION writes a spec"}
	case len(doc.Docs) > 1:
		return nil, s.wrongAt(doc.Docs[1].Start, "a second document: write one spec per file")
	}
	body := doc.Docs[0].Body
	v := &aliases{s: s}
	if ast.Walk(v, body); v.err != nil {
		return nil, v.err
	}
	if err := s.read(body); err != nil {
		return nil, err
	}
	switch {
	case s.Session == "" && s.Command == nil && s.Replay != "":
		return nil, &Error{File: file, Msg: "replay needs run, with the command of the agent that plays the record again"}
	case s.Session == "" && s.Command == nil:
		return nil, &Error{File: file, Msg: "names nothing to judge: give session (a capture, run:ID, the folder of a run), or run with a command"}
	case s.Session != "" && s.Command != nil:
		return nil, &Error{File: file, Msg: "has both session and run: a spec judges a recorded session, or a command that is run afresh"}
	case len(s.checks) == 0:
		return nil, &Error{File: file, Msg: "expects nothing: add one of " + strings.Join(expectations, ", ")}
	}
	if s.Session != "" && (s.Flags != nil || s.Replay != "") {
		return nil, &Error{File: file, Msg: "flags and replay are for a command: a session is judged as it is"}
	}
	if s.Session != "" {
		s.Session = s.path(s.Session)
	}
	if s.Replay != "" {
		s.Replay = s.path(s.Replay)
		if whole, err := filepath.Abs(s.Replay); err == nil && !source.IsRun(s.Replay) { // the command runs elsewhere
			s.Replay = whole
		}
	}
	if s.Replay != "" {
		s.expect(nil, "replay", func(t *Trace) []string {
			if t.left != "" {
				return []string{"expected what the record has; " + t.left}
			}
			return nil
		})
	}
	if s.Command != nil && !s.status {
		s.expectStatus(nil, 0)
	}
	return s, nil
}

// aliases refuses what makes a short file long.
type aliases struct {
	s   *Spec
	err error
}

func (v *aliases) Visit(n ast.Node) ast.Visitor {
	switch n.(type) {
	case *ast.AliasNode, *ast.AnchorNode, *ast.MergeKeyNode:
		if v.err == nil {
			v.err = v.s.wrongAt(n.GetToken(), "specs have no anchors (&), aliases (*) and merges (<<): write the value out")
		}
	}
	return v
}

func (s *Spec) wrongAt(at *token.Token, format string, args ...any) error {
	e := &Error{File: s.File, Msg: fmt.Sprintf(format, args...)}
	if at != nil && at.Position != nil {
		e.Line, e.Column = at.Position.Line, at.Position.Column
	}
	return e
}

// path returns the name of a session as its file has it: a path from the folder of the spec, or a name such as run:ID.
func (s *Spec) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	beside := filepath.Join(filepath.Dir(s.File), filepath.FromSlash(name))
	if _, err := os.Lstat(beside); err != nil && (strings.Contains(name, ":") || history.IsID(name)) {
		return name
	}
	return beside
}

// A key is what may be in a mapping.
type key struct {
	name string
	read func(k *token.Token, v ast.Node) error
}

// mapping reads the values of a mapping by their keys.
func (s *Spec) mapping(of string, node ast.Node, keys []key) error {
	pairs := yamlfile.Pairs(node)
	var names []string
	for _, k := range keys {
		names = append(names, k.name)
	}
	if pairs == nil {
		return s.wrongAt(node.GetToken(), "%s: want keys below it, of %s", of, strings.Join(names, ", "))
	}
	for _, pair := range pairs {
		at := pair.Key.GetToken()
		i := slices.IndexFunc(keys, func(k key) bool { return k.name == at.Value })
		if i < 0 {
			return s.wrongAt(at, "unknown key %q%s", at.Value, s.meant(at.Value, names))
		}
		if pair.Value == nil || pair.Value.Type() == ast.NullType {
			return s.wrongAt(at, "%s has no value", at.Value)
		}
		if err := keys[i].read(at, pair.Value); err != nil {
			return err
		}
	}
	return nil
}

// meant says which key was probably meant, or where the key belongs.
func (s *Spec) meant(typed string, names []string) string {
	if q := nearest.Question(typed, names); q != "" {
		return q
	}
	if other, ok := elsewhere[typed]; ok && !slices.Contains(names, strings.Fields(other)[0]+"!") {
		return ": " + other
	}
	return "; there are " + strings.Join(names, ", ")
}

// elsewhere are words that people may write in another place.
var elsewhere = map[string]string{
	"called": "it belongs under tools", "in_order": "it belongs under tools", "exactly": "it belongs under tools", "at_least": "it belongs under tools",
	"never": "it belongs under tools", "at_most": "it belongs under tools, findings, tokens, cost or time", "jq": "it belongs under arguments, below the name of a tool",
	"schema": "it belongs under arguments, below the name of a tool", "command": "the command is the value of run", "expect": "expectations are at the top of the file",
	"input": "tokens are counted together: {at_most: 5000}", "output": "tokens are counted together: {at_most: 5000}",
}

// commandWords splits a command as a shell would, as far as quotes go.
func commandWords(text string) (words []string) {
	var word strings.Builder
	var quote rune
	isWord := false
	for _, r := range text + " " {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, isWord = r, true
		case quote == 0 && unicode.IsSpace(r):
			if isWord {
				words = append(words, word.String())
				word.Reset()
			}
			isWord = false
		default:
			word.WriteRune(r)
			isWord = true
		}
	}
	if isWord { // the last quote is open
		words = append(words, strings.TrimSuffix(word.String(), " "))
	}
	return words
}

// unknownType returns a type in a JSON Schema that does not exist; "" if all do.
func unknownType(schema any, isNamed bool) (found string) {
	types := []string{"string", "number", "integer", "boolean", "object", "array", "null"}
	switch v := schema.(type) {
	case []any:
		for _, one := range v {
			found = cmp.Or(found, unknownType(one, false))
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			switch list, isList := v[name].([]any); {
			case isNamed || !slices.Contains([]string{"type", "const", "enum", "default", "examples"}, name):
				found = cmp.Or(found, unknownType(v[name], !isNamed && slices.Contains([]string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}, name)))
			case name == "type":
				if !isList {
					list = []any{v[name]}
				}
				for _, one := range list {
					if _, err := nearest.Named("type", fmt.Sprint(one), types, func(name string) string { return name }); err != nil {
						found = cmp.Or(found, err.Error())
					}
				}
			}
		}
	}
	return found
}

// expectations are the keys that expect something.
var expectations = []string{"tools", "arguments", "after_cancel", "outcome", "status", "findings", "tokens", "cost", "time", "trajectory"}

func (s *Spec) read(body ast.Node) error {
	keys := []key{
		{"session", func(k *token.Token, v ast.Node) error { return s.source(k, v, &s.Session) }},
		{"run", func(k *token.Token, v ast.Node) (err error) {
			if text, ok := scalar(v); ok {
				return s.wrongAt(v.GetToken(), "run: want the words of the command in a list, such as %s; a recorded run is a session", flow(commandWords(text)))
			}
			if s.Command, err = s.words(k, v); err == nil && len(s.Command) == 0 {
				err = s.wrongAt(k, "run is empty: want a command, such as [claude, -p, \"fix the test\"]")
			}
			return err
		}},
		{"replay", func(k *token.Token, v ast.Node) error { return s.source(k, v, &s.Replay) }},
		{"flags", func(k *token.Token, v ast.Node) (err error) {
			s.Flags, err = s.words(k, v)
			if err == nil && (len(s.Flags) == 0 || !strings.HasPrefix(s.Flags[0], "-")) {
				err = s.wrongAt(v.GetToken(), "flags: want flags of wirectl run or wirectl replay, such as [--base-url]; those of the agent are in run")
			}
			return err
		}},
		{"folder", func(k *token.Token, v ast.Node) error {
			text, err := s.textOf(k, v)
			if s.Folder = text; !filepath.IsAbs(text) {
				s.Folder = filepath.Join(filepath.Dir(s.File), filepath.FromSlash(text))
			}
			return err
		}},
		{"timeout", func(k *token.Token, v ast.Node) (err error) { s.Timeout, err = s.duration(k, v); return err }},
		{"tools", s.tools},
		{"arguments", s.arguments},
		{"after_cancel", func(k *token.Token, v ast.Node) error {
			if text, err := s.textOf(k, v); err != nil || text != "none" {
				return s.wrongAt(v.GetToken(), "after_cancel: want none: no call goes on or begins after a cancel")
			}
			s.expect(k, "after_cancel", func(t *Trace) (said []string) {
				for _, late := range t.late() {
					said = append(said, "expected nothing after a cancel; "+late)
				}
				return said
			})
			return nil
		}},
		{"outcome", s.outcome},
		{"status", func(k *token.Token, v ast.Node) error {
			n, err := s.number(k, v, 255)
			s.status = true
			s.expectStatus(k, int(n))
			return err
		}},
		{"findings", s.findings},
		{"tokens", s.most(func(k *token.Token, v ast.Node) error {
			most, err := s.number(k, v, 1<<50)
			s.expect(k, "tokens", func(t *Trace) []string {
				if n := t.usage.Input + t.usage.Output; !t.counted {
					return []string{fmt.Sprintf("expected at most %s; the session does not tell how many it used", render.Count(most, "token"))}
				} else if n > most {
					return []string{fmt.Sprintf("expected at most %s; there were %d (%d in, %d out)", render.Count(most, "token"), n, t.usage.Input, t.usage.Output)}
				}
				return nil
			})
			return err
		})},
		{"cost", s.most(func(k *token.Token, v ast.Node) error {
			text, _ := scalar(v)
			most, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSuffix(text, " USD"), "$"), 64)
			if err != nil || !(most >= 0 && most < 1e9) {
				return s.wrongAt(v.GetToken(), "at_most: %q is no amount in dollars: want one such as 0.05", text)
			}
			s.expect(k, "cost", func(t *Trace) []string {
				switch {
				case !t.counted:
					return []string{fmt.Sprintf("expected a cost of at most $%g; the session does not tell what it used", most)}
				case t.unpriced != "":
					return []string{fmt.Sprintf("expected a cost of at most $%g; the price of %s is not known: give --prices FILE", most, t.unpriced)}
				case float64(t.usage.Cost) > most*1e6:
					return []string{fmt.Sprintf("expected a cost of at most $%g; it was $%.6f", most, float64(t.usage.Cost)/1e6)}
				}
				return nil
			})
			return nil
		})},
		{"time", s.most(func(k *token.Token, v ast.Node) error {
			most, err := s.duration(k, v)
			s.expect(k, "time", func(t *Trace) []string {
				switch {
				case t.took < 0:
					return []string{fmt.Sprintf("expected at most %v; the session tells no times", most)}
				case t.took > most:
					return []string{fmt.Sprintf("expected at most %v; it took %v", most, t.took.Round(time.Millisecond))}
				}
				return nil
			})
			return err
		})},
		{"trajectory", s.trajectory},
	}
	if _, isList := body.(*ast.SequenceNode); isList {
		return s.wrongAt(body.GetToken(), "is a list: want keys, such as session: run.pcapng, without a dash in front")
	}
	return s.mapping("the spec", body, keys)
}

// expect adds an expectation. One that nobody has written has no token.
func (s *Spec) expect(k *token.Token, name string, judge func(*Trace) []string) {
	line := 0
	if k != nil {
		line = k.Position.Line
	}
	s.checks = append(s.checks, check{name, line, func(_ context.Context, _ *Reader, t *Trace) ([]string, error) { return judge(t), nil }})
}

func (s *Spec) expectStatus(k *token.Token, want int) {
	s.expect(k, "status", func(t *Trace) []string {
		switch {
		case t.run == nil:
			return []string{fmt.Sprintf("expected the status %d; the session is not that of a run", want)}
		case t.run.Ended.IsZero():
			return []string{fmt.Sprintf("expected the status %d; the end of the run was not recorded", want)}
		case t.run.Status != want:
			return []string{fmt.Sprintf("expected the status %d; the agent ended with %d", want, t.run.Status)}
		}
		return nil
	})
}

// scalar returns the text of a value that is no list and no mapping.
func scalar(v ast.Node) (string, bool) {
	switch n := v.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func (s *Spec) textOf(k *token.Token, v ast.Node) (string, error) {
	text, ok := scalar(v)
	if !ok || text == "" {
		return "", s.wrongAt(v.GetToken(), "%s: want a text", k.Value)
	}
	return text, nil
}

// source reads the name of a session that has ended.
func (s *Spec) source(k *token.Token, v ast.Node, to *string) (err error) {
	if *to, err = s.textOf(k, v); err == nil && (*to == "-" || source.IsTap(*to)) {
		return s.wrongAt(v.GetToken(), "%s: %s may go on, and a spec judges what has ended: name a capture, run:ID or the folder of a run", k.Value, *to)
	}
	return err
}

func (s *Spec) duration(k *token.Token, v ast.Node) (time.Duration, error) {
	text, _ := scalar(v)
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, s.wrongAt(v.GetToken(), "%s: %q is no time: want one such as 30s or 2m", k.Value, text)
	}
	return d, nil
}

func (s *Spec) number(k *token.Token, v ast.Node, most int64) (int64, error) {
	text, _ := scalar(v)
	n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, s.wrongAt(v.GetToken(), "%s: want a whole number from 0, such as 2; got %q", k.Value, text)
	}
	return n, nil
}

// words reads a list of texts.
func (s *Spec) words(k *token.Token, v ast.Node) (list []string, err error) {
	n, ok := v.(*ast.SequenceNode)
	if !ok {
		return nil, s.wrongAt(v.GetToken(), "%s: want a list, such as [first, second]", k.Value)
	}
	list = []string{}
	for _, item := range n.Values {
		text, ok := scalar(item)
		if !ok {
			return nil, s.wrongAt(cmpToken(item, k), "%s: want texts in the list", k.Value)
		}
		list = append(list, text)
	}
	return list, nil
}

func cmpToken(n ast.Node, or *token.Token) *token.Token {
	if n != nil && n.GetToken() != nil {
		return n.GetToken()
	}
	return or
}

// most reads {at_most: …}.
func (s *Spec) most(read func(k *token.Token, v ast.Node) error) func(k *token.Token, v ast.Node) error {
	return func(k *token.Token, v ast.Node) error {
		if text, ok := scalar(v); ok {
			if strings.Trim(text, "0123456789.$smh_") != "" {
				text = "1000"
			}
			return s.wrongAt(v.GetToken(), "%s: want a bound, such as {at_most: %s}", k.Value, text)
		}
		return s.mapping(k.Value, v, []key{{"at_most", read}})
	}
}

// toolName checks the name of a tool, which is no pattern.
func (s *Spec) toolName(at *token.Token, name string) error {
	if name == "" || strings.ContainsAny(name, `*?^$|[](){}\+`) {
		return s.wrongAt(at, "%q is no name of a tool: names are taken literally, without patterns", name)
	}
	return nil
}

// names reads a list of names of tools.
func (s *Spec) names(k *token.Token, v ast.Node, mayBeEmpty bool) ([]string, error) {
	list, err := s.words(k, v)
	if err == nil && len(list) == 0 && !mayBeEmpty {
		err = s.wrongAt(k, "%s is empty: name a tool, or write exactly: [] for none", k.Value)
	}
	for i := 0; err == nil && i < len(list); i++ {
		err = s.toolName(v.(*ast.SequenceNode).Values[i].GetToken(), list[i])
	}
	return list, err
}

func (s *Spec) tools(k *token.Token, v ast.Node) error {
	if text, _ := scalar(v); text == "none" {
		s.expect(k, "tools", func(t *Trace) []string { return exactly(t, nil) })
		return nil
	}
	ofNames := func(judge func(*Trace, []string) []string, mayBeEmpty bool) func(*token.Token, ast.Node) error {
		return func(k *token.Token, v ast.Node) error {
			list, err := s.names(k, v, mayBeEmpty)
			s.expect(k, "tools."+k.Value, func(t *Trace) []string { return judge(t, list) })
			return err
		}
	}
	ofNumbers := func(word string, keeps func(n, bound int64) bool) func(*token.Token, ast.Node) error {
		return func(k *token.Token, v ast.Node) error {
			pairs := yamlfile.Pairs(v)
			if pairs == nil {
				return s.wrongAt(v.GetToken(), "%s: want how often each tool is called, such as {search: 2}", k.Value)
			}
			for _, pair := range pairs {
				name := pair.Key.GetToken()
				bound, err := s.number(name, pair.Value, 1<<40)
				if err == nil {
					err = s.toolName(name, name.Value)
				}
				if err != nil {
					return err
				}
				s.expect(name, "tools."+k.Value, func(t *Trace) []string {
					if n := int64(len(t.of(name.Value))); n <= bound && word == "at most" && t.unseen != "" {
						return []string{t.unseen}
					} else if !keeps(n, bound) {
						return []string{fmt.Sprintf("expected %s %s of %s; there %s%s", word, render.Count(bound, "call"), name.Value, wereCalls(int(n)), t.framesOf(name.Value))}
					}
					return nil
				})
			}
			return nil
		}
	}
	return s.mapping("tools", v, []key{
		{"called", ofNames(called, false)},
		{"in_order", ofNames(inOrder, false)},
		{"exactly", ofNames(exactly, true)},
		{"at_least", ofNumbers("at least", func(n, bound int64) bool { return n >= bound })},
		{"at_most", ofNumbers("at most", func(n, bound int64) bool { return n <= bound })},
		{"never", ofNames(never, false)},
	})
}

func (s *Spec) arguments(k *token.Token, v ast.Node) error {
	pairs := yamlfile.Pairs(v)
	if pairs == nil {
		return s.wrongAt(v.GetToken(), "arguments: want the names of tools, such as {search: {jq: '.q | length > 0'}}")
	}
	for _, pair := range pairs {
		name := pair.Key.GetToken()
		if err := s.toolName(name, name.Value); err != nil {
			return err
		}
		expect := func(k *token.Token, judge func(ctx context.Context, arguments []byte) string) {
			s.checks = append(s.checks, check{"arguments." + name.Value, k.Position.Line, func(ctx context.Context, _ *Reader, t *Trace) ([]string, error) {
				return fit(ctx, t, name.Value, judge), nil
			}})
		}
		err := s.mapping("arguments of "+name.Value, pair.Value, []key{
			{"jq", func(k *token.Token, v ast.Node) error {
				text, err := s.textOf(k, v)
				if err != nil {
					return err
				}
				filter, err := query.CompileJQ(text, nil)
				if err == nil { // one that does not end must not fill the memory
					filter, err = query.CompileJQ(fmt.Sprintf("limit(%d; %s\n)", maxResults, text), nil)
				}
				if err != nil {
					return s.wrongAt(v.GetToken(), "%v", err)
				}
				expect(k, func(ctx context.Context, arguments []byte) string {
					return holds(ctx, filter, strings.TrimSpace(text), arguments)
				})
				return nil
			}},
			{"schema", func(k *token.Token, v ast.Node) error {
				if yamlfile.Pairs(v) == nil {
					return s.wrongAt(v.GetToken(), "schema: want a JSON Schema, such as {required: [q]}")
				}
				var document any
				err := yaml.NodeToValue(v, &document)
				var text []byte
				if wrong := unknownType(document, false); wrong != "" {
					return s.wrongAt(k, "schema: %s", wrong)
				}
				if err == nil {
					text, err = json.Marshal(document)
				}
				var schema *tool.Schema
				if err == nil {
					schema, err = tool.NewSchema(text)
				}
				if err != nil {
					return s.wrongAt(k, "schema: %v", err)
				}
				expect(k, func(_ context.Context, arguments []byte) string {
					if _, err := schema.Match(string(arguments)); err != nil {
						return "expected arguments that match the schema: " + err.Error()
					}
					return ""
				})
				return nil
			}},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Spec) outcome(k *token.Token, v ast.Node) error {
	list, known := []string(nil), session.Outcomes()
	if text, ok := scalar(v); ok {
		list = []string{text}
	} else {
		var err error
		if list, err = s.words(k, v); err != nil {
			return err
		}
	}
	for _, name := range list {
		if !slices.Contains(known, name) {
			return s.wrongAt(v.GetToken(), "unknown outcome %q%s; there are %s", name, nearest.Question(name, known), strings.Join(known, ", "))
		}
	}
	if len(list) == 0 {
		return s.wrongAt(k, "outcome is empty: want one of %s", strings.Join(known, ", "))
	}
	s.expect(k, "outcome", func(t *Trace) []string {
		got, at := t.outcome()
		if slices.Contains(list, got.String()) {
			return nil
		}
		said := fmt.Sprintf("expected %s; it ended as %s", strings.Join(list, " or "), got)
		if at != nil {
			said += ": " + title(at)
			if why := at.Explain(at.Outcome, at.Reason, at.StopReason); why != "" {
				said += ": " + t.brief(why)
			}
		}
		return []string{said}
	})
	return nil
}

func (s *Spec) findings(k *token.Token, v ast.Node) error {
	allow := func(list []string) {
		s.expect(k, "findings", func(t *Trace) []string {
			return t.others(func(f session.Finding) bool { return f.Severity == session.Note || slices.Contains(list, f.Name) })
		})
	}
	if text, ok := scalar(v); ok {
		if text != "none" {
			return s.wrongAt(v.GetToken(), "findings: want none, {at_most: warning}, {at_most: 2}, or the names of those that may be there: [%s]", text)
		}
		allow(nil)
		return nil
	}
	if _, ok := v.(*ast.SequenceNode); ok {
		list, err := s.words(k, v)
		var known []string
		for _, rule := range lint.Rules {
			known = append(known, rule.Name)
		}
		for _, name := range list {
			if err == nil && !slices.Contains(known, name) {
				err = s.wrongAt(v.GetToken(), "unknown finding %q%s; docs/findings.md lists them", name, nearest.Question(name, known))
			}
		}
		allow(list)
		return err
	}
	return s.mapping("findings", v, []key{{"at_most", func(at *token.Token, v ast.Node) error {
		text, _ := scalar(v)
		switch text {
		case session.Note.String():
			allow(nil)
			return nil
		case session.Warning.String():
			s.expect(k, "findings", func(t *Trace) []string {
				return t.others(func(f session.Finding) bool { return f.Severity <= session.Warning })
			})
			return nil
		}
		most, err := s.number(at, v, 1<<40)
		if err != nil {
			return s.wrongAt(v.GetToken(), "at_most: want note, warning, or a number of findings; got %q", text)
		}
		s.expect(k, "findings", func(t *Trace) []string {
			if list := t.others(func(f session.Finding) bool { return f.Severity == session.Note }); int64(len(list)) > most {
				return append([]string{fmt.Sprintf("expected at most %d; there were %d", most, len(list))}, list...)
			}
			return nil
		})
		return nil
	}}})
}

func (s *Spec) trajectory(k *token.Token, v ast.Node) error {
	text, err := s.textOf(k, v)
	name, ok := strings.CutPrefix(text, "same as ")
	if name = strings.TrimSpace(name); err != nil || !ok || name == "" {
		return s.wrongAt(v.GetToken(), "trajectory: want same as FILE, or same as run:ID")
	}
	name = s.path(name)
	s.checks = append(s.checks, check{"trajectory", k.Position.Line, func(ctx context.Context, r *Reader, t *Trace) ([]string, error) {
		other, err := r.Read(ctx, name)
		if err != nil {
			return nil, err
		}
		fork, err := Compare(other, t, r.Ignore, false)
		if fork == nil {
			return nil, err
		}
		return []string{fmt.Sprintf("expected the decisions of %s (A), not others (B); %s\n%s", name, fork.Summary(), strings.Join(fork.Lines(), "\n"))}, nil
	}})
	return nil
}
