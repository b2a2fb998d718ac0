package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/wirectl/wirectl/internal/yamlfile"
	"github.com/wirectl/wirectl/rlm"
)

// An Error says what is wrong with a file of tools, and where.
type Error struct {
	Name         string
	Line, Column int // 0 if not known
	Err          error
}

func (e *Error) Error() string {
	switch {
	case e.Line == 0:
		return fmt.Sprintf("%s: %v", e.Name, e.Err)
	case e.Column == 0:
		return fmt.Sprintf("%s:%d: %v", e.Name, e.Line, e.Err)
	}
	return fmt.Sprintf("%s:%d:%d: %v", e.Name, e.Line, e.Column, e.Err)
}

// Unwrap returns what the error comes from.
func (e *Error) Unwrap() error { return e.Err }

// An entry of a file is a tool, or a source of several. One of Exec, MCP and Python is set.
type entry struct {
	Exec        []string `yaml:"exec"`
	Description string   `yaml:"description"`
	Parameters  any      `yaml:"parameters"`
	MCP         words    `yaml:"mcp"`
	Token       string   `yaml:"token_env"` // the variable that holds the server's token
	Python      string   `yaml:"python"`    // a file
	Only        []string `yaml:"only"`      // those of the tools that the model may call
}

// words are a command line, or an address.
type words []string

// UnmarshalYAML reads a text or a list.
func (w *words) UnmarshalYAML(node ast.Node) error {
	if _, isList := node.(*ast.SequenceNode); isList {
		return yaml.NodeToValue(node, (*[]string)(w))
	}
	*w = words{""}
	return yaml.NodeToValue(node, &(*w)[0])
}

// Load reads a file of tools, and starts what they need. Unless there is an error, the caller
// must close the set. An error of the file is an [*Error].
func Load(ctx context.Context, name string, w World) (_ *Set, err error) {
	data, err := yamlfile.Read(name)
	if err != nil {
		return nil, err
	}
	nodes, err := parse(name, data)
	if err != nil {
		return nil, err
	}
	s := &Set{invoke: map[string]invoker{}}
	if w.Code {
		s.code = map[string]bool{}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, node := range nodes {
		at := node.Key.GetToken()
		if err := s.loadInTime(ctx, at.Value, node.Value, w); err != nil {
			return nil, place(name, at, err)
		}
	}
	if len(s.defined) == 0 {
		return nil, &Error{Name: name, Err: errors.New("no tools: want NAME: {exec: [COMMAND]}, {mcp: [COMMAND]} or {python: FILE}")}
	}
	return s, nil
}

// parse returns the entries of a file.
func parse(name string, data []byte) ([]*ast.MappingValueNode, error) {
	if err := yamlfile.Check(data); err != nil {
		return nil, place(name, nil, err)
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, place(name, nil, err)
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, &Error{Name: name, Err: errors.New("want one document, with a key for each tool")}
	}
	nodes := yamlfile.Pairs(file.Docs[0].Body)
	if nodes == nil {
		return nil, place(name, file.Docs[0].Body.GetToken(), errors.New("want a mapping, with a key for each tool"))
	}
	return nodes, nil
}

// place adds the position to an error: that of the YAML parser, or else that of a token.
func place(name string, at *token.Token, err error) error {
	e := &Error{Name: name, Err: err}
	if at != nil {
		e.Line, e.Column = at.Position.Line, at.Position.Column
	}
	if msg, line, column := yamlfile.Explain(err); line > 0 || errors.As(err, new(*yamlfile.Error)) {
		e.Line, e.Column, e.Err = line, column, errors.New(msg)
	}
	return e
}

// usualPatience is long enough for a command such as npx to download a server.
const usualPatience = 2 * time.Minute

// loadInTime adds the tools of an entry, unless they take too long to be ready.
func (s *Set) loadInTime(ctx context.Context, name string, node ast.Node, w World) error {
	patience := cmp.Or(w.Patience, usualPatience)
	late := fmt.Errorf("%s: not ready after %v", name, patience)
	ctx, stop := context.WithTimeoutCause(ctx, patience, late)
	defer stop()
	err := s.load(ctx, name, node, w)
	if err != nil && context.Cause(ctx) == late { //nolint:errorlint // it is never wrapped
		return late
	}
	return err
}

// load adds the tools of an entry.
func (s *Set) load(ctx context.Context, name string, node ast.Node, w World) error {
	var e entry
	if err := yaml.NodeToValue(node, &e, yaml.Strict()); err != nil {
		return err
	}
	kinds := 0
	for _, is := range []bool{len(e.Exec) > 0, len(e.MCP) > 0, e.Python != ""} {
		if is {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return fmt.Errorf("%s: want one of exec, mcp and python", name)
	case len(e.Exec) == 0 && (e.Description != "" || e.Parameters != nil):
		return fmt.Errorf("%s: description and parameters are for exec alone", name)
	case len(e.Exec) > 0 && e.Only != nil:
		return fmt.Errorf("%s: only is for mcp and python", name)
	case len(e.MCP) == 0 && e.Token != "":
		return fmt.Errorf("%s: token_env is for mcp", name)
	}
	before := len(s.defined)
	var err error
	switch {
	case len(e.Exec) > 0:
		return s.addExec(name, &e)
	case len(e.MCP) > 0:
		err = s.addMCP(ctx, name, &e, w)
	default:
		err = s.addPython(ctx, name, &e, w)
	}
	if err != nil {
		return err
	}
	for _, wanted := range e.Only {
		if !slices.ContainsFunc(s.defined[before:], func(t rlm.Tool) bool { return t.Name == wanted }) {
			return fmt.Errorf("%s: there is no tool %q for only", name, wanted)
		}
	}
	return nil
}

// wants reports whether the model may call a tool.
func (e *entry) wants(name string) bool { return e.Only == nil || slices.Contains(e.Only, name) }

// isCallable reports whether every provider accepts a name.
func isCallable(name string) bool {
	return name != "" && len(name) <= 64 && !uncallable.MatchString(name)
}

var uncallable = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// anyObject is the schema of arguments without a schema.
var anyObject = json.RawMessage(`{"type":"object","properties":{}}`)

// parameters returns the schema of an entry, as JSON and for checking arguments.
func (e *entry) parameters() (json.RawMessage, *Schema, error) {
	if e.Parameters == nil {
		return anyObject, nil, nil
	}
	document, err := json.Marshal(e.Parameters)
	if err != nil {
		return nil, nil, fmt.Errorf("parameters: %w", err)
	}
	schema, err := NewSchema(document)
	if err != nil {
		return nil, nil, fmt.Errorf("parameters: %w", err)
	}
	if kind, _ := e.Parameters.(map[string]any); !strings.EqualFold(fmt.Sprint(kind["type"]), "object") {
		return nil, nil, errors.New("parameters: want a JSON Schema with type: object")
	}
	return document, schema, nil
}
