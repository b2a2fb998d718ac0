package wrap

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// A span is where something stands in a configuration.
type span struct{ from, to int }

// An entry is the configuration of a server.
type entry struct {
	text    []byte // the configuration, without comments
	command span   // a string
	list    span   // the arguments, if hasArgs, with their brackets
	args    []span
	hasArgs bool
	remote  bool
	twice   bool
	oddArgs bool // they are no list
}

// find returns the entry of a server.
func find(config []byte, server string) (*entry, error) {
	text, err := plain(config)
	if err != nil {
		return nil, err
	}
	names, found, err := servers(text, server)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, &NotFoundError{server, names}
	case len(found) > 1:
		return nil, fmt.Errorf("%w: %q is there %d times", ErrTwice, server, len(found))
	}
	e := found[0]
	switch {
	case e.twice:
		return nil, ErrTwice
	case e.command == span{} && e.remote:
		return nil, ErrRemote
	case e.command == span{}:
		return nil, ErrNoCommand
	case e.oddArgs:
		return nil, ErrOddArgs
	}
	return e, nil
}

// servers reads a configuration: the names of all servers, and the entries of
// one.
func servers(text []byte, server string) (names []string, found []*entry, err error) {
	var s jsonscan.Scanner
	s.Init(text)
	collect := func() {
		for ok := s.Object(); ok && s.Next(); {
			name := string(s.Key())
			if names = append(names, name); name == server {
				e := &entry{text: text}
				e.readEntry(&s, "command")
				found = append(found, e)
			}
		}
	}
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "mcpServers", "servers", "context_servers", "agent_servers":
			collect()
		case "mcp": // in the settings of VS Code
			for ok := s.Object(); ok && s.Next(); {
				if string(s.Key()) == "servers" {
					collect()
				}
			}
		}
	}
	return names, found, s.End()
}

// readEntry reads an entry, whose command has the key command.
func (e *entry) readEntry(s *jsonscan.Scanner, command string) {
	for ok := s.Object(); ok && s.Next(); {
		from := s.Offset()
		switch key := string(s.Key()); {
		case key == command && s.Peek() == jsonscan.String:
			e.twice = e.twice || e.command != span{}
			e.command = span{from, from + len(s.Value())}
		case key == "command" && s.Peek() == jsonscan.Object: // of older versions of Zed
			e.readEntry(s, "path")
		case key == "args" && s.Peek() != jsonscan.Array:
			e.oddArgs = true
		case key == "args":
			e.twice = e.twice || e.hasArgs
			e.readArgs(s, from)
		case key == "url" || key == "httpUrl" || key == "serverUrl":
			e.remote = true
		}
	}
}

func (e *entry) readArgs(s *jsonscan.Scanner, from int) {
	e.hasArgs, e.args = true, nil
	for ok := s.Array(); ok && s.Elem(); {
		at := s.Offset()
		e.args = append(e.args, span{at, at + len(s.Value())})
	}
	e.list = span{from, s.Offset()}
}

// word returns what a string says.
func (e *entry) word(at span) string {
	text, _ := jsonscan.Unquote(e.text[at.from:at.to])
	return string(text)
}

// wrapped returns which of the arguments is the server's own command, and -1
// if the server does not run through wirectl.
func (e *entry) wrapped() int {
	program := path.Base(strings.ReplaceAll(e.word(e.command), `\`, "/"))
	if !strings.HasPrefix(program, "wirectl") || len(e.args) == 0 || e.word(e.args[0]) != "relay" {
		return -1
	}
	i := slices.IndexFunc(e.args, func(at span) bool { word := e.word(at); return word == "exec" || word == "--" })
	if i < 0 || i+1 == len(e.args) || jsonscan.KindOf(e.text[e.args[i+1].from:]) != jsonscan.String {
		return -1
	}
	return i + 1
}

// plain turns into JSON what may be JSON with comments, trailing commas and a byte
// order mark: blanks take theirs, so that every position stays. What is broken is
// returned as it is, with the error.
func plain(config []byte) ([]byte, error) {
	text := bytes.Clone(config)
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		copy(text, "   ")
	}
	return hujson.Standardize(text)
}
