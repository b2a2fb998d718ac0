package source

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/output"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/internal/inflate"
	"github.com/wirectl/wirectl/internal/prices"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/source"
	forms "github.com/wirectl/wirectl/source/all"
)

// A Transcript is a session of an agent in a file that the agent keeps on this machine. Its folder may
// contain anything: only regular files below it are opened, and links are not followed.
type Transcript struct {
	Agent, ID string
	Name      string // of the input: AGENT:ID, shortened to what is unique
	File      string
	// Size and Time, when it was last written, are those of all its files.
	Size int64
	Time time.Time

	form  *source.Form
	below string // the file, below the folder of the agent, with slashes
}

// Agents are the words for the agents whose transcripts can be read.
func Agents() (list []string) {
	for _, f := range placed() {
		if !slices.Contains(list, f.Place.Agent) {
			list = append(list, f.Place.Agent)
		}
	}
	return list
}

// placed returns the forms whose files are kept in a known place.
func placed() (list []*source.Form) {
	for _, f := range forms.List() {
		if f.Place != nil && f.Open != nil {
			list = append(list, f)
		}
	}
	return list
}

// maxTranscripts bounds the transcripts of an agent.
const maxTranscripts = 100_000

// Transcripts returns the transcripts of the agents whose word is one of these, or of all, the newest
// first.
func Transcripts(getenv func(string) string, agents ...string) (list []Transcript) {
	home := getenv("HOME")
	if home == "" && runtime.GOOS == "windows" {
		home = getenv("USERPROFILE")
	}
	for _, form := range placed() {
		p := form.Place
		folder := getenv(p.Env)
		if folder == "" && home != "" {
			folder = filepath.Join(home, p.Home)
		}
		if folder, err := filepath.Abs(folder); err == nil && (len(agents) == 0 || slices.Contains(agents, p.Agent)) {
			list = append(list, transcriptsIn(folder, form)...)
		}
	}
	slices.SortStableFunc(list, func(a, b Transcript) int { return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.ID, b.ID)) })
	return list
}

// transcriptsIn returns the transcripts of an agent, in the order of their ids.
func transcriptsIn(folder string, form *source.Form) (list []Transcript) {
	root := os.DirFS(folder)
	for _, pattern := range form.Place.Files {
		match(root, ".", strings.Split(pattern, "/"), func(dir string, info fs.FileInfo, others []fs.DirEntry) {
			below := path.Join(dir, info.Name())
			id := form.Place.ID.FindStringSubmatch(below)
			if id == nil || len(list) >= maxTranscripts {
				return
			}
			t := Transcript{
				Agent: form.Place.Agent, ID: id[1], File: filepath.Join(folder, filepath.FromSlash(below)),
				Size: info.Size(), Time: info.ModTime(), form: form, below: below,
			}
			isBeside := func(e fs.DirEntry) bool { return e.IsDir() && e.Name() == t.ID }
			if form.Place.Beside != "" && slices.ContainsFunc(others, isBeside) {
				match(root, path.Join(dir, t.ID, form.Place.Beside), []string{"*"}, func(_ string, info fs.FileInfo, _ []fs.DirEntry) {
					t.Size += info.Size()
					if info.ModTime().After(t.Time) {
						t.Time = info.ModTime()
					}
				})
			}
			list = append(list, t)
		})
	}
	slices.SortStableFunc(list, func(a, b Transcript) int { return cmp.Compare(a.ID, b.ID) })
	// A file may be there twice, before and after it was compressed: the patterns have the better first.
	list = slices.CompactFunc(list, func(a, b Transcript) bool { return a.ID == b.ID })
	const shortest = 8
	for i := range list {
		n := shortest
		for _, j := range []int{i - 1, i + 1} {
			if j >= 0 && j < len(list) {
				n = max(n, common(list[i].ID, list[j].ID)+1)
			}
		}
		list[i].Name = list[i].Agent + ":" + list[i].ID[:min(n, len(list[i].ID))]
	}
	return list
}

// common returns how long the common beginning of two texts is.
func common(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// match calls found for the regular files whose path matches, and passes what else is in the folder.
func match(fsys fs.FS, dir string, pattern []string, found func(dir string, info fs.FileInfo, others []fs.DirEntry)) {
	if !strings.ContainsAny(pattern[0], "*?[") && len(pattern) > 1 {
		if info, err := fs.Lstat(fsys, path.Join(dir, pattern[0])); err == nil && info.IsDir() {
			match(fsys, path.Join(dir, pattern[0]), pattern[1:], found)
		}
		return
	}
	entries, _ := fs.ReadDir(fsys, dir) // what cannot be read is left out
	for _, e := range entries {
		switch ok, _ := path.Match(pattern[0], e.Name()); {
		case !ok:
		case len(pattern) > 1 && e.IsDir():
			match(fsys, path.Join(dir, e.Name()), pattern[1:], found)
		case len(pattern) == 1 && e.Type().IsRegular():
			if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
				found(dir, info, entries)
			}
		}
	}
}

