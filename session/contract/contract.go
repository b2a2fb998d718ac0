// Package contract describes what an MCP server offers: its tools, prompts and resources. It
// compares two offers and reports which changes break clients. It reads and writes baselines,
// the offers that a project has agreed to.
package contract

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// A List is one of the lists that a server offers.
type List struct {
	Method string // of the request for the list
	Key    string // the member of the result that has the items
	Noun   string // of an item
	name   string // the member that names an item
}

var lists = [...]List{
	{"tools/list", "tools", "tool", "name"},
	{"prompts/list", "prompts", "prompt", "name"},
	{"resources/list", "resources", "resource", "uri"},
	{"resources/templates/list", "resourceTemplates", "resource template", "name"},
}

// Tools is the list of tools.
var Tools = &lists[0]

// ListOf returns the list that a method asks for, or nil.
func ListOf(method string) *List {
	for i := range lists {
		if lists[i].Method == method {
			return &lists[i]
		}
	}
	return nil
}

// Path returns the keys from the payload of an answer to the list.
func (l *List) Path() jsondiff.Path { return jsondiff.Path{"result", l.Key} }

// IsList reports whether keys lead from an answer to a list, whose order does not matter.
func IsList(keys []string) bool {
	return slices.ContainsFunc(lists[:], func(l List) bool { return slices.Equal(keys, l.Path()) })
}

// An Item is a definition in a list.
type Item struct {
	Name string
	JSON []byte // an object, as written
}

// Items returns the items of a page, which is the payload of a valid answer, and whether
// another page follows. It returns false if the answer has no list, or if the items of its list
// cannot be distinguished.
func (l *List) Items(answer []byte) (items []Item, more, ok bool) {
	list, _ := jsonscan.Get(answer, l.Path()...)
	if jsonscan.KindOf(list) != jsonscan.Array {
		return nil, false, false
	}
	seen := make(map[string]bool)
	for it, named := range l.all(answer) {
		if !named || seen[it.Name] {
			return nil, false, false
		}
		seen[it.Name] = true
		items = append(items, it)
	}
	return items, l.more(answer), true
}

// Listing returns the list that an answer has, nil for none, and its items with a name.
func Listing(answer []byte) (l *List, items []Item) {
	for i := range lists {
		if path := lists[i].Path(); !jsonscan.MayHave(answer, path[len(path)-1]) {
			continue
		}
		if list, _ := jsonscan.Get(answer, lists[i].Path()...); jsonscan.KindOf(list) == jsonscan.Array {
			for it, named := range lists[i].all(answer) {
				if named {
					items = append(items, it)
				}
			}
			return &lists[i], items
		}
	}
	return nil, nil
}

// all yields the values of a page, and whether they have names.
func (l *List) all(answer []byte) iter.Seq2[Item, bool] {
	return func(yield func(Item, bool) bool) {
		list, _ := jsonscan.Get(answer, l.Path()...)
		var s jsonscan.Scanner
		s.Init(list)
		for ok := s.Array(); ok && s.Elem(); {
			value := s.Value()
			raw, _ := jsonscan.Get(value, l.name)
			name, isText := jsonscan.Unquote(raw)
			if !yield(Item{string(name), value}, isText) {
				return
			}
		}
	}
}

// more reports whether another page follows.
func (l *List) more(answer []byte) bool {
	cursor, _ := jsonscan.Get(answer, "result", "nextCursor")
	return jsonscan.KindOf(cursor) == jsonscan.String
}

// Class says how a change affects clients.
type Class string

const (
	Breaking   Class = "breaking"   // requests that worked may fail
	Compatible Class = "compatible" // requests that worked still work
)

// A Change is one difference between two offers.
type Change struct {
	Item  string   `json:"item,omitempty"`   // its name
	Text  string   `json:"change,omitempty"` // in words: `tool slow: argument "n" is now required`
	Class Class    `json:"class,omitempty"`
	Path  []string `json:"-"` // of the member in the definition; empty for the definition itself
	A     []byte   `json:"-"` // the values; nil for a missing one
	B     []byte   `json:"-"`
}

// Severity says how bad it is that a tool has changed. A model obeys descriptions, although clients go on working.
func (c *Change) Severity() session.Severity {
	n := len(c.Path)
	isNamed := n > 1 && slices.Contains(holders, c.Path[n-2]) // what has the name "description"
	if c.Class == Breaking || n > 0 && c.Path[n-1] == "description" && !isNamed {
		return session.Error
	}
	return session.Warning
}

