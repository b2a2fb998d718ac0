package wrap

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/tailscale/hujson"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/yamlfile"
)

// A span is a range of bytes of a configuration.
type span struct{ from, to int }

// A node is a value in a configuration of any format, with its anchor and its tag.
type node struct {
	value
	kind    kind
	members []pair // of an object
	items   []node // of a list
	item    string // the separator of items; "" for a list in brackets
	closed  bool   // it is sure to end there
	problem error  // why it cannot be moved or edited
}

// A kind is the kind of a node.
type kind uint8

const (
	scalar kind = iota // a string, and in some formats any value that may be an argument
	missing
	object
	list
	other
)

// A value is a string with its text, or another value. A fixed value cannot be moved into a
// list unchanged.
type value struct {
	span
	text          string
	string, fixed bool
}

// A pair is a member of an object.
type pair struct {
	key     string
	at      int // its place in messages
	from    int // where Bridge replaces it: in JSON only the value
	between string
	node
}

// command returns a string; no error and no span if the value is missing.
func (n *node) command() (value, error) {
	switch {
	case n.kind == missing:
		return value{}, nil
	case n.problem != nil:
		return value{}, n.problem
	case !n.string:
		return value{}, ErrOddCommand
	}
	return n.value, nil
}

// arguments returns the items of a list, or the place of an error: that of an item, or else at.
func (n *node) arguments(at int) (list []value, _ int, err error) {
	if n.problem != nil {
		return nil, at, n.problem
	}
	for _, item := range n.items {
		switch {
		case item.kind > missing:
			return nil, max(at, item.from), ErrOddArgs
		case item.problem != nil: // it stays where it is, in whatever form
			item.value = value{span: span{from: item.from}}
		}
		list = append(list, item.value)
	}
	return list, at, nil
}

// strings returns an object whose members are all strings; nil for any other value.
func (n *node) strings() map[string]string {
	if n.problem != nil || n.kind != object && (n.kind != list || len(n.items) > 0) {
		return nil
	}
	found := map[string]string{}
	for _, m := range n.members {
		if !m.string || m.problem != nil || m.key == "" {
			return nil
		}
		found[m.key] = m.text
	}
	return found
}

// An entry is the configuration of a server.
type entry struct {
	text    []byte // the configuration; if it is JSON, without comments
	name    string
	project string // "" for all
	command value
	list    span // the arguments, if hasArgs, with their brackets
	args    []value
	hasArgs bool
	url     string
	remote  bool
	problem error // why it cannot be edited

	whole     span     // the entry itself, or the part from its first slot to its last
	members   []member // of the entry
	slots     []member // those that Bridge may replace; not for JSON
	between   string   // the separator of slots
	scattered bool     // the slots are not together
	headers   map[string]string
	env       map[string]string

	begins string // the text between the command and arguments that Wrap adds
	item   string // the separator of items; "" for a list in brackets
}

// A member is a member of an entry, with its value.
type member struct {
	key string
	span
}

// full is the name of the server within its file.
func (e *entry) full() string {
	if e.project == "" {
		return e.name
	}
	return e.project + ":" + e.name
}

// entry returns the entry of a server.
func (f Format) entry(config []byte, server string) (*entry, error) {
	all, err := f.read(config)
	if err != nil {
		return nil, err
	}
	e, err := pick(all, server)
	if err != nil {
		return nil, err
	}
	return e, e.fault()
}

// pick returns the entry of a server by its full name, or by its short name if that is
// unique.
func pick(all []*entry, server string) (*entry, error) {
	for _, name := range []func(*entry) string{(*entry).full, func(e *entry) string { return e.name }} {
		var found []*entry
		for _, e := range all {
			if name(e) == server {
				found = append(found, e)
			}
		}
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1 && found[0].full() != found[1].full():
			return nil, &NotFoundError{Name: server, Servers: fullNames(found), several: true}
		case len(found) > 1:
			return nil, fmt.Errorf("%w: %q occurs %d times", ErrTwice, server, len(found))
		}
	}
	return nil, &NotFoundError{Name: server, Servers: fullNames(all)}
}

