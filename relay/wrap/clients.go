package wrap

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
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
