package wrap

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A jsonReader collects the entries of a configuration in JSON.
type jsonReader struct {
	text  []byte
	s     jsonscan.Scanner
	found []*entry
}

func readJSON(config []byte) ([]*entry, error) {
	text, err := plain(config)
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil // clients create empty files
	}
	r := &jsonReader{text: text}
	r.s.Init(text)
	r.readMembers("")
	if end := r.s.End(); err == nil {
		err = end
	}
	return r.found, err
}

// readMembers reads an object with lists of servers, for a project or for all.
func (r *jsonReader) readMembers(project string) {
	s := &r.s
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "mcpServers", "servers", "context_servers", "agent_servers":
			r.readServers(project)
		case "mcp": // in the settings of VS Code
			for ok := s.Object(); ok && s.Next(); {
				if string(s.Key()) == "servers" {
					r.readServers(project)
				}
			}
		case "projects": // of Claude Code
			for ok := project == "" && s.Object(); ok && s.Next(); {
				r.readMembers(string(s.Key()))
			}
		}
	}
}

func (r *jsonReader) readServers(project string) {
	for ok := r.s.Object(); ok && r.s.Next(); {
		e := &entry{name: string(r.s.Key()), project: project, text: r.text, begins: `, "args": [ `}
		r.found = append(r.found, e)
		from := r.s.Offset()
		r.readEntry(e, "command")
		e.whole = span{from, r.s.Offset()}
	}
}

// readEntry reads an entry, whose command has the key command.
func (r *jsonReader) readEntry(e *entry, command string) {
	s := &r.s
	for ok := s.Object(); ok && s.Next(); {
		key, from := string(s.Key()), s.Offset()
		switch {
		case key == "command" && command == key && s.Peek() == jsonscan.Object: // of older versions of Zed
			if r.readEntry(e, "path"); e.command.span == (span{}) {
				e.setProblem(ErrOddCommand, from)
			}
		case key == command:
			if e.command.span != (span{}) {
				e.setProblem(ErrTwice, from)
			}
			switch v := r.value(); {
			case v.string:
				e.command = v
			case from < len(r.text) && r.text[from] != 'n': // not null
				e.setProblem(ErrOddCommand, from)
			}
		case key == "args" && s.Peek() != jsonscan.Array:
			e.setProblem(ErrOddArgs, from)
			r.value()
		case key == "args":
			if e.hasArgs {
				e.setProblem(ErrTwice, from)
			}
			r.readArgs(e)
		case slices.Contains(addresses, key):
			e.remote, e.url = true, r.value().text
		case key == "headers":
			e.headers = r.readStrings()
		case key == "env" && s.Peek() == jsonscan.Object:
			e.env = r.readStrings()
		default:
			r.value()
		}
		e.members = append(e.members, member{key, span{from, s.Offset()}})
	}
}

// readStrings reads an object of strings; it returns nil for any other value.
func (r *jsonReader) readStrings() map[string]string {
	found := map[string]string{}
	whole := r.s.Peek() == jsonscan.Object
	if !whole {
		r.value()
	}
	for ok := whole && r.s.Object(); ok && r.s.Next(); {
		key := string(r.s.Key())
		v := r.value()
		found[key], whole = v.text, whole && v.string
	}
	if !whole {
		return nil
	}
	return found
}

func (r *jsonReader) readArgs(e *entry) {
	from := r.s.Offset()
	e.hasArgs, e.args = true, nil
	for ok := r.s.Array(); ok && r.s.Elem(); {
		e.args = append(e.args, r.value())
	}
	e.list = span{from, r.s.Offset()}
}

// value reads the next value.
func (r *jsonReader) value() value {
	from := r.s.Offset()
	token := r.s.Value()
	v := value{span: span{from, from + len(token)}, string: jsonscan.KindOf(token) == jsonscan.String}
	if v.string {
		text, _ := jsonscan.Unquote(token)
		v.text = string(text)
	}
	return v
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
