package wrap

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/wirectl/wirectl/internal/yamlfile"
)

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
	r := &yamlReader{text: config, newline: newline(config), tags: map[int][]int{}, anchors: map[string]ast.Node{}, aliases: map[string]bool{}}
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
		clear(r.anchors) // those of a document
		clear(r.aliases)
		if doc.Body != nil {
			ast.Walk(r, doc.Body)
		}
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
		if m.Key.IsMergeKey() {
			r.readMergedServers(m)
			continue
		}
		e := &entry{name: key(m), text: r.text}
		r.found = append(r.found, e)
		r.readEntry(e, m.Value, shared, r.position(m.Key))
	}
}

// readMergedServers reads servers that come from a merge. They cannot be edited.
func (r *yamlReader) readMergedServers(m *ast.MappingValueNode) {
	for _, pairs := range r.merged(m, 0) {
		e := &entry{name: key(pairs), text: r.text}
		r.found = append(r.found, e)
		e.setProblem(ErrMerged, r.position(m.Key))
	}
}

func (r *yamlReader) readEntry(e *entry, value ast.Node, shared bool, at int) {
	own, sharedToo, _ := r.inner(value)
	flow := false
	if n, ok := own.(*ast.MappingNode); ok {
		flow = n.IsFlowStyle
	}
	merges := map[string]int{} // keys, and the positions of the merges
	for _, m := range yamlfile.Pairs(own) {
		if !m.Key.IsMergeKey() {
			r.readMember(e, m, flow)
			continue
		}
		for _, pair := range r.merged(m, 0) {
			merges[key(pair)] = r.position(m.Key)
		}
	}
	r.addMerges(e, merges)
	if (shared || sharedToo) && (e.command.span != span{} || e.remote) {
		e.scattered = true
		e.setProblem(ErrShared, at)
	}
}

// addMerges adds what merges say of an entry: a key of its own replaces that of a merge. The
// command and its arguments must be its own.
func (r *yamlReader) addMerges(e *entry, merges map[string]int) {
	for _, name := range goose.slots {
		at, ok := merges[name]
		own := slices.ContainsFunc(e.members, func(m member) bool { return m.key == name })
		e.scattered = e.scattered || ok
		switch {
		case !ok || own:
		case name == "cmd", name == "args" && e.command.span != span{}:
			e.setProblem(ErrMerged, at)
		case name == "uri", name == "url":
			e.remote = true
		}
	}
}

// merged returns the pairs that a merge key brings.
func (r *yamlReader) merged(m *ast.MappingValueNode, depth int) (pairs []*ast.MappingValueNode) {
	from, _, _ := r.inner(m.Value)
	sources := []ast.Node{from}
	if list, ok := from.(*ast.SequenceNode); ok {
		sources = list.Values
	}
	for _, n := range sources {
		n, _, _ = r.inner(n)
		for _, pair := range yamlfile.Pairs(n) {
			switch {
			case !pair.Key.IsMergeKey():
				pairs = append(pairs, pair)
			case depth < maxAliases:
				pairs = append(pairs, r.merged(pair, depth+1)...)
			}
		}
	}
	return pairs
}

