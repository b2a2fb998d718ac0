// Package pin keeps the tools that MCP servers had when they were first seen, and tells when they change. It
// starts no server: it sees the lists that clients ask for.
package pin

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session/contract"
)

// A Store is a folder of pins: baselines, each in a file of its own.
type Store struct{ Dir string }

// Open returns the user's store, which may not exist yet.
func Open(getenv func(string) string) (*Store, error) {
	dir, err := history.PinsFolder(getenv)
	return &Store{dir}, err
}

// A Pin is what the store has of one server as one client sees it.
type Pin struct {
	ID       string
	Baseline *contract.Baseline // nil if it cannot be read
	Fault    error              // why
	// Changed is what the server has offered instead since, and Digest that of its file; nil if that is the same.
	Changed *contract.Baseline
	Digest  string
}

const (
	pinExtension     = ".json"
	changedExtension = ".changed.json"
	idLength         = 12 // in hex
	digestLength     = 8
	maxFile          = 128 << 20
	unnamed          = ".wirectl-*" // a file until it is whole
)

// idOf returns the id of a pin.
func idOf(server, client string) string { return hexOf([]byte(server+"\x00"+client), idLength) }

func hexOf(data []byte, length int) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])[:length]
}

func (s *Store) path(id, extension string) string { return filepath.Join(s.Dir, id+extension) }

// readPin reads a baseline. The file may come from anybody.
func (s *Store) readPin(id, extension string) (b *contract.Baseline, text []byte, err error) {
	name := s.path(id, extension)
	info, err := os.Lstat(name) // to open a pipe could wait without end
	switch {
	case err != nil:
		return nil, nil, err
	case !info.Mode().IsRegular() || info.Size() > maxFile:
		return nil, nil, fmt.Errorf("%s is not a pin: want a file of at most %d MiB", name, maxFile>>20)
	}
	if text, err = os.ReadFile(name); err != nil {
		return nil, nil, err
	}
	if b, err = contract.ReadBaseline(text); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, text, nil
}

func textOf(b *contract.Baseline) []byte {
	var text bytes.Buffer
	_ = b.Write(&text) // it is JSON
	return text.Bytes()
}

// create writes a pin, unless there is one: then the error is [fs.ErrExist]. Of several processes one wins.
func (s *Store) create(id string, b *contract.Baseline) error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	s.sweep()
	err := s.place(s.path(id, pinExtension), textOf(b), os.Link)
	if errors.Is(err, fs.ErrExist) {
		return err
	}
	if err != nil { // as on a file system without links
		if _, missing := os.Lstat(s.path(id, pinExtension)); !errors.Is(missing, fs.ErrNotExist) {
			return err
		}
		err = s.write(id, b)
	}
	if err == nil {
		_ = os.Remove(s.path(id, changedExtension)) // of a pin that was removed
	}
	return err
}

// sweep removes what writers have left that were killed.
func (s *Store) sweep() {
	left, _ := filepath.Glob(filepath.Join(s.Dir, unnamed))
	for _, file := range left {
		if info, err := os.Lstat(file); err == nil && time.Since(info.ModTime()) > time.Hour {
			_ = os.Remove(file)
		}
	}
}

// place writes a file whole or not at all: name gives it its name. Whatever had that is not written to.
func (s *Store) place(file string, text []byte, name func(from, to string) error) error {
	f, err := os.CreateTemp(s.Dir, unnamed)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = name(f.Name(), file)
	}
	_ = os.Remove(f.Name()) // it is gone if it was renamed
	return err
}

// write replaces a pin.
func (s *Store) write(id string, b *contract.Baseline) error {
	return s.place(s.path(id, pinExtension), textOf(b), os.Rename)
}

// change keeps what a server has offered instead of what is pinned, and returns its digest.
func (s *Store) change(id string, b *contract.Baseline) (digest string, err error) {
	text := textOf(b)
	return hexOf(text, digestLength), s.place(s.path(id, changedExtension), text, os.Rename)
}

// List returns the pins, sorted by server and client.
func (s *Store) List() ([]Pin, error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []Pin
	for _, entry := range entries {
		id, ok := strings.CutSuffix(entry.Name(), pinExtension)
		if !ok || len(id) != idLength || strings.Trim(id, "0123456789abcdef") != "" {
			continue
		}
		p := Pin{ID: id}
		p.Baseline, _, p.Fault = s.readPin(id, pinExtension)
		if changed, text, err := s.readPin(id, changedExtension); err == nil {
			p.Changed, p.Digest = changed, hexOf(text, digestLength)
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b Pin) int {
		return cmp.Or(strings.Compare(a.Server(), b.Server()), strings.Compare(a.Client(), b.Client()), strings.Compare(a.ID, b.ID))
	})
	return list, nil
}

// Server names the server, as far as it can be read.
func (p *Pin) Server() string {
	if b := cmp.Or(p.Baseline, p.Changed); b != nil {
		return b.Server
	}
	return ""
}

// Client names the client; "" if it is unknown.
func (p *Pin) Client() string {
	if b := cmp.Or(p.Baseline, p.Changed); b != nil {
		return b.Client
	}
	return ""
}

// Tools counts the pinned tools.
func (p *Pin) Tools() int64 {
	if p.Baseline == nil {
		return 0
	}
	return int64(len(p.Baseline.Tools))
}