func fullNames(all []*entry) (names []string) {
	for _, e := range all {
		names = append(names, e.full())
	}
	return names
}

// fault returns the reason why an entry cannot be edited, or nil.
func (e *entry) fault() error {
	switch {
	case e.command.span == span{} && e.remote:
		return &RemoteError{URL: e.url, Header: e.header(), Bridges: e.bridges()}
	case e.problem != nil:
		return e.problem
	case e.command.span == span{}:
		return ErrNoCommand
	case e.command.fixed:
		return e.at(ErrUnquoted, e.command.from)
	}
	return nil
}

// at adds the line of a position to an error.
func (e *entry) at(err error, pos int) error {
	return fmt.Errorf("%w (line %d)", err, 1+bytes.Count(e.text[:pos], []byte("\n")))
}

// setProblem records why the entry cannot be edited, and where. The first reason counts.
func (e *entry) setProblem(err error, pos int) {
	if e.problem == nil {
		e.problem = e.at(err, pos)
	}
}

// wrapped returns the index of the argument that is the server's own command, or its address;
// -1 if the server does not run through wirectl.
func (e *entry) wrapped() int {
	program := path.Base(strings.ReplaceAll(e.command.text, `\`, "/"))
	if len(e.args) == 0 || e.args[0].text != "relay" {
		return -1
	}
	if !strings.HasPrefix(program, "wirectl") && (len(e.args) < 2 || e.args[1].text != "--quiet") { // a copy under another name
		return -1
	}
	if e.isBridge() {
		return len(e.args) - 1
	}
	i := slices.IndexFunc(e.args, func(v value) bool { return v.text == "exec" || v.text == "--" })
	if i < 0 || i+1 == len(e.args) || !e.args[i+1].string {
		return -1
	}
	return i + 1
}

// read returns the entries of a configuration. If it is invalid, they are those before the
// error.
func (f Format) read(config []byte) ([]*entry, error) {
	if bytes.HasPrefix(config, []byte("\xff\xfe")) || bytes.HasPrefix(config, []byte("\xfe\xff")) {
		return nil, errors.New("it is in UTF-16: save it in UTF-8")
	}
	switch f {
	case TOML:
		return readTOML(config)
	case YAML:
		return readYAML(config)
	}
	return readJSON(config)
}

// addMember adds a member to an entry.
func (e *entry) addMember(d *dialect, p pair) {
	var err error
	switch {
	case p.key == d.command && e.command.span != span{}, p.key == d.args && e.hasArgs:
		err = ErrTwice
	case p.key == d.command:
		e.command, err = p.command()
		e.begins = p.between + d.key(d.args) + "[ "
	case p.key == d.args && p.kind != list:
		err = ErrOddArgs
	case p.key == d.args:
		e.hasArgs, e.list, e.item = true, p.span, p.item
		e.args, p.at, err = p.arguments(p.at)
	case slices.Contains(d.addresses, p.key) && p.kind != missing:
		e.remote, e.url, e.scattered = true, p.text, e.scattered || !p.string
	case p.key == d.headers:
		e.headers = p.strings()
		for _, v := range e.headers {
			e.scattered = e.scattered || d.expands && strings.Contains(v, "$")
		}
	case p.key == d.env:
		e.env = p.strings()
	}
	if err != nil {
		e.setProblem(err, p.at)
	}
	own := member{p.key, span{p.from, p.to}}
	if p.kind != object && p.kind != list || len(p.members)+len(p.items) > 0 || !slices.Contains(d.empty, p.key) {
		e.members = append(e.members, own)
	}
	if !slices.Contains(d.slots, p.key) {
		return
	}
	if len(e.slots) == 0 {
		e.between, e.whole = p.between, own.span
	}
	e.scattered = e.scattered || !p.closed || p.between != e.between || own.from < e.whole.to && len(e.slots) > 0
	e.slots = append(e.slots, own)
	e.whole.to = own.to
}

// readJSON reads the configuration of most clients.
func readJSON(config []byte) (found []*entry, err error) {
	text, err := plain(config)
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil // clients create empty files
	}
	var read func(project, list string, in span)
	read = func(project, list string, in span) {
		for key, at := range children(text, in, object) {
			switch {
			case list == "servers":
				e := &entry{name: key, project: project, text: text, whole: at}
				found = append(found, e)
				e.addMembers(&usual, at)
			case list == "projects": // of Claude Code
				read(key, "", at)
			case list == "" && slices.Contains([]string{"mcpServers", "context_servers", "agent_servers"}, key), key == "servers":
				read(project, "servers", at)
			case list == "" && key == "mcp", list+project == "" && key == "projects": // mcp is in the settings of VS Code
				read(project, key, at)
			}
		}
	}
	read("", "", span{0, len(text)})
	if err == nil {
		err = jsonscan.WellFormed(text) // clients read surrogates without their pairs
	}
	return found, err
}

// addMembers adds the members of an object of JSON.
func (e *entry) addMembers(d *dialect, in span) {
	for key, at := range children(e.text, in, object) {
		n := jsonNode(e.text, at, 0)
		if key == "command" && d == &usual && n.kind == object {
			e.addMembers(&olderZed, at)
			e.members = append(e.members, member{key, at})
			if e.command.span == (span{}) {
				e.setProblem(ErrOddCommand, at.from)
			}
			continue
		}
		e.addMember(d, pair{key: key, at: at.from, from: at.from, between: ", ", node: n})
	}
}

// children yields the places of the members of an object or, if of is list, the elements of a list, and
// their keys. If the JSON is invalid, the last one reaches to its end.
func children(text []byte, in span, of kind) iter.Seq2[string, span] {
	return func(yield func(string, span) bool) {
		var s jsonscan.Scanner
		s.Init(text[in.from:in.to])
		enter, next := s.Object, s.Next
		if of == list {
			enter, next = s.Array, s.Elem
		}
		for ok := enter(); ok && next(); {
			key, at := string(s.Key()), span{in.from + s.Offset(), in.to}
			whole := s.Skip()
			if whole {
				at.to = in.from + s.Offset()
			}
			if !yield(key, at) || !whole {
				return
			}
		}
	}
}

func jsonNode(text []byte, at span, depth int) node {
	n := node{value: value{span: at}}
	switch jsonscan.KindOf(text[at.from:at.to]) {
	case jsonscan.Null:
		n.kind = missing
	case jsonscan.String:
		unquoted, _ := jsonscan.Unquote(text[at.from:at.to])
		n.string, n.text = true, string(unquoted)
	case jsonscan.Object, jsonscan.Array:
		if depth > 0 {
			break
		}
		n.kind = map[byte]kind{'{': object, '[': list}[text[at.from]]
		for key, at := range children(text, at, n.kind) {
			child := jsonNode(text, at, depth+1)
			n.members, n.items = append(n.members, pair{key: key, node: child}), append(n.items, child)
		}
	}
	return n
}

// plain replaces comments, trailing commas and a byte order mark by blanks, so that the
// result is JSON and every position stays. Invalid text is returned unchanged, with the
// error.
func plain(config []byte) ([]byte, error) {
	text := bytes.Clone(config)
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		copy(text, "   ")
	}
	text = loneCR.ReplaceAll(text, []byte("\n$1")) // a line break, for clients
	standard, err := hujson.Standardize(bytes.Clone(text))
	// A comment at the end of the file needs no line break, and there may be nothing else.
	for _, end := range []string{"\n", "\nnull"} {
		if err == nil {
			break
		}
		if ended, err := hujson.Standardize(append(bytes.Clone(text), end...)); err == nil {
			return ended[:len(text)], nil
		}
	}
	if err != nil {
		return text, errors.New("invalid JSON: " + strings.TrimPrefix(err.Error(), "hujson: "))
	}
	return standard, nil
}

var loneCR = regexp.MustCompile("\r([^\n]|$)")

// A tomlReader collects the entries of a configuration in TOML.
type tomlReader struct {
	text  []byte
	start int // after the byte order mark
	found []*entry
}

// readTOML reads the configuration of Codex: the tables in mcp_servers.
func readTOML(config []byte) ([]*entry, error) {
	r := &tomlReader{text: config}
	if bytes.HasPrefix(config, []byte("\ufeff")) { // blanks of the same length
		r.text, r.start = append([]byte("   "), config[3:]...), 3
	}
	var p unstable.Parser
	p.Reset(r.text)
	var table []string
	for p.NextExpression() {
		n := p.Expression()
		switch n.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = keys(n.Key())
			r.entryOf(table)
		case unstable.KeyValue:
			r.readPair(n, table, false)
		}
	}
	return r.found, p.Error()
}

func keys(it unstable.Iterator) (path []string) {
	for it.Next() {
		path = append(path, string(it.Node().Data))
	}
	return path
}

// entryOf returns the entry that a path belongs to; nil if there is none.
func (r *tomlReader) entryOf(path []string) *entry {
	if len(path) < 2 || path[0] != "mcp_servers" {
		return nil
	}
	for _, e := range r.found {
		if e.name == path[1] {
			return e
		}
	}
	e := &entry{name: path[1], text: r.text}
	r.found = append(r.found, e)
	return e
}

// readPair reads a key with its value, of a table or inline in a value.
func (r *tomlReader) readPair(n *unstable.Node, table []string, inline bool) {
	path := slices.Concat(table, keys(n.Key()))
	if n.Value().Kind == unstable.InlineTable {
		for it := n.Value().Children(); it.Next(); {
			if it.Node().Kind == unstable.KeyValue {
				r.readPair(it.Node(), path, true)
			}
		}
	}
	e := r.entryOf(path)
	switch {
	case e == nil || len(path) < 3:
		return
	case len(path) > 3: // a member that is a table of its own, or written as one
		e.scattered = e.scattered || !inline && (slices.Contains(logins, path[2]) || slices.Contains(codex.slots, path[2]))
		return
	}
	p := pair{key: path[2], at: int(n.Raw.Offset), between: ", ", node: tomlNode(n.Value())}
	after := 0
	for it := n.Key(); it.Next(); { // the last part of the key
		p.from, after = int(it.Node().Raw.Offset), int(it.Node().Raw.Offset+it.Node().Raw.Length)
	}
	if !inline { // on lines of their own, with the indentation of this one
		p.between = newline(r.text) + string(r.text[max(bytes.LastIndexByte(r.text[:p.from], '\n')+1, r.start):p.from])
	}
	if !p.string {
		rest := r.text[after : n.Raw.Offset+n.Raw.Length]
		bracket := map[kind]byte{list: '[', object: '{'}[p.kind]
		p.span = span{after + bytes.IndexByte(rest, bracket), after + len(rest)}
		p.closed = bracket > 0 && p.span.from >= after && rest[len(rest)-1] == bracket+2 // ']' is '[' + 2, '}' is '{' + 2
		if p.kind == list && !p.closed {
			p.problem = ErrUnread
		}
	}
	e.addMember(&codex, p)
}

func tomlNode(n *unstable.Node) node {
	v := node{kind: other}
	switch n.Kind {
	case unstable.String:
		from := int(n.Raw.Offset)
		v = node{value: value{span: span{from, from + int(n.Raw.Length)}, text: string(n.Data), string: true}, closed: true}
	case unstable.Array, unstable.InlineTable:
		v.kind = map[unstable.Kind]kind{unstable.Array: list, unstable.InlineTable: object}[n.Kind]
		for it := n.Children(); it.Next(); {
			switch child := it.Node(); child.Kind {
			case unstable.Comment:
			case unstable.KeyValue:
				m := pair{node: tomlNode(child.Value())}
				if path := keys(child.Key()); len(path) == 1 {
					m.key = path[0]
				}
				v.members = append(v.members, m)
			default:
				v.items = append(v.items, tomlNode(child))
			}
		}
	}
	return v
}

// newline returns the line ending of a text.
func newline(text []byte) string {
	if bytes.Contains(text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// A yamlReader collects the entries of a configuration in YAML.
type yamlReader struct {
	text    []byte
	newline string
	lines   []int               // where each line begins
	tags    map[int][]int       // the columns of tags, by line
	anchors map[string]ast.Node // the values of anchors
	aliases map[string]bool     // the anchors that are used
	found   []*entry
}

// readYAML reads the configuration of Goose: the members of extensions.
func readYAML(config []byte) ([]*entry, error) {
	if err := yamlfile.Check(config); err != nil {
		return nil, err
	}
	if !utf8.Valid(config) {
		return nil, errors.New("it is not UTF-8")
	}
	r := &yamlReader{text: config, newline: newline(config), tags: map[int][]int{}}
	// The parser miscounts positions if lines end in blanks or CR, or after a byte order mark.
	var trimmed []byte
	text, marked := bytes.CutPrefix(config, []byte("\ufeff"))
	at := 0
	if marked {
		at = 3
	}
	for line := range bytes.Lines(text) {
		r.lines = append(r.lines, at)
		at += len(line)
		trimmed = append(append(trimmed, bytes.TrimRight(line, " \t\r\n")...), '\n')
	}
	tokens := lexer.Tokenize(string(trimmed))
	for _, t := range tokens {
		if t.Type == token.TagType {
			r.tags[t.Position.Line] = append(r.tags[t.Position.Line], t.Position.Column)
		}
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, err
	}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		r.anchors, r.aliases = map[string]ast.Node{}, map[string]bool{} // those of a document
		ast.Walk(r, doc.Body)
		for _, m := range yamlfile.Pairs(doc.Body) {
			if key(m) == "extensions" {
				r.readServers(m.Value)
			}
		}
	}
	return r.found, nil
}

// Visit collects anchors and aliases.
func (r *yamlReader) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.AnchorNode:
		r.anchors[n.Name.GetToken().Value] = n.Value
	case *ast.AliasNode:
		r.aliases[n.Value.GetToken().Value] = true
	}
	return r
}

// maxAliases bounds how many aliases lead to a value.
const maxAliases = 10

// inner returns the node that an anchor, a tag or an alias is for, whether it is shared by an
// anchor and an alias, and its tag.
func (r *yamlReader) inner(n ast.Node) (node ast.Node, shared bool, tag string) {
	for range maxAliases {
		switch outer := n.(type) {
		case *ast.AnchorNode:
			shared = shared || r.aliases[outer.Name.GetToken().Value]
			n = outer.Value
		case *ast.AliasNode:
			shared, n = true, r.anchors[outer.Value.GetToken().Value]
		case *ast.TagNode:
			n, tag = outer.Value, outer.Start.Value
		default:
			return n, shared, tag
		}
	}
	return nil, true, tag
}

func key(m *ast.MappingValueNode) string {
	var n ast.Node = m.Key
	if explicit, ok := n.(*ast.MappingKeyNode); ok {
		n = explicit.Value
	}
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value
	case ast.ScalarNode: // a name such as 7 or on
		return n.GetToken().Value
	}
	return ""
}

func (r *yamlReader) readServers(list ast.Node) {
	list, shared, _ := r.inner(list)
	for _, m := range yamlfile.Pairs(list) {
		at, merged := r.position(m.Key), m.Key.IsMergeKey()
		servers := []*ast.MappingValueNode{m}
		if merged {
			servers = r.merged(m, map[ast.Node]bool{})
		}
		for _, server := range servers {
			e := &entry{name: key(server), text: r.text}
			r.found = append(r.found, e)
			if merged {
				e.setProblem(ErrMerged, at)
			} else {
				r.readEntry(e, m.Value, shared, at)
			}
		}
	}
}

func (r *yamlReader) readEntry(e *entry, entry ast.Node, shared bool, at int) {
	own, sharedToo, _ := r.inner(entry)
	block := true
	if n, ok := own.(*ast.MappingNode); ok {
		block = !n.IsFlowStyle
	}
	merges := map[string]int{} // keys, and the positions of the merges
	for _, m := range yamlfile.Pairs(own) {
		p := pair{key: key(m), at: r.position(m.Key), between: ", ", node: r.node(m.Value, m.Start, 0)}
		if m.Key.IsMergeKey() {
			for _, pair := range r.merged(m, map[ast.Node]bool{}) {
				merges[key(pair)] = p.at
			}
			continue
		}
		p.from, _ = r.offset(m.Key.GetToken())
		if block {
			p.between = r.newline + r.indent(m.Key.GetToken())
		}
		e.addMember(&goose, p)
	}
	// A key of its own replaces that of a merge. The command and its arguments must be its own.
	for _, name := range goose.slots {
		at, ok := merges[name]
		own := slices.ContainsFunc(e.members, func(m member) bool { return m.key == name })
		e.scattered = e.scattered || ok
		switch {
		case !ok || own:
		case name == goose.command, name == goose.args && e.command.span != span{}:
			e.setProblem(ErrMerged, at)
		case slices.Contains(goose.addresses, name):
			e.remote = true
		}
	}
	if (shared || sharedToo) && (e.command.span != span{} || e.remote) {
		e.scattered = true
		e.setProblem(ErrShared, at)
	}
}

// merged returns the pairs that a merge key brings. Each mapping is merged once.
func (r *yamlReader) merged(m *ast.MappingValueNode, seen map[ast.Node]bool) (pairs []*ast.MappingValueNode) {
	from, _, _ := r.inner(m.Value)
	sources := []ast.Node{from}
	if list, ok := from.(*ast.SequenceNode); ok {
		sources = list.Values
	}
	for _, n := range sources {
		if n, _, _ = r.inner(n); seen[n] {
			continue
		}
		seen[n] = true
		for _, pair := range yamlfile.Pairs(n) {
			if pair.Key.IsMergeKey() {
				pairs = append(pairs, r.merged(pair, seen)...)
			} else {
				pairs = append(pairs, pair)
			}
		}
	}
	return pairs
}

// node returns a value, which follows a colon unless it is an item. What an alias shares is not
// followed, because aliases multiply.
func (r *yamlReader) node(n ast.Node, colon *token.Token, depth int) (v node) {
	inner, shared, tag := r.inner(n)
	v.from = r.position(n)
	inside := depth < 2 && !shared
	var last *token.Token // of a value in brackets
	switch in := inner.(type) {
	case *ast.SequenceNode:
		v.kind, last = list, in.End
		for _, item := range in.Values {
			if inside {
				v.items = append(v.items, r.node(item, nil, depth+1))
			}
		}
		if n := len(v.items); !in.IsFlowStyle && n > 0 {
			// The span starts after the colon, so that the list can become empty.
			at, ok := r.offset(colon)
			last, v.closed, v.item = nil, v.items[n-1].closed, r.newline+r.indent(in.Start)+"- "
			if v.span = (span{at + 1, max(at+1, v.items[n-1].to)}); !ok || strings.Trim(v.item, " -\r\n") != "" {
				v.problem = ErrUnread
			}
		} else {
			var open bool
			if v.from, open = r.offset(in.Start); !open {
				v.problem = ErrUnread
			}
		}
	case *ast.MappingNode, *ast.MappingValueNode:
		v.kind = object
		for _, m := range yamlfile.Pairs(in) {
			if inside {
				v.members = append(v.members, pair{key: key(m), node: r.node(m.Value, m.Start, depth+1)})
			}
		}
		if m, ok := in.(*ast.MappingNode); ok && (m.IsFlowStyle || len(v.members) == 0) {
			last = m.End
		} else if n := len(v.members); n > 0 {
			v.to, v.closed = v.members[n-1].to, v.members[n-1].closed
		}
	default:
		r.readScalar(&v, n, inner, tag, shared)
		return v
	}
	if last != nil {
		v.to, v.closed = r.offset(last)
		v.to++
	}
	switch {
	case shared:
		v.problem = ErrShared
	case v.kind == list && last != nil && !v.closed:
		v.problem = ErrUnread
	}
	return v
}

// readScalar reads a value that is not in brackets.
func (r *yamlReader) readScalar(v *node, n, inner ast.Node, tag string, shared bool) {
	text, isString := inner.(*ast.StringNode)
	ok := false
	if v.string = isString || tag == "!!str"; isString {
		v.text = text.Value
	}
	if inner != nil {
		t := inner.GetToken()
		var from int
		from, ok = r.offset(t)
		v.to = from + len(t.Value)
		switch t.Type {
		case token.DoubleQuoteType, token.SingleQuoteType:
			v.to = from + len(quotedString.Find(r.text[from:]))
		default:
			v.fixed = strings.ContainsAny(t.Value, ",[]{}?#\"'\n") || strings.Contains(t.Value, ": ")
		}
		ok = ok && v.to > from
		if !isString {
			v.text = t.Value
		}
	}
	v.closed = ok && !v.fixed
	switch alias, isAlias := n.(*ast.AliasNode); {
	case isAlias && isString:
		v.to, v.fixed, v.closed = v.from+1+len(alias.Value.GetToken().Value), false, true
	case shared && inner == nil:
		v.kind, v.problem = other, ErrShared
	case shared:
		v.problem = ErrShared
	case inner == nil || inner.Type() == ast.NullType && tag == "":
		v.kind = missing
	case inner.Type() == ast.LiteralType:
		v.problem = ErrLines
	case tag != "" && tag != "!!str":
		v.problem = ErrTag
	case !v.string:
		v.problem = ErrOddCommand
	case !ok || bytes.ContainsAny(r.text[v.from:v.to], "\n"):
		v.problem = ErrLines
	}
}

// quotedString matches a quoted string on one line at the start of a text.
var quotedString = regexp.MustCompile(`^(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\n]|'')*')`)

// position returns where a node begins.
func (r *yamlReader) position(n ast.Node) int {
	t := n.GetToken()
	switch n := n.(type) {
	case *ast.AnchorNode:
		t = n.Start
	case *ast.AliasNode:
		t = n.Start
	case *ast.TagNode:
		t = n.Start
	}
	at, _ := r.offset(t)
	return at
}

// offset returns the position of a token, and whether the token was found there.
func (r *yamlReader) offset(t *token.Token) (int, bool) {
	if t == nil || t.Position.Line < 1 || t.Position.Line > len(r.lines) {
		return 0, false
	}
	at := r.lines[t.Position.Line-1]
	tags, _ := slices.BinarySearch(r.tags[t.Position.Line], t.Position.Column) // one column is missing after each
	for range t.Position.Column - 1 + tags {
		_, size := utf8.DecodeRune(r.text[at:])
		at += size
	}
	start := t.Value
	switch t.Type {
	case token.DoubleQuoteType:
		start = `"`
	case token.SingleQuoteType:
		start = `'`
	}
	return at, bytes.HasPrefix(r.text[at:], []byte(start))
}

// indent returns the text before a token on its line.
func (r *yamlReader) indent(t *token.Token) string {
	at, _ := r.offset(t)
	return string(r.text[bytes.LastIndexByte(r.text[:at], '\n')+1 : at])
}