func (r *yamlReader) readMember(e *entry, m *ast.MappingValueNode, flow bool) {
	between := ", "
	if !flow {
		between = r.newline + r.indent(m.Key.GetToken())
	}
	from, _ := r.offset(m.Key.GetToken())
	to, known := r.endOf(m.Value)
	e.addSlot(&goose, key(m), span{from, to}, between, known)
	if !isEmpty(m.Value) || key(m) != "envs" && key(m) != "env_keys" { // headers are made with these
		e.members = append(e.members, member{key: key(m)})
	}
	switch key(m) {
	case "cmd":
		v, err := r.command(m.Value)
		if e.command = v; err != nil {
			e.setProblem(err, r.position(m.Key))
		}
		e.begins = between + "args: [ "
	case "args":
		r.readArgs(e, m)
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

// command returns the value of a command, as it can be moved into a list with its anchor and
// its tag. The error says why it cannot be; without one, a command without a span is missing.
func (r *yamlReader) command(n ast.Node) (value, error) {
	inner, shared, tag := r.inner(n)
	text, isString := inner.(*ast.StringNode)
	from := r.position(n)
	switch alias, isAlias := n.(*ast.AliasNode); {
	case isAlias && isString:
		return value{span: span{from, from + 1 + len(alias.Value.GetToken().Value)}, text: text.Value, string: true}, nil
	case shared:
		return value{}, ErrShared
	case inner == nil || inner.Type() == ast.NullType && tag == "":
		return value{}, nil
	case inner.Type() == ast.LiteralType:
		return value{}, ErrLines
	case tag != "" && tag != "!!str":
		return value{}, ErrTag
	}
	v, ok := r.value(inner)
	switch {
	case !isString && tag == "":
		return value{}, ErrOddCommand
	case !ok || bytes.ContainsAny(r.text[from:v.to], "\n"):
		return value{}, ErrLines
	case !isString:
		v.string, v.text = true, inner.GetToken().Value
	}
	v.from = from
	return v, nil
}

func isScalar(n ast.Node) bool {
	_, ok := n.(ast.ScalarNode)
	return ok
}

func (r *yamlReader) readArgs(e *entry, m *ast.MappingValueNode) {
	at := r.position(m.Key)
	inner, shared, _ := r.inner(m.Value)
	list, ok := inner.(*ast.SequenceNode)
	switch {
	case !ok:
		e.setProblem(ErrOddArgs, at)
		return
	case shared:
		e.setProblem(ErrShared, at)
		return
	}
	e.hasArgs, e.args = true, nil
	for _, n := range list.Values {
		v, _ := r.command(n)
		if inner, _, _ := r.inner(n); !isScalar(inner) {
			e.setProblem(ErrOddArgs, r.position(n))
		}
		if v.span == (span{}) { // it stays where it is, in whatever form
			v.from = r.position(n)
		}
		e.args = append(e.args, v)
	}
	from, ok := r.offset(list.Start)
	if list.IsFlowStyle {
		to, closed := r.offset(list.End)
		e.list, ok = span{from, to + 1}, ok && closed
	} else {
		// The span starts after the colon, so that the list can become empty.
		colon, found := r.offset(m.Start)
		indent := r.indent(list.Start)
		e.list, e.item = span{colon + 1, max(colon+1, e.args[len(e.args)-1].to)}, r.newline+indent+"- "
		ok = ok && found && strings.Trim(indent, " ") == ""
	}
	if !ok {
		e.setProblem(ErrUnread, at)
	}
}

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
	if !isScalar(n) {
		return v, false
	}
	t := n.GetToken()
	from, ok := r.offset(t)
	if !ok {
		return v, false
	}
	if s, isString := n.(*ast.StringNode); isString {
		v.string, v.text = true, s.Value
	}
	length := len(t.Value)
	switch t.Type {
	case token.DoubleQuoteType, token.SingleQuoteType:
		length = quotedLength(r.text[from:])
	default:
		v.fixed = strings.ContainsAny(t.Value, ",[]{}?#\"'\n") || strings.Contains(t.Value, ": ")
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

// A tomlReader collects the entries of a configuration in TOML.
type tomlReader struct {
	text  []byte
	start int // after the byte order mark
	p     unstable.Parser
	found []*entry
}

// readTOML reads the configuration of Codex: the tables in mcp_servers.
func readTOML(config []byte) ([]*entry, error) {
	r := &tomlReader{text: config}
	if bytes.HasPrefix(config, []byte("\ufeff")) { // blanks of the same length
		config = append([]byte("   "), config[3:]...)
		r.text, r.start = config, 3
	}
	r.p.Reset(config)
	var table []string
	for r.p.NextExpression() {
		n := r.p.Expression()
		switch n.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = keys(n.Key())
			r.entryOf(table)
		case unstable.KeyValue:
			r.readPair(n, table, false)
		}
	}
	return r.found, r.p.Error()
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
	v := n.Value()
	if v.Kind == unstable.InlineTable {
		for it := v.Children(); it.Next(); {
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
	e.members = append(e.members, member{key: path[2]})
	to, ok := r.endOf(n)
	e.addSlot(&codex, path[2], span{int(lastKey(n).Raw.Offset), to}, r.between(n, inline), ok)
	switch key := path[2]; {
	case key == "command" && v.Kind != unstable.String:
		e.setProblem(ErrOddCommand, int(n.Raw.Offset))
	case key == "command":
		if e.command.span != (span{}) {
			e.setProblem(ErrTwice, int(n.Raw.Offset))
		}
		e.command = valueOf(v)
		e.begins = r.between(n, inline) + "args = [ "
	case key == "args" && v.Kind != unstable.Array:
		e.setProblem(ErrOddArgs, int(n.Raw.Offset))
	case key == "args":
		if e.hasArgs {
			e.setProblem(ErrTwice, int(n.Raw.Offset))
		}
		r.readArgs(e, n)
	case key == "url":
		e.remote, e.url = true, string(v.Data)
		e.scattered = e.scattered || v.Kind != unstable.String
	case key == "http_headers":
		e.headers = stringsOf(v)
	case key == "env":
		e.env = stringsOf(v)
	}
}

// stringsOf returns an inline table whose members are all strings; nil for any other value.
func stringsOf(v *unstable.Node) map[string]string {
	if v.Kind != unstable.InlineTable {
		return nil
	}
	found := map[string]string{}
	for it := v.Children(); it.Next(); {
		n := it.Node()
		if path := keys(n.Key()); n.Kind == unstable.KeyValue && len(path) == 1 && n.Value().Kind == unstable.String {
			found[path[0]] = string(n.Value().Data)
			continue
		}
		return nil
	}
	return found
}

// endOf returns the end of a pair whose value is a string, a list or an inline table.
func (r *tomlReader) endOf(n *unstable.Node) (int, bool) {
	v := n.Value()
	last := map[unstable.Kind]string{unstable.Array: "]", unstable.InlineTable: "}"}[v.Kind]
	if v.Kind == unstable.String {
		return valueOf(v).to, true
	}
	pair := r.text[n.Raw.Offset : n.Raw.Offset+n.Raw.Length]
	return int(n.Raw.Offset) + len(pair), last != "" && bytes.HasSuffix(pair, []byte(last))
}

func (r *tomlReader) readArgs(e *entry, n *unstable.Node) {
	e.hasArgs, e.args = true, nil
	for it := n.Value().Children(); it.Next(); {
		if it.Node().Kind != unstable.Comment {
			e.args = append(e.args, valueOf(it.Node()))
			if it.Node().Kind != unstable.String {
				e.setProblem(ErrOddArgs, int(n.Raw.Offset))
			}
		}
	}
	from := int(lastKey(n).Raw.Offset + lastKey(n).Raw.Length)
	to := int(n.Raw.Offset + n.Raw.Length)
	open, end := bytes.IndexByte(r.text[from:to], '['), bytes.LastIndexByte(r.text[from:to], ']')
	if e.list = (span{from + open, from + end + 1}); open < 0 || end < open {
		e.setProblem(ErrUnread, from)
	}
}

// lastKey returns the last part of a pair's key.
func lastKey(n *unstable.Node) (last *unstable.Node) {
	for it := n.Key(); it.Next(); {
		last = it.Node()
	}
	return last
}

func valueOf(n *unstable.Node) value {
	from := int(n.Raw.Offset)
	return value{span: span{from, from + int(n.Raw.Length)}, text: string(n.Data), string: n.Kind == unstable.String}
}

// between returns the separator of members. Members of a table are on separate lines, with the
// indentation of this one.
func (r *tomlReader) between(n *unstable.Node, inline bool) string {
	if inline {
		return ", "
	}
	at := int(lastKey(n).Raw.Offset)
	line := max(bytes.LastIndexByte(r.text[:at], '\n')+1, r.start)
	return newline(r.text) + string(r.text[line:at])
}

// newline returns the line ending of a text.
func newline(text []byte) string {
	if bytes.Contains(text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}
