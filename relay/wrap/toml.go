package wrap

import (
	"bytes"
	"slices"

	"github.com/pelletier/go-toml/v2/unstable"
)

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
