package wrap

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

const (
	// HeadersVariable is the environment variable with the headers for a server over HTTP,
	// as lines of NAME: VALUE.
	HeadersVariable = "WIRECTL_HEADERS"
	// entryVariable is the environment variable with the entry before Bridge.
	entryVariable = "WIRECTL_WRAPPED"
)

// addressed are the members of a JSON entry that a command replaces: they say how to reach a
// server over HTTP. An entry with a member of logins is not bridged. The client may have to get
// a token, or the server is not over HTTP.
var (
	addresses = []string{"url", "httpUrl", "serverUrl"}
	addressed = append([]string{"type", "transport", "headers"}, addresses...)
	logins    = []string{
		"oauth", "auth", "authProviderType", "headersHelper", "env", "envFile", "command", "args",
		"bearer_token", "bearer_token_env_var", "env_http_headers", "http_headers_helper", "env_vars", "scopes", "oauth_resource", "cwd", // Codex
		"cmd", "envs", "env_keys", "socket", // Goose
	}
)

// A dialect is the form of entries that are edited member by member.
type dialect struct {
	command, args, env, is string
	slots                  []string // the members that Bridge replaces or adds
}

var (
	codex = dialect{"command", "args", "env", " = ", []string{"url", "http_headers", "command", "args", "env"}}
	goose = dialect{"cmd", "args", "envs", ": ", []string{"type", "uri", "url", "headers", "envs", "cmd", "args"}}
)

// addSlot records the position of a member that Bridge may replace, and the separator.
func (e *entry) addSlot(d *dialect, key string, at span, between string, known bool) {
	switch {
	case !slices.Contains(d.slots, key):
		return
	case len(e.slots) == 0:
		e.between, e.whole = between, at
	}
	e.scattered = e.scattered || !known || between != e.between || at.from < e.whole.to && len(e.slots) > 0
	e.slots = append(e.slots, member{key, at})
	e.whole.to = at.to
}

// bridges reports whether the server of an entry, which is reached over HTTP, can get a
// command without losing anything.
func (e *entry) bridges() bool {
	var seen []string
	found := 0
	for _, m := range e.members {
		if slices.Contains(addresses, m.key) || m.key == "uri" {
			found++
		}
		isHeaders := m.key == "headers" || m.key == "http_headers"
		if slices.Contains(logins, m.key) || slices.Contains(seen, m.key) || isHeaders && e.headers == nil {
			return false
		}
		seen = append(seen, m.key)
	}
	for name, value := range e.headers {
		if name == "" || strings.ContainsAny(name+value, "\r\n\x00") || strings.Contains(name, ":") {
			return false
		}
	}
	return e.whole != span{} && !e.scattered && found == 1
}

// header returns the headers that the client sends.
func (e *entry) header() http.Header {
	h := http.Header{}
	for name, value := range e.headers {
		h.Set(name, value)
	}
	return h
}

// isBridge reports whether Bridge made the command of an entry.
func (e *entry) isBridge() bool {
	return e.whole != span{} && !e.scattered && e.env[entryVariable] != ""
}

// Bridge returns the configuration in which a server over HTTP gets a command: a program,
// and its arguments before the address. The headers, and the original entry for Unwrap,
// are in its environment.
func (f Format) Bridge(config []byte, server string, with []string) ([]byte, error) {
	e, err := f.entry(config, server)
	if remote, ok := errors.AsType[*RemoteError](err); !ok || !remote.Bridges {
		if err == nil {
			err = ErrUnread
		}
		return nil, err
	}
	var headers strings.Builder
	for _, name := range slices.Sorted(maps.Keys(e.headers)) {
		headers.WriteString(name + ": " + e.headers[name] + "\n")
	}
	env := []string{entryVariable, string(config[e.whole.from:e.whole.to])}
	if headers.Len() > 0 {
		env = append([]string{HeadersVariable, headers.String()}, env...)
	}

	var text []byte
	switch f {
	case TOML:
		text = e.inSlots(&codex, config, with, env)
	case YAML:
		text = e.inSlots(&goose, config, with, env)
	default:
		text = e.inJSON(with, env)
	}
	bridged := apply(config, []edit{{e.whole, text}})
	if back, err := f.Unwrap(bridged, server); err != nil || !bytes.Equal(back, config) {
		return nil, ErrUnread
	}
	return bridged, nil
}

// inJSON returns the entry with a command and its environment: names and values in turn.
func (e *entry) inJSON(with, env []string) []byte {
	text := []byte(`{ `)
	for _, m := range e.members {
		switch {
		case m.key == "type":
			text = append(text, `"type": "stdio", `...)
		case !slices.Contains(addressed, m.key):
			text = append(jsonscan.AppendQuote(text, []byte(m.key)), ": "...)
			text = append(append(text, e.text[m.from:m.to]...), ", "...)
		}
	}
	text = append(append(text, `"command": `...), quoted(with[:1], "")...)
	text = append(append(text, `, "args": [`...), quoted(append(slices.Clone(with[1:]), e.url), ", ")...)
	text = append(text, `], "env": { `...)
	for i := 0; i < len(env); i += 2 {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = append(jsonscan.AppendQuote(text, []byte(env[i])), ": "...)
		text = jsonscan.AppendQuote(text, []byte(env[i+1]))
	}
	return append(text, ` } }`...)
}

// inSlots is inJSON for the part of an entry that has its slots. Other members stay.
func (e *entry) inSlots(d *dialect, config []byte, with, env []string) (text []byte) {
	command := append([]byte(d.command+d.is), quoted(with[:1], "")...)
	args := append([]byte(d.args+d.is+"["), quoted(append(slices.Clone(with[1:]), e.url), ", ")...)
	environment := []byte(d.env + d.is + "{ ")
	for i := 0; i < len(env); i += 2 {
		if i > 0 {
			environment = append(environment, ", "...)
		}
		environment = append(environment, env[i]+d.is...)
		environment = jsonscan.AppendQuote(environment, []byte(env[i+1]))
	}
	pairs := [][]byte{command, append(args, ']'), append(environment, " }"...)}

	isType := func(m member) bool { return m.key == "type" }
	left := len(e.slots)
	if slices.ContainsFunc(e.slots, isType) {
		left--
	}
	at := e.whole.from
	for _, slot := range e.slots {
		text = append(text, config[at:slot.from]...)
		at = slot.to
		if isType(slot) {
			text = append(text, "type"+d.is+"stdio"...)
			continue
		}
		n := 1
		if left--; left == 0 {
			n = len(pairs)
		}
		text = append(text, bytes.Join(pairs[:n], []byte(e.between))...)
		pairs = pairs[n:]
	}
	return text
}

// unbridge reverses Bridge.
func (f Format) unbridge(config []byte, e *entry) ([]byte, error) {
	text := apply(config, []edit{{e.whole, []byte(e.env[entryVariable])}})
	after, err := f.read(text)
	if err != nil {
		return nil, ErrUnread
	}
	if own, err := pick(after, e.full()); err != nil || !own.remote || own.url != e.args[len(e.args)-1].text {
		return nil, ErrUnread
	}
	return text, nil
}

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
