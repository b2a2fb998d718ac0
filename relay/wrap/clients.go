package wrap

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// A Client is a program that starts servers by a configuration.
type Client struct {
	Name string
	// files are the places of its configurations: {home} is the user's folder, {apps} that
	// of application data, {here} the project, and any other the client's own.
	files []string
}

// Clients are the clients whose configurations can be edited.
var Clients = []Client{
	{"Claude Desktop", []string{"{apps}/Claude/claude_desktop_config.json"}},
	{"Claude Code", []string{"{here}/.mcp.json", "{claude}/.claude.json"}},
	{"VS Code", []string{
		"{here}/.vscode/mcp.json", "{apps}/Code/User/mcp.json", "{apps}/Code/User/settings.json",
		"{apps}/Code - Insiders/User/mcp.json",
	}},
	{"Cursor", []string{"{here}/.cursor/mcp.json", "{home}/.cursor/mcp.json"}},
	{"Windsurf", []string{"{home}/.codeium/windsurf/mcp_config.json"}},
	{"Zed", []string{"{here}/.zed/settings.json", "{zed}/settings.json"}},
	{"Codex", []string{"{here}/.codex/config.toml", "{codex}/config.toml"}},
	{"Gemini CLI", []string{"{here}/.gemini/settings.json", "{home}/.gemini/settings.json"}},
	{"Goose", []string{"{goose}/config.yaml"}},
}

// A File is a configuration that was found.
type File struct{ Client, Name string }

// Found returns the configurations on this machine, and those of the project in the
// folder here.
func Found(getenv func(string) string, here string) ([]File, error) {
	places, err := places(getenv, here)
	if err != nil {
		return nil, err
	}
	var found []File
	for _, client := range Clients {
		seen := map[string]bool{}
		for _, file := range client.files {
			name := filepath.Clean(filepath.FromSlash(places.Replace(file)))
			if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) || seen[name] {
				continue
			}
			seen[name] = true
			found = append(found, File{client.Name, name}) // reading it will report other errors
		}
	}
	return found, nil
}

// ClientOf returns the client that a configuration belongs to, by its name; "" if unknown.
func ClientOf(getenv func(string) string, file string) string {
	file, err := filepath.Abs(file)
	if err != nil {
		return ""
	}
	places, noHome := places(getenv, ".")
	for _, client := range Clients {
		for _, pattern := range client.files {
			// A project may be anywhere.
			rest, ofProject := strings.CutPrefix(pattern, "{here}")
			if ofProject && strings.HasSuffix(filepath.ToSlash(file), rest) ||
				noHome == nil && filepath.Clean(filepath.FromSlash(places.Replace(pattern))) == file {
				return client.Name
			}
		}
	}
	return ""
}

// places returns a replacer for the names of folders.
func places(getenv func(string) string, here string) (*strings.Replacer, error) {
	home := getenv("HOME")
	if runtime.GOOS == "windows" {
		home = getenv("USERPROFILE")
	}
	if home == "" {
		return nil, errors.New("the home folder is unknown: set HOME")
	}
	or := func(name, other string) string { return cmp.Or(getenv(name), other) }
	config := or("XDG_CONFIG_HOME", home+"/.config")
	apps, zed, goose := config, config+"/zed", config+"/goose"
	switch runtime.GOOS {
	case "darwin":
		apps, zed, goose = home+"/Library/Application Support", home+"/.config/zed", home+"/.config/goose"
	case "windows":
		apps = or("APPDATA", home+"/AppData/Roaming")
		zed, goose = apps+"/Zed", apps+"/Block/goose/config"
	}
	return strings.NewReplacer("{here}", here, "{home}", home, "{apps}", apps, "{zed}", zed, "{goose}", goose,
		"{claude}", or("CLAUDE_CONFIG_DIR", home), "{codex}", or("CODEX_HOME", home+"/.codex")), nil
}

// A span is a range of bytes of a configuration.
type span struct{ from, to int }

// A value is a string with its text, or another value. A fixed value cannot be moved into a
// list unchanged.
type value struct {
	span
	text          string
	string, fixed bool
}

