// Package wrap puts a relay between an MCP client and one of its servers by editing the
// client's configuration: JSON, with or without comments, TOML or YAML. Only the command
// of that server changes; every other byte of the file stays.
package wrap

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/transport/mcphttp"
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

// answerTime is how long a server may take to show whether it requires a login.
const answerTime = 10 * time.Second

// reasonNot returns the reason not to bridge a server; "" if there is none.
func reasonNot(ctx context.Context, remote *RemoteError) string {
	u, err := url.Parse(remote.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "its address is not an HTTP URL"
	case shown(remote.URL) != remote.URL:
		return "its address may hold a secret, which a list of processes would show"
	}
	for _, values := range remote.Header {
		if strings.Contains(strings.Join(values, ""), "${") { // only the client knows it
			return ""
		}
	}
	c := mcphttp.NewClient(mcphttp.Config{URL: remote.URL, Options: mcphttp.Options{Header: remote.Header}})
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	answer, err := c.Post(ctx, []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"wirectl","version":"0"}}}`), nil)
	refused, isRefused := errors.AsType[*mcphttp.StatusError](err)
	switch {
	case isRefused && refused.Code == http.StatusUnauthorized:
		return "it requires a login (HTTP 401), which the client does"
	case err != nil && !isRefused:
		return "it did not answer: " + cmp.Or(errors.Unwrap(err), err).Error()
	case err == nil:
		answer.Close()
	}
	_ = c.Close() // best effort
	return ""
}

const (
	// HeadersVariable is the environment variable with the headers for a server over HTTP,
	// as lines of NAME: VALUE.
	HeadersVariable = "WIRECTL_HEADERS"
	// entryVariable is the environment variable with the entry before Bridge.
	entryVariable = "WIRECTL_WRAPPED"
)

// AddHeaders adds the headers in the environment, which no list of processes shows.
func AddHeaders(to http.Header, getenv func(string) string) error {
	for line := range strings.Lines(getenv(HeadersVariable)) {
		line = strings.TrimRight(line, "\r\n")
		name, value, ok := strings.Cut(line, ":")
		switch {
		case line == "":
		case !ok || name == "":
			return fmt.Errorf("invalid %s: want lines of NAME: VALUE", HeadersVariable)
		default:
			to.Add(name, strings.TrimSpace(value))
		}
	}
	return nil
}

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

// A dialect says what the members of entries are called, and how a client writes them.
type dialect struct {
	command, args, env, headers string
	addresses                   []string
	quote, is                   string   // around a key, and between it and its value
	slots                       []string // the members that Bridge replaces or adds; none for JSON
	empty                       []string // members that mean nothing if they are empty
	expands                     bool     // $ in a header begins a variable
}

var (
	usual    = dialect{"command", "args", "env", "headers", addresses, `"`, `: `, nil, nil, false}
	olderZed = dialect{"path", "args", "env", "headers", addresses, `"`, `: `, nil, nil, false} // in its member command
	codex    = dialect{
		"command", "args", "env", "http_headers",
		[]string{"url"},
		"", " = ",
		[]string{"url", "http_headers", "command", "args", "env"},
		nil, false,
	}
	goose = dialect{
		"cmd", "args", "envs", "headers",
		[]string{"uri", "url"},
		"", ": ",
		[]string{"type", "uri", "url", "headers", "envs", "cmd", "args"},
		[]string{"envs", "env_keys"},
		true,
	}
)

// key returns a key, up to its value.
func (d *dialect) key(name string) string { return d.quote + name + d.quote + d.is }

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

	d := map[Format]*dialect{JSON: &usual, TOML: &codex, YAML: &goose}[f]
	var variables []string
	for i := 0; i < len(env); i += 2 {
		variables = append(variables, d.key(env[i])+string(quoted(env[i+1:i+2], "")))
	}
	text := e.with(d, config, []string{
		d.key(d.command) + string(quoted(with[:1], "")),
		d.key(d.args) + "[" + string(quoted(append(slices.Clone(with[1:]), e.url), ", ")) + "]",
		d.key(d.env) + "{ " + strings.Join(variables, ", ") + " }",
	})
	bridged := apply(config, []edit{{e.whole, text}})
	if back, err := f.Unwrap(bridged, server); err != nil || !bytes.Equal(back, config) {
		return nil, ErrUnread
	}
	return bridged, nil
}

// with returns the entry, or the part of it that has its slots, with members instead of those that
// a command replaces.
func (e *entry) with(d *dialect, config []byte, members []string) (text []byte) {
	if d.slots == nil {
		for _, m := range e.members {
			switch {
			case m.key == "type":
				text = append(text, `"type": "stdio", `...)
			case !slices.Contains(addressed, m.key):
				text = append(jsonscan.AppendQuote(text, []byte(m.key)), d.is...)
				text = append(append(text, e.text[m.from:m.to]...), ", "...)
			}
		}
		return slices.Concat([]byte("{ "), text, []byte(strings.Join(members, ", ")), []byte(" }"))
	}
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
			text = append(text, d.key("type")+"stdio"...)
			continue
		}
		n := 1
		if left--; left == 0 {
			n = len(members)
		}
		text = append(text, strings.Join(members[:n], e.between)...)
		members = members[n:]
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
