// Package wrap puts a relay between an MCP client and one of its servers, by an
// edit of the client's configuration: the JSON, with or without comments, of
// Claude Desktop, Cursor, Windsurf, VS Code, Zed and others. Only the command of
// that server changes; every other byte of the file stays as it is.
package wrap

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// Why a server cannot be wrapped or unwrapped.
var (
	ErrWrapped    = errors.New("it runs through wirectl already")
	ErrNotWrapped = errors.New("it does not run through wirectl")
	ErrRemote     = errors.New("it is reached over HTTP, and has no command")
	ErrNoCommand  = errors.New("it has no command")
	ErrOddArgs    = errors.New("its args are no list")
	ErrTwice      = errors.New("it says a thing twice")
)

// A NotFoundError says that a configuration has no server of that name.
type NotFoundError struct {
	Name string
	// Servers are the names that there are.
	Servers []string
}

func (e *NotFoundError) Error() string {
	if len(e.Servers) == 0 {
		return "no servers are in it: there is no mcpServers, servers, context_servers or agent_servers"
	}
	if e.Name == "" {
		return "its servers are: " + strings.Join(e.Servers, ", ")
	}
	return fmt.Sprintf("there is no server %q%s; there are: %s", e.Name, nearest.Question(e.Name, e.Servers), strings.Join(e.Servers, ", "))
}

// Wrap returns the configuration in which a server runs through what with says:
// a program, and its arguments up to the "exec" that the server's own command is
// put behind. It is not the "--" that means the same, since there are clients,
// and npx, that keep that word for themselves.
func Wrap(config []byte, server string, with []string) ([]byte, error) {
	e, err := find(config, server)
	if err != nil {
		return nil, err
	}
	if e.wrapped() >= 0 {
		return nil, ErrWrapped
	}
	words := quoted(append(slices.Clone(with[1:]), "exec"))
	words = append(words, ", "...)
	words = append(words, config[e.command.from:e.command.to]...)
	edits := []edit{{e.command, quoted(with[:1])}}
	switch {
	case !e.hasArgs:
		text := append([]byte(begins), words...)
		edits = append(edits, edit{span{e.command.to, e.command.to}, append(text, ends...)})
	default:
		if len(e.args) > 0 {
			words = append(words, ',')
		}
		edits = append(edits, edit{span{e.list.from + 1, e.list.from + 1}, words})
	}
	return apply(config, edits), nil
}

// What stands around arguments that Wrap had to add. A list that was there has
// no blank behind its bracket, so that Unwrap knows which is which.
const (
	begins = `, "args": [ `
	ends   = ` ]`
)

// Unwrap is the reverse of Wrap: it gives back the configuration as it was.
func Unwrap(config []byte, server string) ([]byte, error) {
	e, err := find(config, server)
	if err != nil {
		return nil, err
	}
	at := e.wrapped()
	if at < 0 {
		return nil, ErrNotWrapped
	}
	own := e.args[at]
	edits := []edit{{e.command, config[own.from:own.to]}}
	added := bytes.HasPrefix(config[e.command.to:], []byte(begins)) && e.list.from == e.command.to+len(begins)-2
	switch {
	case added && at == len(e.args)-1:
		edits = append(edits, edit{span{e.command.to, e.list.to}, nil})
	case at == len(e.args)-1:
		edits = append(edits, edit{span{e.list.from + 1, own.to}, nil})
	default:
		comma := own.to + bytes.IndexByte(e.text[own.to:], ',')
		edits = append(edits, edit{span{e.list.from + 1, comma + 1}, nil})
	}
	return apply(config, edits), nil
}

// An edit puts text in the place of a span.
type edit struct {
	span
	text []byte
}

func apply(text []byte, edits []edit) []byte {
	slices.SortFunc(edits, func(a, b edit) int { return b.from - a.from })
	out := bytes.Clone(text)
	for _, e := range edits {
		out = slices.Replace(out, e.from, e.to, e.text...)
	}
	return out
}

// quoted is words as elements of a JSON array.
func quoted(words []string) (list []byte) {
	for i, w := range words {
		if i > 0 {
			list = append(list, ", "...)
		}
		list = jsonscan.AppendQuote(list, []byte(w))
	}
	return list
}
