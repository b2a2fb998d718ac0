package wrap

import (
	"bytes"
	"slices"

	"github.com/pelletier/go-toml/v2/unstable"
)

// A tomlReader collects the entries of a configuration in TOML.
type tomlReader struct {
	text  []byte
	p     unstable.Parser
	found []*entry
}

// readTOML reads the configuration of Codex: the tables in mcp_servers.
func readTOML(config []byte) ([]*entry, error) {
	r := &tomlReader{text: config}
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

// entryOf returns the entry that something with that path belongs to; nil if it belongs to none.
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
	if e == nil || len(path) != 3 {
		return
	}
	switch key := path[2]; {
	case key == "command" && v.Kind == unstable.String:
		e.twice = e.twice || e.command.span != span{}
		e.command = valueOf(v)
		e.begins = r.begins(n, inline)
	case key == "args" && v.Kind != unstable.Array:
		e.oddArgs = true
	case key == "args":
		e.twice = e.twice || e.hasArgs
		r.readArgs(e, n)
	case key == "url":
		e.remote, e.url = true, string(v.Data)
	}
}

func (r *tomlReader) readArgs(e *entry, n *unstable.Node) {
	e.hasArgs, e.args = true, nil
	for it := n.Value().Children(); it.Next(); {
		if it.Node().Kind != unstable.Comment {
			e.args = append(e.args, valueOf(it.Node()))
			e.oddArgs = e.oddArgs || it.Node().Kind != unstable.String
		}
	}
	from := int(lastKey(n).Raw.Offset + lastKey(n).Raw.Length)
	to := int(n.Raw.Offset + n.Raw.Length)
	open, end := bytes.IndexByte(r.text[from:to], '['), bytes.LastIndexByte(r.text[from:to], ']')
	if e.list = (span{from + open, from + end + 1}); open < 0 || end < open {
		e.oddArgs = true
	}
}

// lastKey is the last part of the key of a pair.
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

// begins is what stands between a command and the arguments after it: those of a table
// have a line of their own, with what the line of the command begins with.
func (r *tomlReader) begins(n *unstable.Node, inline bool) string {
	if inline {
		return ", args = [ "
	}
	at := int(lastKey(n).Raw.Offset)
	line := bytes.LastIndexByte(r.text[:at], '\n') + 1
	return newline(r.text) + string(r.text[line:at]) + "args = [ "
}

// newline is how the lines of a text end.
func newline(text []byte) string {
	if bytes.Contains(text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}