// holders are the keywords of schemas below which keys are names.
var holders = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}

// Compare returns the differences of two lists: first in the order of a, then the items that
// only b has. The order of items does not matter. Values at the ignored paths of an answer are
// not compared.
func (l *List) Compare(a, b []Item, ignore []jsondiff.Path) []Change {
	c := comparison{list: l, ignore: ignore}
	there := make(map[string][]byte, len(b))
	for _, it := range b {
		there[it.Name] = it.JSON
	}
	in := make(map[string]bool, len(a))
	for _, it := range a {
		in[it.Name] = true
		c.item, c.ofItem = it.Name, 0
		switch value, ok := there[it.Name]; {
		case c.ignores(nil):
		case ok:
			c.definitions(it.JSON, value)
		default:
			c.addWhole(Breaking, "removed", it.JSON, nil)
		}
	}
	for _, it := range b {
		if c.item = it.Name; !in[it.Name] && !c.ignores(nil) {
			c.addWhole(Compatible, "added", nil, it.JSON)
		}
	}
	return c.changes
}

type comparison struct {
	list    *List
	ignore  []jsondiff.Path
	item    string
	ofItem  int // number of its changes
	changes []Change
}

// maxChanges bounds the changes of one item.
const maxChanges = 1000

func (c *comparison) ignores(path []string) bool {
	keys := append([]string{"result", c.list.Key, c.item}, path...)
	for n := range len(keys) + 1 {
		if jsondiff.Ignored(c.ignore, keys[:n]) {
			return true
		}
	}
	return false
}

func (c *comparison) addWhole(class Class, what string, a, b []byte) {
	c.changes = append(c.changes, Change{Class: class, Item: c.item, Text: c.list.Noun + " " + what + ": " + Plain(c.item), A: a, B: b})
}

// addChange adds a change of a member.
func (c *comparison) addChange(class Class, text string, path []string, a, b []byte) {
	switch {
	case c.ignores(path):
		return
	case c.ofItem > maxChanges:
		return
	case c.ofItem == maxChanges:
		class, text, path, a, b = Breaking, "more has changed than is shown", nil, nil, nil
	}
	c.ofItem++
	c.changes = append(c.changes, Change{
		Class: class, Item: c.item, Path: append([]string(nil), path...), A: a, B: b,
		Text: c.list.Noun + " " + Plain(c.item) + ": " + text,
	})
}

// The members of definitions that are schemas, and the argument list of a prompt.
const (
	inputSchema  = "inputSchema"
	outputSchema = "outputSchema"
	arguments    = "arguments"
)

// definitions compares two definitions of an item.
func (c *comparison) definitions(a, b []byte) {
	members := []string{inputSchema, outputSchema}
	if c.list.Key == "prompts" {
		members = []string{arguments}
	}
	var prefix []jsondiff.Path
	for _, key := range members {
		va, _ := jsonscan.Get(a, key)
		vb, _ := jsonscan.Get(b, key)
		c.schemas(key, va, vb)
		prefix = append(prefix, jsondiff.Path{key})
	}
	w := jsondiff.Walk{Ignore: prefix, Leaf: func(keys []string, va, vb []byte) {
		if jsondiff.Same(va, vb) {
			return
		}
		class := Compatible
		if keys[0] == "mimeType" || keys[0] == "uriTemplate" {
			class = Breaking // clients use one for answers and the other for requests
		}
		c.addChange(class, Plain(jsondiff.Join(keys))+verb(va, vb), keys, va, vb)
	}}
	w.Values(a, b)
}

// verb says how a member changed.
func verb(a, b []byte) string {
	switch {
	case a == nil:
		return " was added"
	case b == nil:
		return " was removed"
	}
	if n := sameStart(a, b) - before; n > 0 && max(len(a), len(b)) > maxValue {
		return ": …" + render.Shorten(a[n:], maxValue) + " → …" + render.Shorten(b[n:], maxValue)
	}
	return ": " + render.Shorten(a, maxValue) + " → " + render.Shorten(b, maxValue)
}

// before is how many bytes are shown of what is the same before a difference.
const before = 20

// sameStart returns the length of the text with which both begin, in whole characters.
func sameStart(a, b []byte) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	for n > before && !utf8.RuneStart(a[n-before]) {
		n--
	}
	return n
}

// maxValue bounds the values in messages, in bytes, and maxName the names.
const (
	maxValue = 80
	maxName  = 200
)

