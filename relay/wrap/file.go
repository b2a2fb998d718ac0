package wrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/capture/output"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// backupExtension is appended to the name of a backup. Further backups are numbered from 2.
const backupExtension = ".before-wirectl"

// maxConfig is the size of the largest configuration, in bytes.
const maxConfig = 64 << 20

// readFile reads a configuration or a backup. To open a pipe could wait without end.
func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	for _, kind := range []struct {
		is   bool
		name string
	}{
		{info.IsDir(), "a folder"},
		{info.Mode()&fs.ModeNamedPipe != 0, "a named pipe"},
		{info.Mode()&fs.ModeSocket != 0, "a socket"},
		{info.Mode()&fs.ModeDevice != 0, "a device"},
		{!info.Mode().IsRegular(), "not a regular file"},
		{info.Size() > maxConfig, "too large"},
	} {
		if kind.is {
			return nil, fmt.Errorf("%s is %s: want a file of at most %d MiB", name, kind.name, maxConfig>>20)
		}
	}
	return os.ReadFile(name)
}

// keep writes data to a file of that name, or with the first free number, unless one of
// them has the same data.
func keep(first string, data []byte, mode os.FileMode) (name string, created bool, err error) {
	name = first
	for n := 2; ; n++ {
		err := create(name, data, mode)
		if !errors.Is(err, os.ErrExist) {
			return name, err == nil, err
		}
		if old, err := readFile(name); err == nil && bytes.Equal(old, data) {
			return name, false, nil
		}
		name = fmt.Sprintf("%s-%d", first, n)
	}
}

// backups returns the backups of a file that can be read, with their contents.
func backups(name string) map[string][]byte {
	entries, _ := os.ReadDir(filepath.Dir(name))
	found := map[string][]byte{}
	for _, entry := range entries {
		number, ok := strings.CutPrefix(entry.Name(), filepath.Base(name)+backupExtension)
		if n, err := strconv.Atoi(strings.TrimPrefix(number, "-")); !ok || number != "" && (err != nil || number != fmt.Sprintf("-%d", n)) || !entry.Type().IsRegular() {
			continue
		}
		backup := filepath.Join(filepath.Dir(name), entry.Name())
		if text, err := readFile(backup); err == nil {
			found[backup] = text
		}
	}
	return found
}

// create writes a new file.
func create(name string, data []byte, mode os.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(name)
	}
	return err
}

// WriteDiff writes the changed lines of a file.
func WriteDiff(w io.Writer, name string, before, after []byte) error {
	old, changed := bytes.SplitAfter(before, []byte("\n")), bytes.SplitAfter(after, []byte("\n"))
	first := 0
	for first < min(len(old), len(changed)) && bytes.Equal(old[first], changed[first]) {
		first++
	}
	last := 0
	for last < min(len(old), len(changed))-first && bytes.Equal(old[len(old)-1-last], changed[len(changed)-1-last]) {
		last++
	}
	if _, err := fmt.Fprintf(w, "--- %s\n+++ %s\n@@ line %d @@\n", name, name, first+1); err != nil {
		return err
	}
	for _, part := range []struct {
		sign  string
		lines [][]byte
	}{{"-", old[first : len(old)-last]}, {"+", changed[first : len(changed)-last]}} {
		for _, line := range part.lines {
			if _, err := fmt.Fprintf(w, "%s%s\n", part.sign, bytes.TrimRight(line, "\r\n")); err != nil {
				return err
			}
		}
	}
	return nil
}

// A Rewriting is an edit of a client's configuration.
type Rewriting struct {
	// Text is the configuration after the edit, and Changed the servers that it changed.
	Text    []byte
	Changed []string
	// Passed are the reasons why servers were skipped, if all were to be changed.
	Passed []error

	file    string
	format  Format
	before  []byte
	servers []Server
	names   []string // of those to change
	all     bool
	absent  bool // there is no file yet

	unwrapped bool
	// unbridged has the reasons why servers over HTTP are not bridged; "" if they are.
	unbridged map[string]string
	secrets   [][]byte // headers of bridged servers, as in a configuration
}

// Open reads the configuration in a file, for changing the entry of one server or of all.
func Open(file, server string, all bool) (*Rewriting, error) {
	r := &Rewriting{file: file, format: FormatOf(file), names: []string{server}, all: all}
	var err error
	if r.before, err = readFile(file); err != nil {
		return nil, err
	}
	if r.servers, err = r.format.Servers(r.before); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if all {
		r.names = nil
		for _, s := range r.servers {
			r.names = append(r.names, s.Name)
		}
	}
	return r, nil
}

// Before returns the original configuration.
func (r *Rewriting) Before() []byte { return r.before }

// Wrap makes servers run through with; see [Format.Wrap]. A server over HTTP is bridged
// unless the client must log in; the advice for the others has the same record level.
func (r *Rewriting) Wrap(ctx context.Context, with []string, record string) error {
	return r.rewrite(record, nil, func(config []byte, server string) ([]byte, error) {
		return r.wrapOrBridge(ctx, config, server, append(slices.Clone(with), "--name="+r.short(server)))
	})
}

