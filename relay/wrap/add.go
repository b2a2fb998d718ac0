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
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"

	"github.com/wirectl/wirectl/capture/output"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/nearest"
)

// Words are the words for clients to whose configuration a server can be added.
func Words() (words []string) {
	for _, c := range Clients {
		words = append(words, c.word())
	}
	return words
}

// word is the word for a client: vscode, codex; claude is Claude Code.
func (c Client) word() string {
	switch c.Name {
	case "Claude Code":
		return "claude"
	case "Claude Desktop":
		return "claude-desktop"
	}
	return strings.ReplaceAll(strings.TrimSuffix(strings.ToLower(c.Name), " cli"), " ", "")
}

// own is the user's configuration of a client: the first file outside of projects.
func (c Client) own() string {
	at := slices.IndexFunc(c.files, func(file string) bool { return !strings.HasPrefix(file, "{here}") })
	return c.files[at]
}

// FileOf returns the name of the user's configuration of a client that a word names; "" if that is unknown.
func FileOf(getenv func(string) string, word string) string {
	i := slices.Index(Words(), word)
	if i < 0 {
		return ""
	}
	places, err := places(getenv, ".")
	if err != nil {
		return ""
	}
	return filepath.Clean(filepath.FromSlash(places.Replace(Clients[i].own())))
}