// Plain returns a name unchanged, or quoted if it could be mistaken for something else.
func Plain(name string) string {
	odd := func(r rune) bool { return !strconv.IsGraphic(r) || strings.ContainsRune(" \"'`,;", r) }
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, odd) {
		return quoted(name)
	}
	return name
}

func quoted(name string) string { return strconv.Quote(render.Shorten(name, maxName)) }

// baselineVersion is the version of the format of baselines.
const baselineVersion = 1

// A baseline is the file with the tools that a project has agreed to. A pin has a server and its client.
type baseline struct {
	Version int          `json:"baseline"`
	Server  string       `json:"server,omitempty"`
	Client  string       `json:"client,omitempty"`
	Tools   []definition `json:"tools"`
}

// A definition is the part of a tool that a baseline keeps because clients and models rely on
// it.
type definition struct {
	Name         string `json:"name"`
	Title        any    `json:"title,omitempty"`
	Description  any    `json:"description,omitempty"`
	InputSchema  any    `json:"inputSchema,omitempty"`
	OutputSchema any    `json:"outputSchema,omitempty"`
	Annotations  any    `json:"annotations,omitempty"`
}

// Members are those of a definition.
var Members = []string{"name", "title", "description", inputSchema, outputSchema, "annotations"}

// definitionOf returns the definition of a tool.
func definitionOf(it Item) definition {
	member := func(key string) any {
		value, _ := jsonscan.Get(it.JSON, key)
		return decoded(value)
	}
	return definition{it.Name, member("title"), member("description"), member(inputSchema), member(outputSchema), member("annotations")}
}

// A Baseline holds the tools that a project has agreed to, or that a server had when it was pinned.
type Baseline struct {
	Server, Client string // of a pin; texts for people
	Tools          []Item
}

// Write writes a baseline as JSON. Tools and their members are sorted, so that versions can be compared line
// by line.
func (b *Baseline) Write(w io.Writer) error {
	file := baseline{Version: baselineVersion, Server: b.Server, Client: b.Client, Tools: []definition{}}
	for _, it := range b.Tools {
		file.Tools = append(file.Tools, definitionOf(it))
	}
	slices.SortFunc(file.Tools, func(a, b definition) int { return cmp.Compare(a.Name, b.Name) })
	enc := jsonscan.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(file)
}

var errNoBaseline = errors.New(`want an object such as {"baseline":1,"tools":[{"name":"…"}]}`)

// ReadBaseline reads a baseline.
func ReadBaseline(text []byte) (*Baseline, error) {
	var file baseline
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("%s: %w", faultOf(err), errNoBaseline)
	}
	if file.Version != baselineVersion {
		return nil, fmt.Errorf("version %d of the format, not %d: %w", file.Version, baselineVersion, errNoBaseline)
	}
	b, seen := &Baseline{Server: file.Server, Client: file.Client}, make(map[string]bool)
	for i, tool := range file.Tools {
		if tool.Name == "" || seen[tool.Name] {
			return nil, fmt.Errorf("tool %d repeats the name %q: want unique names", i+1, tool.Name)
		}
		seen[tool.Name] = true
		b.Tools = append(b.Tools, tool.item())
	}
	return b, nil
}

// faultOf describes a fault in the JSON of a baseline without names of Go types.
func faultOf(err error) string {
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF):
		return "the file is empty"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the file ends before the JSON does"
	case errors.As(err, &mismatch):
		return fmt.Sprintf("%s is of the type %s, at byte %d", cmp.Or(mismatch.Field, "the file"), mismatch.Value, mismatch.Offset)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

func (d definition) item() Item { return Item{d.Name, encoded(d)} }

// Masked reports whether the definitions of tools are masked, as in a record of metadata.
func Masked(tools []Item) bool {
	return slices.ContainsFunc(tools, func(it Item) bool {
		raw, _ := jsonscan.Get(it.JSON, inputSchema, "type")
		text, _ := jsonscan.Unquote(raw)
		return len(text) > 0 && len(bytes.Trim(text, "*")) == 0
	})
}

// Drift returns how tools differ from the baseline. Files from before titles were kept have none, and say nothing of them.
func (b *Baseline) Drift(tools []Item) []Change {
	titled := b.Server != "" || slices.ContainsFunc(b.Tools, func(it Item) bool { return definitionOf(it).Title != nil })
	now := make([]Item, len(tools))
	for i, it := range tools {
		d := definitionOf(it)
		if !titled {
			d.Title = nil
		}
		now[i] = d.item()
	}
	return Tools.Compare(b.Tools, now, nil)
}