func (r *Rewriting) wrapOrBridge(ctx context.Context, config []byte, server string, with []string) ([]byte, error) {
	text, err := r.format.Wrap(config, server, with)
	remote, ok := errors.AsType[*RemoteError](err)
	if !ok || !remote.Bridges {
		return text, err
	}
	why, known := r.unbridged[server]
	if !known {
		why = reasonNot(ctx, remote)
		if r.unbridged == nil {
			r.unbridged = map[string]string{}
		}
		r.unbridged[server] = why
	}
	if why != "" {
		remote.Why = why
		return nil, remote
	}
	for _, values := range remote.Header {
		for _, value := range values { // unquoted, and quoted once and twice for the variables
			for range 3 {
				r.secrets = append(r.secrets, []byte(value))
				quoted := jsonscan.AppendQuote(nil, []byte(value))
				value = string(quoted[1 : len(quoted)-1])
			}
		}
	}
	return r.format.Bridge(config, server, with)
}

// Masked returns a configuration without the headers of bridged servers.
func (r *Rewriting) Masked(config []byte) []byte {
	for _, secret := range r.secrets {
		if len(secret) > 0 {
			config = bytes.ReplaceAll(config, secret, []byte("…"))
		}
	}
	return config
}

// Unwrap restores the servers' entries.
func (r *Rewriting) Unwrap() error {
	r.unwrapped = true
	return r.rewrite("", ErrRemote, r.format.Unwrap)
}

// Write writes the configuration after the edit, and returns what became of the backups, for
// the user. If unwrapping made the file what it was in a backup, there is no new one, and those
// that unwrapping makes the same are removed. A backup never overwrites a file.
func (r *Rewriting) Write() (string, error) {
	if r.absent {
		return r.create()
	}
	name, err := filepath.EvalSymlinks(r.file)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	var same []string // the backups that are the configuration, or become it by unwrapping
	asBefore, created, backup := false, false, ""
	for name, text := range backups(name) {
		if is := bytes.Equal(text, r.Text); r.unwrapped && (is || bytes.Equal(r.format.restore(text), r.Text)) {
			same, asBefore = append(same, name), asBefore || is
		}
	}
	if !asBefore {
		if backup, created, err = keep(name+backupExtension, r.before, info.Mode().Perm()); err != nil {
			return "", err
		}
	}
	err = output.WriteFile(name, r.Text, info.Mode().Perm())
	switch {
	case err != nil && created:
		_ = os.Remove(backup)
		return "", err
	case err != nil || !asBefore:
		return "the backup is " + backup, err
	}
	for _, backup := range same {
		err = errors.Join(err, os.Remove(backup))
	}
	return "the file is as it was before, and its backups are removed", err
}

// restore returns a configuration with all servers unwrapped, as far as that can be done.
func (f Format) restore(config []byte) []byte {
	servers, _ := f.Servers(config)
	for _, s := range servers {
		if text, err := f.Unwrap(config, s.Name); err == nil {
			config = text
		}
	}
	return config
}

// rewrite edits the entries. With all, it silently skips entries without a command, unchanged
// entries, and those with the error silent.
func (r *Rewriting) rewrite(record string, silent error, edit func(config []byte, server string) ([]byte, error)) error {
	r.Text, r.Changed, r.Passed = r.before, nil, nil
	for _, name := range r.names {
		text, err := edit(r.Text, name)
		switch {
		case err == nil:
			r.Text, r.Changed = text, append(r.Changed, name)
		case !r.all:
			return r.refused(name, record, err)
		case errors.Is(err, silent), errors.Is(err, ErrWrapped), errors.Is(err, ErrNotWrapped), errors.Is(err, ErrNoCommand):
		default:
			r.Passed = append(r.Passed, r.refused(name, record, err))
		}
	}
	return nil
}

// short returns the name of a server within its project.
func (r *Rewriting) short(server string) string {
	for _, s := range r.servers {
		if s.Name == server {
			return s.Short()
		}
	}
	return server
}

// refused adds the file, the server and a suggestion to an error.
func (r *Rewriting) refused(server, record string, err error) error {
	if _, ok := errors.AsType[*NotFoundError](err); ok {
		return fmt.Errorf("%s: %w", r.file, err)
	}
	err = fmt.Errorf("%s: %s: %w", r.file, server, err)
	if remote, ok := errors.AsType[*RemoteError](err); ok {
		if record != "" {
			record = " --record " + record
		}
		err = fmt.Errorf("%w: run wirectl relay%s --listen http://127.0.0.1:7000 %s, and use that address instead", err, record, shown(remote.URL))
	}
	return err
}

// shown returns an address for display. Addresses that may contain a secret are replaced.
func shown(address string) string {
	const longest = 20 // of a part that is a name
	u, err := url.Parse(address)
	secret := func(part string) bool { return len(part) > longest }
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || slices.ContainsFunc(strings.Split(u.Path, "/"), secret) {
		return "URL with its url"
	}
	return address
}