// OpenFor reads the configuration of a client, for adding a server or removing it. The client is a word, or the name of
// a file, which may not exist yet.
func OpenFor(getenv func(string) string, client string) (*Rewriting, error) {
	file := FileOf(getenv, client)
	if file == "" && !strings.ContainsAny(client, `./\`) {
		return nil, fmt.Errorf("there is no client %q%s; name one of %s, or a configuration", client, nearest.Question(client, Words()), strings.Join(Words(), ", "))
	}
	file = cmp.Or(file, client)
	r := &Rewriting{file: file, format: FormatOf(file), absent: true}
	var err error
	if r.before, err = readFile(file); err == nil {
		r.absent = false
		r.servers, err = r.format.Servers(r.before)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil && !strings.Contains(err.Error(), file) {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return r, err
}

// File is the name of the configuration.
func (r *Rewriting) File() string { return r.file }

// The reasons why a server cannot be added or removed.
var (
	ErrThere    = errors.New("it has a server of this name already")
	ErrNotThere = errors.New("no server has this name, so there is nothing to remove")
	ErrOther    = errors.New("the server of this name is another one")
)

// AddServer adds a server with a command.
func (r *Rewriting) AddServer(name string, argv []string) error {
	if slices.ContainsFunc(r.servers, func(s Server) bool { return s.Name == name }) {
		return fmt.Errorf("%s: %s: %w", r.file, name, ErrThere)
	}
	err := r.withServer(name, argv)
	if err == nil {
		err = r.checkServers(r.Text, r.before, name, argv)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.file, err)
	}
	r.Changed = []string{name}
	return nil
}

func (r *Rewriting) withServer(name string, argv []string) error {
	switch r.format {
	case TOML:
		text := fmt.Sprintf("[mcp_servers.%s]%scommand = %s%[2]sargs = [%[4]s]%[2]s", name, newline(r.before), quoted(argv[:1], ""), quoted(argv[1:], ", "))
		r.Text = appendLines(r.before, text)
		return toml.Unmarshal(r.Text, new(map[string]any))
	case YAML:
		r.addYAML(name, argv)
		return nil
	}
	return r.addJSON(name, argv)
}

// appendLines adds lines at the end of a text, after an empty one.
func appendLines(text []byte, lines string) []byte {
	end := newline(text)
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return append(bytes.Clone(text), lines...)
	case !bytes.HasSuffix(text, []byte("\n")):
		return append(bytes.Clone(text), end+end+lines...)
	}
	return append(bytes.Clone(text), end+lines...)
}

// listOf is the member that has the servers in a new JSON configuration.
func listOf(file string) string {
	switch slashed := filepath.ToSlash(file); {
	case strings.HasSuffix(slashed, "/User/mcp.json"), strings.HasSuffix(slashed, ".vscode/mcp.json"):
		return "servers"
	case strings.Contains(slashed, "zed/settings.json"), strings.Contains(slashed, "Zed/settings.json"):
		return "context_servers"
	}
	return "mcpServers"
}

func (r *Rewriting) addJSON(name string, argv []string) error {
	before := r.before
	if len(bytes.TrimSpace(before)) == 0 {
		before = []byte("{}\n")
	}
	v, err := hujson.Parse(before)
	if err != nil {
		return err
	}
	root, ok := v.Value.(*hujson.Object)
	if !ok {
		return errors.New("it is not an object of JSON")
	}
	list := listOf(r.file)
	for _, m := range root.Members {
		if key := m.Name.Value.(hujson.Literal).String(); slices.Contains([]string{"mcpServers", "servers", "context_servers"}, key) {
			list = key
		}
	}
	at := "/" + list
	entry := jsonscan.MustMarshal(struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}{argv[0], argv[1:]})
	patch := fmt.Sprintf(`[{"op":"add","path":"%s/%s","value":%s}]`, at, name, entry)
	if v.Find(at) == nil {
		patch = fmt.Sprintf(`[{"op":"add","path":"%s","value":{%q:%s}}]`, at, name, entry)
	}
	if err := v.Patch([]byte(patch)); err != nil {
		return err
	}
	r.Text = v.Pack()
	return nil
}

// addYAML adds an extension of Goose below the line that begins them.
func (r *Rewriting) addYAML(name string, argv []string) {
	end, indent := newline(r.before), "  "
	entry := func() string {
		lines := []string{name + ":", "  name: " + name, "  type: stdio", "  enabled: true", "  cmd: " + string(quoted(argv[:1], "")), "  args: [" + string(quoted(argv[1:], ", ")) + "]"}
		return indent + strings.Join(lines, end+indent) + end
	}
	lines := slices.Collect(bytes.Lines(r.before))
	for i, line := range lines {
		if string(bytes.TrimRight(line, " \t\r\n")) != "extensions:" {
			continue
		}
		if i+1 < len(lines) {
			if blanks := len(lines[i+1]) - len(bytes.TrimLeft(lines[i+1], " ")); blanks > 0 {
				indent = strings.Repeat(" ", blanks)
			}
		}
		r.Text = slices.Concat(bytes.Join(lines[:i+1], nil), []byte(entry()), bytes.Join(lines[i+1:], nil))
		return
	}
	r.Text = appendLines(r.before, "extensions:"+end+entry())
}

// RemoveServer removes a server whose command is wirectl with this word.
func (r *Rewriting) RemoveServer(name, word string) error {
	at := slices.IndexFunc(r.servers, func(s Server) bool { return s.Name == name })
	switch {
	case at < 0:
		return fmt.Errorf("%s: %s: %w", r.file, name, ErrNotThere)
	case !slices.Contains(r.servers[at].Argv, word) || !slices.ContainsFunc(r.servers[at].Argv, func(arg string) bool {
		return strings.HasPrefix(path.Base(strings.ReplaceAll(arg, `\`, "/")), "wirectl")
	}):
		return fmt.Errorf("%s: %s: %w", r.file, name, ErrOther)
	}
	r.unwrapped = true
	switch r.format {
	case JSON:
		v, err := hujson.Parse(r.before)
		if err != nil {
			return fmt.Errorf("%s: %w", r.file, err)
		}
		for _, list := range []string{"mcpServers", "servers", "context_servers"} {
			if v.Find("/"+list+"/"+name) == nil {
				continue
			}
			if err := v.Patch(fmt.Appendf(nil, `[{"op":"remove","path":"/%s/%s"}]`, list, name)); err != nil {
				return fmt.Errorf("%s: %w", r.file, err)
			}
			break
		}
		r.Text = v.Pack()
	default:
		r.Text = r.withoutLines(name)
	}
	if err := r.checkServers(r.before, r.Text, name, r.servers[at].Argv); err != nil {
		return fmt.Errorf("%s: %w", r.file, err)
	}
	r.Changed = []string{name}
	return nil
}

// withoutLines leaves out the lines of a server: in TOML up to the next table, in YAML as far as they are indented, with the empty
// line before.
func (r *Rewriting) withoutLines(name string) []byte {
	lines := slices.Collect(bytes.Lines(r.before))
	blanks := func(line []byte) int { return len(line) - len(bytes.TrimLeft(line, " ")) }
	for i, line := range lines {
		begins := string(bytes.TrimSpace(line)) == name+":"
		ends := func(other []byte) bool { return blanks(other) <= blanks(line) && len(bytes.TrimSpace(other)) > 0 }
		if r.format == TOML {
			begins = string(bytes.TrimSpace(line)) == "[mcp_servers."+name+"]"
			ends = func(other []byte) bool {
				other = bytes.TrimSpace(other)
				return bytes.HasPrefix(other, []byte("[")) && !bytes.HasPrefix(other, []byte("[mcp_servers."+name+"."))
			}
		}
		if !begins {
			continue
		}
		end := i + 1
		for end < len(lines) && !ends(lines[end]) {
			end++
		}
		for end < len(lines) && end > i+1 && len(bytes.TrimSpace(lines[end-1])) == 0 {
			end--
		}
		if r.format == TOML && i > 0 && len(bytes.TrimSpace(lines[i-1])) == 0 {
			i--
		}
		return bytes.Join(slices.Delete(lines, i, end), nil)
	}
	return r.before
}

// checkServers checks that one configuration has a server with a command more than another, and nothing else differs.
func (r *Rewriting) checkServers(with, without []byte, name string, argv []string) error {
	more, err := r.format.Servers(with)
	less, err2 := r.format.Servers(without)
	if err = cmp.Or(err, err2); err != nil {
		return err
	}
	at := slices.IndexFunc(more, func(s Server) bool { return s.Name == name })
	if at < 0 || !slices.Equal(more[at].Argv, argv) || !(len(more) == 1 && len(less) == 0 || reflect.DeepEqual(slices.Delete(more, at, at+1), less)) {
		return ErrUnread
	}
	return nil
}

// create writes a configuration that does not exist yet.
func (r *Rewriting) create() (string, error) {
	if err := os.MkdirAll(filepath.Dir(r.file), 0o755); err != nil {
		return "", err
	}
	return "the file is new", output.WriteFile(r.file, r.Text, 0o600)
}