// IsTranscript reports whether an input is named as the transcript of an agent: AGENT:ID or AGENT:latest.
func IsTranscript(name string) bool {
	agent, id, ok := strings.Cut(name, ":")
	return ok && id != "" && slices.Contains(Agents(), agent)
}

// FindTranscript returns the transcript of that name: the newest, or the one whose id begins so.
func FindTranscript(getenv func(string) string, name string) (Transcript, error) {
	agent, id, _ := strings.Cut(name, ":")
	list := Transcripts(getenv, agent)
	switch {
	case len(list) == 0:
		return Transcript{}, fmt.Errorf("%s: there are no transcripts of %s on this machine", name, agent)
	case id == "latest":
		for i := range list {
			if list[i].begins() {
				return list[i], nil
			}
		}
		return Transcript{}, fmt.Errorf("%s: none of the files in %s has a prompt yet", name, filepath.Dir(list[0].File))
	}
	var found []Transcript
	for _, t := range list {
		if t.ID == id {
			return t, nil
		}
		if strings.HasPrefix(t.ID, id) {
			found = append(found, t)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Transcript{}, fmt.Errorf("%s: no transcript has this id: wirectl sessions --agent %s lists them", name, agent)
	}
	return Transcript{}, fmt.Errorf("%s: the ids of %d transcripts begin so, such as %s and %s", name, len(found), found[0].Name, found[1].Name)
}

// maxUnpacked bounds what is read of a compressed file.
const maxUnpacked = 4 << 30

// readFile reads a regular file, which may be compressed, with read. Opening never waits, whatever the
// file is by now.
func readFile(name string, read func(content io.Reader) error) error {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return cmp.Or(err, fmt.Errorf("%s: it is not a regular file", name))
	}
	var magic [4]byte
	if n, _ := f.ReadAt(magic[:], 0); !forms.IsPacked(magic[:n]) {
		return read(f)
	}
	r, err := inflate.Open("zstd", f)
	if err != nil {
		return err
	}
	defer r.Close()
	return read(io.LimitReader(r, maxUnpacked))
}

// begins reports whether the session has begun: agents make files before there is a prompt.
func (t *Transcript) begins() (ok bool) {
	_ = readFile(t.File, func(content io.Reader) error {
		text, err := io.ReadAll(io.LimitReader(content, source.HeadSize))
		ok = t.form.Matches(&source.Head{Bytes: text, Whole: len(text) < source.HeadSize})
		return err
	})
	return ok
}

// tally reads a session, of which the tally counts the events. The error is only about the file.
func (t *Transcript) tally(content io.Reader, folder fs.FS, tally *source.Tally) (source.About, error) {
	r, err := t.form.Open(&source.File{
		Reader: content, AtHand: true, Path: t.File, Base: path.Base(t.below), Folder: folder,
		Seen: new(source.Seen), Tally: tally, Notice: func(string) {},
	})
	if err != nil {
		return source.About{}, err
	}
	if c, ok := r.(io.Closer); ok {
		defer c.Close()
	}
	err = tally.Take(r)
	return r.About(), err
}

// Counts are what a session has. They are all that is kept of it.
type Counts struct {
	Calls    int64
	Failures int64
	Models   []ModelUsage `json:",omitempty"`
}

// A ModelUsage counts the tokens of a model; its name is "" if it is unusual. Band is the one of
// [prices.Bands] in which the inputs of the calls are.
type ModelUsage struct {
	Model string `json:",omitempty"`
	prices.Tokens
	Band  int64 `json:",omitempty"`
	Apart bool  `json:",omitempty"` // as in [protocol.Usage]
}

// Usage returns the tokens.
func (m *ModelUsage) Usage() protocol.Usage {
	return protocol.Usage{Input: m.Input, Cached: m.Cached, Written: m.Written, Kept: m.Kept, Output: m.Output, Apart: m.Apart}
}

// Count reads the session and counts. A file that is cut, as while it is written, counts up to there.
func (t *Transcript) Count() (c Counts, err error) {
	err = readFile(t.File, func(content io.Reader) error {
		var tally source.Tally
		_, err := t.tally(content, os.DirFS(filepath.Dir(t.File)), &tally)
		c = Counts{Calls: tally.Calls, Failures: tally.Failures}
		for of, u := range tally.Usage {
			c.Models = append(c.Models, ModelUsage{nameOfModel(of.Model), decode.TokensOf(u), of.Band, of.Apart})
		}
		slices.SortFunc(c.Models, func(a, b ModelUsage) int {
			return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Band, b.Band))
		})
		if cut := (*source.CutError)(nil); errors.As(err, &cut) {
			return nil
		}
		return err
	})
	return c, err
}

// nameOfModel returns a name that looks like one of a model: nothing else is kept.
func nameOfModel(model string) string {
	const most = 64
	if len(model) > most || strings.Trim(model, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@") != "" {
		return ""
	}
	return model
}

// Usage returns the tokens of all models.
func (c *Counts) Usage() (u protocol.Usage) {
	for _, m := range c.Models {
		u = u.Plus(m.Usage())
	}
	return u
}

