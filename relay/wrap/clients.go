package wrap

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
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

// WriteList lists configurations and their servers: as text, or with a line of JSON for each server. It
// calls faulty for an invalid configuration.
func WriteList(w io.Writer, ndjson bool, files []File, faulty func(File, error)) error {
	for _, file := range files {
		config, err := readFile(file.Name)
		servers, invalid := FormatOf(file.Name).Servers(config)
		if err = errors.Join(err, invalid); err != nil {
			faulty(file, err)
		}
		text := fmt.Appendf(nil, "%s  %s\n", file.Client, render.Safe(file.Name))
		if ndjson {
			text = nil
		}
		for _, s := range servers {
			if ndjson {
				text = append(append(text, jsonscan.MustMarshal(struct {
					Client string `json:"client"`
					Config string `json:"config"`
					Server
				}{file.Client, file.Name, s})...), '\n')
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

// Hosts returns the hosts, as HOST:PORT, of the servers over HTTP in the configurations of some clients.
func Hosts(getenv func(string) string, here string, clients []string) (hosts []string) {
	for _, u := range Remotes(getenv, here, clients) {
		port := map[string]string{"http": "80", "https": "443"}[u.Scheme]
		if port = cmp.Or(u.Port(), port); port != "" && u.Hostname() != "" {
			hosts = append(hosts, net.JoinHostPort(u.Hostname(), port))
		}
	}
	return hosts
}

// Remotes returns the addresses of the servers over HTTP in the configurations of some clients. It skips
// files that cannot be read.
func Remotes(getenv func(string) string, here string, clients []string) (list []*url.URL) {
	files, _ := Found(getenv, here)
	for _, file := range files {
		if !slices.Contains(clients, file.Client) {
			continue
		}
		config, err := readFile(file.Name)
		if err != nil {
			continue
		}
		entries, _ := FormatOf(file.Name).read(config)
		for _, e := range entries {
			if u, err := url.Parse(e.url); err == nil && e.url != "" && (e.project == "" || e.project == here) {
				list = append(list, u)
			}
		}
	}
	return list
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

// A Server is a server in a configuration.
type Server struct {
	// Name is the name for Wrap. The name of a server for one project begins with the
	// project and a colon.
	Name    string `json:"server"`
	Project string `json:"project,omitempty"`
	// Remote means that it is reached over HTTP.
	Remote bool `json:"remote,omitempty"`
	// NoCommand means that it has neither a command nor an address: it may be a part of
	// the client.
	NoCommand bool `json:"-"`
	// Wrapped means that it runs through wirectl. Record is the level of recording; ""
	// records nothing.
	Wrapped bool   `json:"wrapped"`
	Record  string `json:"record,omitempty"`

	// Argv is the command with its arguments; nil if it has none, or they are not just words.
	Argv []string `json:"-"`
	// URL is the address of a server over HTTP, and HasHeaders that the client sends headers of its
	// own to it.
	URL        string `json:"-"`
	HasHeaders bool   `json:"-"`
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
		s := Server{Name: e.full(), Project: e.project, URL: e.url, HasHeaders: len(e.headers) > 0}
		if words := append([]value{e.command}, e.args...); e.problem == nil && !slices.ContainsFunc(words, func(v value) bool { return !v.string }) {
			for _, word := range words {
				s.Argv = append(s.Argv, word.text)
			}
		}
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

// ServersIn returns the servers of a configuration file: none if the file cannot be read, and those
// before the error if it is invalid.
func ServersIn(file string) []Server {
	config, err := readFile(file)
	if err != nil {
		return nil
	}
	list, _ := FormatOf(file).Servers(config)
	return list
}

// Completable returns the servers of a configuration file for shell completion.
func Completable(file string) []Server {
	list := ServersIn(file)
	// Completion scripts would misinterpret these names.
	return slices.DeleteFunc(list, func(s Server) bool { return s.Name != render.Safe(s.Name) || strings.HasPrefix(s.Name, ":") })
}
