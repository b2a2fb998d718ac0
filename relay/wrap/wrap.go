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
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/internal/render"
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

// read reads the servers of a configuration. If it is invalid, it returns those before the
// error.
func (f File) read() ([]Server, error) {
	config, err := readFile(f.Name)
	servers, faulty := FormatOf(f.Name).Servers(config)
	return servers, errors.Join(err, faulty)
}

// WriteList lists configurations and their servers: as text, or with a line of JSON for each server. It
// calls faulty for an invalid configuration.
func WriteList(w io.Writer, ndjson bool, files []File, faulty func(File, error)) error {
	for _, file := range files {
		servers, err := file.read()
		if err != nil {
			faulty(file, err)
		}
		text := fmt.Appendf(nil, "%s  %s\n", file.Client, render.Safe(file.Name))
		if ndjson {
			text = nil
		}
		for _, s := range servers {
			if ndjson {
				text = append(append(text, jsonscan.MustMarshal(listed{file.Client, file.Name, s.Name, s.Project, s.Remote, s.Wrapped, s.Record})...), '\n')
			} else {
				text = fmt.Appendf(text, "  %s  %s\n", render.Safe(s.Name), s.state())
			}
		}
		switch {
		case ndjson:
		case err != nil && len(servers) > 0:
			text = append(text, "  (the rest cannot be read)\n"...)
		case err != nil:
			text = append(text, "  (cannot be read)\n"...)
		case len(servers) == 0:
			text = append(text, "  (no servers)\n"...)
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// state describes how a server runs.
func (s Server) state() string {
	switch {
	case s.Remote:
		return "(over HTTP)"
	case s.NoCommand:
		return "(no command)"
	case s.Record != "":
		return "(wrapped, records " + render.Safe(s.Record) + ")"
	case s.Wrapped:
		return "(wrapped)"
	}
	return "(not wrapped)"
}

// A listed server is a line of NDJSON.
type listed struct {
	Client  string `json:"client"`
	Config  string `json:"config"`
	Server  string `json:"server"`
	Project string `json:"project,omitempty"`
	Remote  bool   `json:"remote,omitempty"`
	Wrapped bool   `json:"wrapped"`
	Record  string `json:"record,omitempty"`
}

// A Server is a server in a configuration.
type Server struct {
	// Name is the name for Wrap. The name of a server for one project begins with the
	// project and a colon.
	Name    string
	Project string
	// Remote means that it is reached over HTTP.
	Remote bool
	// NoCommand means that it has neither a command nor an address: it may be a part of
	// the client.
	NoCommand bool
	// Wrapped means that it runs through wirectl. Record is the level of recording; ""
	// records nothing.
	Wrapped bool
	Record  string
}

// Short is the name without the project.
func (s Server) Short() string {
	if s.Project == "" {
		return s.Name
	}
	return strings.TrimPrefix(s.Name, s.Project+":")
}

// Servers returns the servers of a configuration, each once and in order. If it is invalid,
// it returns those before the error.
func (f Format) Servers(config []byte) ([]Server, error) {
	all, err := f.read(config)
	var list []Server
	for _, e := range all {
		if slices.ContainsFunc(list, func(s Server) bool { return s.Name == e.full() }) {
			continue
		}
		s := Server{Name: e.full(), Project: e.project}
		if e.command.span == (span{}) {
			s.Remote, s.NoCommand = e.remote, !e.remote && e.problem == nil && err == nil
		}
		if at := e.wrapped(); at >= 0 && e.fault() == nil {
			s.Wrapped, s.Record = true, e.recorded(at)
		}
		list = append(list, s)
	}
	return list, err
}

// recorded returns the level in the first arguments, which are those of a relay.
func (e *entry) recorded(at int) string {
	for _, v := range e.args[:at] {
		if level, ok := strings.CutPrefix(v.text, "--record="); ok {
			return level
		}
	}
	return ""
}

// Completable returns the servers of a configuration file for shell completion: none if the
// file cannot be read, and those before the error if it is invalid.
func Completable(file string) []Server {
	config, err := readFile(file)
	if err != nil {
		return nil
	}
	list, _ := FormatOf(file).Servers(config)
	// Completion scripts would misinterpret these names.
	return slices.DeleteFunc(list, func(s Server) bool { return s.Name != render.Safe(s.Name) || strings.HasPrefix(s.Name, ":") })
}