// A Beginning is what the beginning of a session tells about it.
type Beginning struct {
	Started         time.Time
	Project, Prompt string
}

// Beginning reads the beginning of the session, with its first prompt if that is not far.
func (t *Transcript) Beginning() (b Beginning) {
	const most = 1 << 20
	_ = readFile(t.File, func(content io.Reader) error {
		var tally source.Tally
		about, err := t.tally(source.Beginning{Reader: io.LimitReader(content, most), Tally: &tally}, nil, &tally)
		b = Beginning{about.Created, about.Folder, tally.Prompt}
		return err
	})
	return b
}

// Contains reports whether a file of a session contains a text, in any case of ASCII letters.
func Contains(name, text string) (found bool) {
	want := bytes.ToLower(jsonText(text))
	_ = readFile(name, func(content io.Reader) error {
		buf := make([]byte, 0, 1<<20+len(want))
		for {
			n, err := content.Read(buf[len(buf):cap(buf)])
			lowerASCII(buf[len(buf) : len(buf)+n])
			if buf = buf[:len(buf)+n]; bytes.Contains(buf, want) {
				found = true
				return nil
			}
			if err != nil {
				return err
			}
			if len(buf) > len(want) {
				buf = append(buf[:0], buf[len(buf)-len(want):]...)
			}
		}
	})
	return found
}

// jsonText returns a text as it is inside a string of JSON.
func jsonText(text string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text)
	return bytes.TrimSuffix(b.Bytes(), []byte("\"\n"))[1:]
}

func lowerASCII(text []byte) {
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			text[i] = c | 0x20
		}
	}
}

// Parallel calls do for each number below n, on all processors, until ctx ends.
func Parallel(ctx context.Context, n int, do func(i int)) error {
	var next atomic.Int64
	var all sync.WaitGroup
	const percent = 800 // little stays of what is read
	defer debug.SetGCPercent(debug.SetGCPercent(percent))
	for range min(n, runtime.GOMAXPROCS(0)) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && ctx.Err() == nil; i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// A cache keeps the counts of transcripts by a hash of their names, with the size and time of the file
// then. It has no texts.
type cache struct {
	Version int
	Files   map[string]cached
}

type cached struct {
	Size, Time int64
	Counts
}

const (
	// cacheVersion changes with the form of the cache, and when readers count otherwise.
	cacheVersion = 2
	maxCache     = 64 << 20
)

// cacheFile returns the name of the cache; "" if there can be none.
func cacheFile(getenv func(string) string) string {
	folder, err := history.Open(getenv)
	if err != nil {
		return ""
	}
	return filepath.Join(filepath.Dir(folder.Dir), "transcripts.json")
}

func (t *Transcript) key() string {
	sum := sha256.Sum256([]byte(t.File))
	return hex.EncodeToString(sum[:8])
}

// readCache returns the cache in a file. One that cannot be used is ignored.
func readCache(name string) (c cache) {
	if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() && info.Size() <= maxCache {
		if text, err := os.ReadFile(name); err == nil && json.Unmarshal(text, &c) == nil && c.Version == cacheVersion {
			return c
		}
	}
	return cache{}
}

// Count returns the counts of transcripts, and an error for each that cannot be read. Those of files that
// have not changed are cached, unless fresh is set.
func Count(ctx context.Context, getenv func(string) string, list []Transcript, fresh bool) ([]Counts, []error, error) {
	name := cacheFile(getenv)
	if fresh {
		name = ""
	}
	var before cache
	if name != "" {
		before = readCache(name)
	}
	counts, failed := make([]Counts, len(list)), make([]error, len(list))
	var added atomic.Bool
	err := Parallel(ctx, len(list), func(i int) {
		t := &list[i]
		if old, ok := before.Files[t.key()]; ok && old.Size == t.Size && old.Time == t.Time.UnixNano() {
			counts[i] = old.Counts
			return
		}
		counts[i], failed[i] = t.Count()
		added.Store(true)
	})
	if err != nil || name == "" || !added.Load() {
		return counts, failed, err
	}
	now := cache{cacheVersion, map[string]cached{}}
	for i := range list {
		if failed[i] == nil {
			now.Files[list[i].key()] = cached{list[i].Size, list[i].Time.UnixNano(), counts[i]}
		}
	}
	present := map[string]bool{}
	for _, t := range Transcripts(getenv) {
		present[t.key()] = true
	}
	for key, old := range before.Files {
		if _, counted := now.Files[key]; !counted && present[key] {
			now.Files[key] = old
		}
	}
	text, err := json.Marshal(now)
	if info, statErr := os.Lstat(name); statErr == nil && !info.Mode().IsRegular() {
		return counts, failed, err // it is not ours
	}
	if err == nil && os.MkdirAll(filepath.Dir(name), 0o700) == nil {
		_ = output.WriteFile(name, text, 0o600) // without a cache, the next time is as slow
	}
	return counts, failed, err
}