// An entry is the configuration of a server.
type entry struct {
	text    []byte // the configuration; if it is JSON, without comments
	name    string
	project string // "" for all
	command value
	list    span // the arguments, if hasArgs, with their brackets
	args    []value
	hasArgs bool
	url     string
	remote  bool
	problem error // why it cannot be edited

	whole     span     // the entry itself, or the part from its first slot to its last
	members   []member // of the entry
	slots     []member // those that Bridge may replace; not for JSON
	between   string   // the separator of slots
	scattered bool     // the slots are not together
	headers   map[string]string
	env       map[string]string

	begins string // the text between the command and arguments that Wrap adds
	item   string // the separator of items; "" for a list in brackets
}

// A member is a member of an entry, with its value.
type member struct {
	key string
	span
}

// full is the name of the server within its file.
func (e *entry) full() string {
	if e.project == "" {
		return e.name
	}
	return e.project + ":" + e.name
}

// read returns the entries of a configuration. If it is invalid, they are those before the
// error.
func (f Format) read(config []byte) ([]*entry, error) {
	if bytes.HasPrefix(config, []byte("\xff\xfe")) || bytes.HasPrefix(config, []byte("\xfe\xff")) {
		return nil, errors.New("it is in UTF-16: save it in UTF-8")
	}
	switch f {
	case TOML:
		return readTOML(config)
	case YAML:
		return readYAML(config)
	}
	return readJSON(config)
}

// entry returns the entry of a server.
func (f Format) entry(config []byte, server string) (*entry, error) {
	all, err := f.read(config)
	if err != nil {
		return nil, err
	}
	e, err := pick(all, server)
	if err != nil {
		return nil, err
	}
	return e, e.fault()
}

// pick returns the entry of a server by its full name, or by its short name if that is
// unique.
func pick(all []*entry, server string) (*entry, error) {
	for _, name := range []func(*entry) string{(*entry).full, func(e *entry) string { return e.name }} {
		var found []*entry
		for _, e := range all {
			if name(e) == server {
				found = append(found, e)
			}
		}
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1 && found[0].full() != found[1].full():
			return nil, &NotFoundError{Name: server, Servers: fullNames(found), several: true}
		case len(found) > 1:
			return nil, fmt.Errorf("%w: %q occurs %d times", ErrTwice, server, len(found))
		}
	}
	return nil, &NotFoundError{Name: server, Servers: fullNames(all)}
}

func fullNames(all []*entry) (names []string) {
	for _, e := range all {
		names = append(names, e.full())
	}
	return names
}

// fault returns the reason why an entry cannot be edited, or nil.
func (e *entry) fault() error {
	switch {
	case e.command.span == span{} && e.remote:
		return &RemoteError{URL: e.url, Header: e.header(), Bridges: e.bridges()}
	case e.problem != nil:
		return e.problem
	case e.command.span == span{}:
		return ErrNoCommand
	case e.command.fixed:
		return e.at(ErrUnquoted, e.command.from)
	}
	return nil
}

// at adds the line of a position to an error.
func (e *entry) at(err error, pos int) error {
	return fmt.Errorf("%w (line %d)", err, 1+bytes.Count(e.text[:pos], []byte("\n")))
}

// setProblem records why the entry cannot be edited, and where. The first reason counts.
func (e *entry) setProblem(err error, pos int) {
	if e.problem == nil {
		e.problem = e.at(err, pos)
	}
}

// wrapped returns the index of the argument that is the server's own command, or its address;
// -1 if the server does not run through wirectl.
func (e *entry) wrapped() int {
	program := path.Base(strings.ReplaceAll(e.command.text, `\`, "/"))
	if len(e.args) == 0 || e.args[0].text != "relay" {
		return -1
	}
	if !strings.HasPrefix(program, "wirectl") && (len(e.args) < 2 || e.args[1].text != "--quiet") { // a copy under another name
		return -1
	}
	if e.isBridge() {
		return len(e.args) - 1
	}
	i := slices.IndexFunc(e.args, func(v value) bool { return v.text == "exec" || v.text == "--" })
	if i < 0 || i+1 == len(e.args) || !e.args[i+1].string {
		return -1
	}
	return i + 1
}
