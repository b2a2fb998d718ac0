package wrap

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/wirectl/wirectl/internal/yamlfile"
)

// A yamlReader collects the entries of a configuration in YAML.
type yamlReader struct {
	text  []byte
	lines []int // where each line begins
	found []*entry
}

// readYAML reads the configuration of Goose: the members of extensions.
func readYAML(config []byte) ([]*entry, error) {
	if err := yamlfile.Check(config); err != nil {
		return nil, err
	}
	if !utf8.Valid(config) || bytes.HasPrefix(config, []byte("\ufeff")) {
		return nil, errors.New("it is not UTF-8, or begins with a byte order mark")
	}
	r := &yamlReader{text: config}
	// The parser miscounts positions if lines end in blanks or CR.
	var trimmed []byte
	at := 0
	for line := range bytes.Lines(config) {
		r.lines = append(r.lines, at)
		at += len(line)
		trimmed = append(append(trimmed, bytes.TrimRight(line, " \t\r\n")...), '\n')
	}
	file, err := parser.ParseBytes(trimmed, 0)
	if err != nil {
		return nil, err
	}
	for _, doc := range file.Docs {
		for _, m := range yamlfile.Pairs(doc.Body) {
			if key(m) == "extensions" {
				r.readServers(m.Value, newline(config))
			}
		}
	}
	return r.found, nil
}

func key(m *ast.MappingValueNode) string {
	if s, ok := m.Key.(*ast.StringNode); ok {
		return s.Value
	}
	return ""
}

func (r *yamlReader) readServers(list ast.Node, newline string) {
	for _, m := range yamlfile.Pairs(list) {
		e := &entry{name: key(m), text: r.text}
		r.found = append(r.found, e)
		flow := false
		if n, ok := m.Value.(*ast.MappingNode); ok {
			flow = n.IsFlowStyle
		}
		for _, m := range yamlfile.Pairs(m.Value) {
			r.readMember(e, m, flow, newline)
		}
	}
}

func (r *yamlReader) readMember(e *entry, m *ast.MappingValueNode, flow bool, newline string) {
	between := ", "
	if !flow {
		between = newline + r.indent(m.Key.GetToken())
	}
	from, _ := r.offset(m.Key.GetToken())
	to, known := r.endOf(m.Value)
	e.addSlot(&goose, key(m), span{from, to}, between, known)
	if !isEmpty(m.Value) || key(m) != "envs" && key(m) != "env_keys" { // headers are made with these
		e.members = append(e.members, member{key: key(m)})
	}
	switch key(m) {
	case "cmd":
		e.twice = e.twice || e.command.span != span{}
		if v, ok := r.value(m.Value); ok && v.string {
			e.command = v
		}
		e.begins = between + "args: [ "
	case "args":
		e.twice = e.twice || e.hasArgs
		r.readArgs(e, m, newline)
	case "uri", "url":
		if s, ok := m.Value.(*ast.StringNode); ok {
			e.remote, e.url = true, s.Value
		}
	case "headers":
		e.headers = stringsIn(m.Value)
		for _, v := range e.headers {
			e.scattered = e.scattered || strings.Contains(v, "$") // Goose replaces variables
		}
	case "envs":
		e.env = stringsIn(m.Value)
	}
}

// isEmpty reports whether a node is an empty list or mapping.
func isEmpty(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.MappingNode:
		return len(n.Values) == 0
	case *ast.SequenceNode:
		return len(n.Values) == 0
	}
	return false
}

// stringsIn returns a mapping whose members are all strings; nil for any other node.
func stringsIn(n ast.Node) map[string]string {
	if len(yamlfile.Pairs(n)) == 0 && !isEmpty(n) {
		return nil
	}
	found := map[string]string{}
	for _, m := range yamlfile.Pairs(n) {
		s, ok := m.Value.(*ast.StringNode)
		if !ok || key(m) == "" {
			return nil
		}
		found[key(m)] = s.Value
	}
	return found
}

// endOf returns the end of a value, if the value is simple.
func (r *yamlReader) endOf(n ast.Node) (int, bool) {
	var last *token.Token
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return r.endOf(n.Values[len(n.Values)-1].Value)
		}
		last = n.End
	case *ast.MappingValueNode:
		return r.endOf(n.Value)
	case *ast.SequenceNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return r.endOf(n.Values[len(n.Values)-1])
		}
		last = n.End
	default:
		v, ok := r.value(n)
		return v.to, ok && !v.fixed
	}
	at, ok := r.offset(last)
	return at + 1, ok
}

func (r *yamlReader) readArgs(e *entry, m *ast.MappingValueNode, newline string) {
	list, ok := m.Value.(*ast.SequenceNode)
	if !ok {
		e.oddArgs = true
		return
	}
	e.hasArgs, e.args = true, nil
	for _, n := range list.Values {
		v, ok := r.value(n)
		e.args, e.oddArgs = append(e.args, v), e.oddArgs || !ok
	}
	switch from, open := r.offset(list.Start); {
	case e.oddArgs || !open:
		e.oddArgs = true
	case list.IsFlowStyle:
		to, closed := r.offset(list.End)
		e.list, e.oddArgs = span{from, to + 1}, !closed
	default:
		// The span starts after the colon, so that the list can become empty.
		colon, ok := r.offset(m.Start)
		indent := r.indent(list.Start)
		e.list, e.item = span{colon + 1, e.args[len(e.args)-1].to}, newline+indent+"- "
		e.oddArgs = !ok || strings.Trim(indent, " ") != ""
	}
}

// offset returns the position of a token, and whether the token was found there.
func (r *yamlReader) offset(t *token.Token) (int, bool) {
	if t == nil || t.Position.Line < 1 || t.Position.Line > len(r.lines) {
		return 0, false
	}
	at := r.lines[t.Position.Line-1]
	for range t.Position.Column - 1 {
		_, size := utf8.DecodeRune(r.text[at:])
		at += size
	}
	ok := bytes.HasPrefix(r.text[at:], []byte(t.Value))
	switch t.Type {
	case token.DoubleQuoteType:
		ok = bytes.HasPrefix(r.text[at:], []byte(`"`))
	case token.SingleQuoteType:
		ok = bytes.HasPrefix(r.text[at:], []byte(`'`))
	}
	return at, ok
}

// indent returns the text before a token on its line.
func (r *yamlReader) indent(t *token.Token) string {
	at, _ := r.offset(t)
	return string(r.text[bytes.LastIndexByte(r.text[:at], '\n')+1 : at])
}

// value returns a value that is on one line.
func (r *yamlReader) value(n ast.Node) (v value, ok bool) {
	scalar, isScalar := n.(ast.ScalarNode)
	if !isScalar {
		return v, false
	}
	t := n.GetToken()
	from, ok := r.offset(t)
	if !ok {
		return v, false
	}
	if s, isString := scalar.(*ast.StringNode); isString {
		v.string, v.text = true, s.Value
	}
	length := len(t.Value)
	switch t.Type {
	case token.DoubleQuoteType, token.SingleQuoteType:
		length = quotedLength(r.text[from:])
	default:
		v.fixed = strings.ContainsAny(t.Value, ",[]{}#\"'\n") || strings.Contains(t.Value, ": ")
	}
	v.span = span{from, from + length}
	return v, length > 0
}

// quotedLength returns the length of the quoted string at the start of a text; 0 if it does not
// end on the same line.
func quotedLength(text []byte) int {
	quote := text[0]
	for i := 1; i < len(text) && text[i] != '\n'; i++ {
		switch {
		case text[i] == '\\' && quote == '"':
			i++
		case text[i] == quote && quote == '\'' && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return 0
}
