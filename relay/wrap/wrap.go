// Package wrap puts a relay between an MCP client and one of its servers by editing the
// client's configuration: JSON, with or without comments, TOML or YAML. Only the command
// of that server changes; every other byte of the file stays.
package wrap

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/nearest"
)

// A Format is the format of a configuration.
type Format uint8

// The formats.
const (
	JSON Format = iota // with comments and trailing commas, too
	TOML
	YAML
)

// FormatOf returns the format by the name of a file.
func FormatOf(name string) Format {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".toml":
		return TOML
	case ".yaml", ".yml":
		return YAML
	}
	return JSON
}

// The reasons why a server cannot be wrapped or unwrapped.
var (
	ErrWrapped    = errors.New("it runs through wirectl already")
	ErrNotWrapped = errors.New("it does not run through wirectl")
	ErrRemote     = errors.New("it is reached over HTTP, and has no command")
	ErrNoCommand  = errors.New("it has no command")
	ErrOddCommand = errors.New("its command is not a string")
	ErrOddArgs    = errors.New("its args are not a list of strings")
	ErrLines      = errors.New("its command is on several lines: write it on one")
	ErrMerged     = errors.New("it has a command or args from a merge (<<): write them into the entry")
	ErrShared     = errors.New("it, its command or its args are shared by an anchor and an alias: write them out")
	ErrTag        = errors.New("its command has a tag other than !!str")
	ErrUnquoted   = errors.New("its command is not in quotes: put it in quotes")
	ErrTwice      = errors.New("it has a duplicate key")
	ErrUnread     = errors.New("its syntax cannot be edited safely")
)

// A RemoteError is [ErrRemote] with the address of the server and the client's headers.
type RemoteError struct {
	URL    string
	Header http.Header
	// Bridges means that [Format.Bridge] can give it a command. Why is the reason not to do so.
	Bridges bool
	Why     string
}

func (e *RemoteError) Error() string {
	if e.Why != "" {
		return "it is reached over HTTP: " + e.Why
	}
	return ErrRemote.Error()
}

func (e *RemoteError) Unwrap() error { return ErrRemote }

// A NotFoundError means that a configuration has no server of that name, or several.
type NotFoundError struct {
	Name string
	// Servers are the available names.
	Servers []string
	several bool
}

func (e *NotFoundError) Error() string {
	list := strings.Join(e.Servers, ", ")
	switch {
	case len(e.Servers) == 0:
		return "it has no servers: none of mcpServers, servers, context_servers, agent_servers, mcp_servers and extensions is there"
	case e.Name == "":
		return "name one of its servers, or write --all: " + list
	case e.several:
		return fmt.Sprintf("several servers have the name %q: choose one of %s", e.Name, list)
	}
	return fmt.Sprintf("there is no server %q%s; there are: %s", e.Name, nearest.Question(e.Name, e.Servers), list)
}

// Wrap returns the configuration in which a server runs through with: a program and its
// arguments, without the "exec" before the server's own command. It uses "exec" and not
// "--", because some clients, and npx, interpret "--" themselves.
func (f Format) Wrap(config []byte, server string, with []string) ([]byte, error) {
	e, err := f.entry(config, server)
	if err != nil {
		return nil, err
	}
	if e.wrapped() >= 0 {
		return nil, ErrWrapped
	}
	between := ", "
	if e.item != "" {
		between = e.item
	}
	words := quoted(append(slices.Clone(with[1:]), "exec"), between)
	words = append(words, between...)
	words = append(words, config[e.command.from:e.command.to]...)
	edits := []edit{{e.command.span, quoted(with[:1], "")}}
	switch {
	case !e.hasArgs:
		text := append([]byte(e.begins), words...)
		edits = append(edits, edit{span{e.command.to, e.command.to}, append(text, ends...)})
	case e.item != "":
		first := e.args[0].from
		edits = append(edits, edit{span{first, first}, append(words, between...)})
	default:
		if len(e.args) > 0 {
			words = append(words, ',')
		}
		edits = append(edits, edit{span{e.list.from + 1, e.list.from + 1}, words})
	}
	wrapped := apply(config, edits)
	if back, err := f.Unwrap(wrapped, server); err != nil || !bytes.Equal(back, config) {
		return nil, e.at(ErrUnread, e.command.from)
	}
	return wrapped, nil
}

// ends follows arguments that Wrap had to add; entry.begins precedes them. An existing list
// has no blank after its bracket, so that Unwrap can distinguish the two.
const ends = ` ]`

// Unwrap reverses Wrap: it restores the configuration.
func (f Format) Unwrap(config []byte, server string) ([]byte, error) {
	e, err := f.entry(config, server)
	if err != nil {
		return nil, err
	}
	at := e.wrapped()
	if at < 0 {
		return nil, ErrNotWrapped
	}
	if e.isBridge() {
		return f.unbridge(config, e)
	}
	own := e.args[at]
	if own.fixed {
		return nil, e.at(ErrUnquoted, own.from)
	}
	edits := []edit{{e.command.span, config[own.from:own.to]}}
	added := bytes.HasPrefix(config[e.command.to:], []byte(e.begins)) && e.list.from == e.command.to+len(e.begins)-2
	switch last := at == len(e.args)-1; {
	case added && last:
		edits = append(edits, edit{span{e.command.to, e.list.to}, nil})
	case e.item != "" && last:
		edits = append(edits, edit{e.list, []byte(" []")})
	case e.item != "":
		edits = append(edits, edit{span{e.args[0].from, e.args[at+1].from}, nil})
	case last:
		edits = append(edits, edit{span{e.list.from + 1, own.to}, nil})
	default:
		comma := bytes.IndexByte(e.text[own.to:], ',')
		edits = append(edits, edit{span{e.list.from + 1, own.to + comma + 1}, nil})
	}
	text := apply(config, edits)
	after, err := f.entry(text, server)
	if err != nil || after.command.text != own.text || !slices.EqualFunc(after.args, e.args[at+1:], sameText) {
		return nil, e.at(ErrUnread, own.from)
	}
	return text, nil
}

func sameText(a, b value) bool { return a.text == b.text && a.string == b.string }

// An edit replaces a span by text.
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

// quoted returns words as elements of a list, with a separator. JSON strings are valid in
// TOML and YAML.
func quoted(words []string, between string) (list []byte) {
	for i, w := range words {
		if i > 0 {
			list = append(list, between...)
		}
		list = jsonscan.AppendQuote(list, []byte(w))
	}
	return list
}