// State says in a word what is to be told of the pin.
func (p *Pin) State() string {
	switch {
	case p.Fault != nil:
		return "unreadable"
	case p.Changed != nil:
		return "changed"
	}
	return "same"
}

// Find returns the pin whose id is, or begins with, the given one.
func (s *Store) Find(id string) (Pin, error) {
	list, err := s.List()
	if err != nil {
		return Pin{}, err
	}
	list = slices.DeleteFunc(list, func(p Pin) bool { return id == "" || !strings.HasPrefix(p.ID, id) })
	switch len(list) {
	case 0:
		return Pin{}, fmt.Errorf("no pin has the id %q: wirectl baseline list shows all", id)
	case 1:
		return list[0], nil
	}
	return Pin{}, fmt.Errorf("the ids of %d pins begin with %q: give more of it", len(list), id)
}

// Accept makes what a server has offered its pin. The reference is an id, or ID:DIGEST for what was shown under
// that digest.
func (s *Store) Accept(reference string) (Pin, error) {
	id, digest, isExact := strings.Cut(reference, ":")
	p, err := s.Find(id)
	if err != nil {
		return p, err
	}
	changed, text, err := s.readPin(p.ID, changedExtension)
	now := hexOf(text, digestLength)
	switch {
	case errors.Is(err, fs.ErrNotExist) && p.Fault != nil:
		return p, fmt.Errorf("pin %s cannot be read, and its server has offered nothing since: %w", p.ID, p.Fault)
	case errors.Is(err, fs.ErrNotExist):
		return p, fmt.Errorf("pin %s has nothing to accept: its server has offered the same tools, or none, since", p.ID)
	case err != nil:
		return p, err
	case isExact && digest != now:
		return p, fmt.Errorf("the tools of pin %s have changed again: see wirectl baseline diff %[1]s, then wirectl baseline accept %[1]s:%s", p.ID, now)
	}
	if err := s.place(s.path(p.ID, pinExtension), text, os.Rename); err != nil {
		return p, err
	}
	if _, again, err := s.readPin(p.ID, changedExtension); err == nil && bytes.Equal(again, text) {
		_ = os.Remove(s.path(p.ID, changedExtension)) // it is the same
	}
	p.Baseline, p.Changed, p.Fault = changed, nil, nil
	return p, nil
}

// Named names the server that words of a command line reach: an address, or a command.
func Named(words []string, dir string) string {
	if len(words) > 1 && (words[0] == "--" || words[0] == "exec") {
		words = words[1:]
	}
	if len(words) == 1 && strings.Contains(words[0], "://") {
		return Address(words[0])
	}
	return Command(words, dir)
}

// Address names the server at an address, without secrets.
func Address(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return capture.MaskCommand(address)
	}
	u.User, u.Fragment = nil, ""
	u.RawQuery = strings.Join(slices.DeleteFunc(strings.Split(u.RawQuery, "&"), isOfSession), "&")
	return capture.MaskCommand(u.String())
}

// fetchers are programs that fetch the package that they run, whatever the folder.
var fetchers = []string{"npx", "bunx", "uvx", "pipx", "docker", "podman"}

// Command names the server of a command in a folder, for people and as its identity: two servers may have the same
// command in different folders. Known secrets are no part of it, so that it outlives their rotation.
func Command(words []string, dir string) string {
	text := ""
	for i, word := range words {
		if i > 0 {
			text += " "
		}
		if word == "" || strings.ContainsAny(word, " \t\n\"'\\") {
			word = strconv.Quote(word)
		}
		text += word
	}
	if text = capture.MaskCommand(text); needsFolder(words, dir) {
		text += " (in " + dir + ")"
	}
	return text
}

// needsFolder reports whether a command may run something else in another folder.
func needsFolder(words []string, dir string) bool {
	if len(words) == 0 {
		return true
	}
	var others []string // words that are not flags
	for i, word := range words {
		if _, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(word, "-") {
			word = value
		} else if i > 0 && !strings.HasPrefix(word, "-") {
			others = append(others, word)
		}
		if word == "" || strings.HasPrefix(word, "-") || filepath.IsAbs(word) || i == 0 && !strings.ContainsAny(word, `/\`) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, word)); err == nil {
			return true
		}
	}
	program := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(words[0]), ".cmd"), ".exe")
	switch {
	case slices.Contains(fetchers, program):
		return false
	case len(others) > 0:
		return !filepath.IsAbs(others[0])
	}
	return !filepath.IsAbs(words[0])
}

// brief describes changes in a line that has nothing of what a server has written but names that were pinned.
func brief(changes []contract.Change) string {
	const most, longest = 5, 60
	var parts []string
	added := int64(0)
	for _, c := range changes {
		name, part := contract.Plain(render.Shorten(c.Item, longest)), ""
		switch {
		case len(c.Path) > 0:
			part = "tool " + name + ": " + c.Path[0]
		case c.A == nil && c.B != nil:
			added++
			continue
		case c.Item == "":
			part = "a tool listed twice"
		default:
			part = "tool " + name
		}
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	if added > 0 {
		parts = append(parts, render.Count(added, "tool")+" added")
	}
	if more := len(parts) - most; more > 0 {
		parts = append(parts[:most], fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, ", ")
}
