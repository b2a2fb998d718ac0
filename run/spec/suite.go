package spec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/table"
)

// recordHint says how a session becomes a spec.
func recordHint(name string) string {
	return "; wirectl test --record " + name + " > spec.yaml writes a spec of a session"
}

// files returns the specs that names stand for: files, and folders of YAML files.
func files(names []string) (list []string, err error) {
	for _, name := range names {
		info, err := os.Stat(name)
		_, isRun := os.Lstat(filepath.Join(name, history.RunFile))
		switch {
		case err == nil && isRun == nil, err != nil && strings.Contains(name, ":") && filepath.VolumeName(name) == "":
			return nil, &Error{File: name, Msg: "is a session, not a spec" + recordHint(name)}
		case err != nil:
			return nil, err
		}
		if !info.IsDir() {
			list = append(list, name)
			continue
		}
		before := len(list)
		err = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
			isSpec := err == nil && entry.Type().IsRegular() && slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path))
			if isSpec {
				list = append(list, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(list) == before {
			return nil, &Error{File: name, Msg: "has no specs: they are files that end in .yaml"}
		}
	}
	return list, nil
}

// ReadAll reads the specs of files and folders. It tells of each of several that are wrong.
func ReadAll(names []string, tell func(error)) (specs []*Spec, err error) {
	list, err := files(names)
	if err != nil {
		return nil, err
	}
	var wrong []error
	for _, file := range list {
		s, err := Read(file)
		if err != nil {
			wrong = append(wrong, err)
		}
		specs = append(specs, s)
	}
	if len(wrong) == 1 {
		return nil, wrong[0]
	}
	for _, err := range wrong {
		tell(err)
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("%d of %s are wrong, so none was tested", len(wrong), render.Count(int64(len(list)), "spec"))
	}
	return specs, nil
}

// A Suite tests specs.
type Suite struct {
	Specs      []*Spec
	Reader     *Reader
	Jobs       int // how many are tested at once
	Runs, Pass int // how often a command runs, and how often it must pass
	Environ    []string
	Out        table.Output
}

// A miss is an expectation that is not met.
type miss struct {
	*check
	said string
}

// An attempt is a session that was judged, or why it was not.
type attempt struct {
	name   string // of the session
	trace  *Trace
	misses []miss
	err    error
	output string // the end of what the command has written
	done   chan struct{}
}

func (a *attempt) passed() bool { return a.err == nil && len(a.misses) == 0 }

// A Result counts specs.
type Result struct{ Passed, Failed, Unable int }

// String says how many specs passed.
func (r Result) String() string {
	text := fmt.Sprintf("%s: %d passed", render.Count(int64(r.Passed+r.Failed+r.Unable), "spec"), r.Passed)
	if r.Failed > 0 {
		text += fmt.Sprintf(", %d failed", r.Failed)
	}
	if r.Unable > 0 {
		text += fmt.Sprintf(", %d could not be tested", r.Unable)
	}
	return text
}

// Run tests all specs and writes how that went, in their order.
func (s *Suite) Run(ctx context.Context) (result Result, err error) {
	attempts := make([][]*attempt, len(s.Specs))
	slots := make(chan struct{}, max(1, s.Jobs))
	var all sync.WaitGroup
	defer all.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for i, sp := range s.Specs {
		for range s.runs(sp) {
			attempts[i] = append(attempts[i], &attempt{done: make(chan struct{})})
		}
	}
	all.Go(func() {
		for i, list := range attempts {
			for _, a := range list {
				slots <- struct{}{}
				all.Go(func() {
					defer func() { <-slots; close(a.done) }()
					s.attempt(ctx, s.Specs[i], a)
				})
			}
		}
	})
	doc := table.Suites{Name: "wirectl test"}
	for i, sp := range s.Specs {
		for _, a := range attempts[i] {
			<-a.done
		}
		if ctx.Err() != nil {
			return result, context.Cause(ctx)
		}
		text := s.report(sp, attempts[i], &result)
		if s.Out.Form == table.AsJUnit {
			doc.List = append(doc.List, s.junit(sp, attempts[i]))
		} else if _, err := io.WriteString(s.Out.To, text); err != nil {
			return result, err
		}
		for _, a := range attempts[i] {
			a.trace = nil
		}
	}
	if s.Out.Form == table.AsJUnit {
		return result, doc.Write(s.Out.To)
	}
	return result, nil
}

func (s *Suite) runs(sp *Spec) int {
	if sp.Command == nil {
		return 1
	}
	return s.Runs
}

func (s *Suite) mustPass(sp *Spec) int {
	if sp.Command == nil {
		return 1
	}
	return s.Pass
}

// attempt judges a session, which it makes if it is not recorded.
func (s *Suite) attempt(ctx context.Context, sp *Spec, a *attempt) {
	name, left := sp.Session, ""
	if sp.Command != nil {
		ended, err := start(ctx, sp, s.Reader.Opener.Getenv, s.Environ)
		if ended != nil {
			a.name, a.output, left = "run:"+ended.Run.ID, ended.tail, ended.Left
			name = a.name
		}
		if a.err = err; err != nil {
			return
		}
	}
	a.name = cmp.Or(a.name, source.Label(name))
	if a.trace, a.err = s.Reader.Read(ctx, name); a.err != nil {
		return
	}
	a.trace.left = left
	for i := range sp.checks {
		list, err := sp.checks[i].judge(ctx, s.Reader, a.trace)
		for _, said := range list {
			a.misses = append(a.misses, miss{&sp.checks[i], said})
		}
		a.err = cmp.Or(a.err, err)
	}
}

// report says how the attempts of a spec went, and counts it.
func (s *Suite) report(sp *Spec, list []*attempt, result *Result) string {
	passed, unable := 0, 0
	for _, a := range list {
		if a.passed() {
			passed++
		}
		if a.err != nil {
			unable++
		}
	}
	verdict, paint := "ok   ", s.Out.Style.Kind
	switch {
	case passed >= s.mustPass(sp):
		result.Passed++
	case unable > 0:
		verdict, paint = "error", s.Out.Style.Error
		result.Unable++
	default:
		verdict, paint = "FAIL ", s.Out.Style.Error
		result.Failed++
	}
	text := paint.Text(verdict) + " " + render.Safe(sp.File)
	if len(list) > 1 {
		text += fmt.Sprintf(": %d of %d runs passed", passed, len(list))
	} else if list[0].passed() {
		text += ": " + list[0].trace.about()
	}
	text += "\n"
	for _, a := range list {
		if a.passed() {
			continue
		}
		for line := range strings.Lines(a.lines(sp)) {
			text += "      " + line
		}
	}
	return text
}

// about says in a few words what a session was.
func (t *Trace) about() string {
	var parts []string
	if t.unseen == "" {
		parts = append(parts, render.Count(int64(len(t.Tools)), "tool call"))
	}
	if t.counted {
		parts = append(parts, render.Count(t.usage.Input+t.usage.Output, "token"))
	}
	if t.took >= 0 {
		parts = append(parts, table.Millis(t.took.Round(time.Microsecond)).String())
	}
	return strings.Join(parts, ", ")
}

// lines tell of an attempt that has not passed.
func (a *attempt) lines(sp *Spec) string {
	var b strings.Builder
	for _, m := range a.misses {
		at := m.key
		if m.line > 0 {
			at += fmt.Sprintf(" (line %d)", m.line)
		}
		fmt.Fprintf(&b, "%s: %s\n", at, strings.ReplaceAll(m.said, "\n", "\n  "))
	}
	name := render.Safe(a.name)
	if a.err != nil {
		text := strings.ReplaceAll(a.err.Error(), "\n", "; ")
		if errors.Is(a.err, fs.ErrNotExist) {
			text += ": paths in a spec are relative to its folder"
		}
		fmt.Fprintln(&b, render.Safe(text))
	}
	if a.output != "" {
		fmt.Fprintf(&b, "its last line: %s\n", a.output)
	}
	if name != "" && (sp.Command != nil || a.err == nil) {
		fmt.Fprintf(&b, "wirectl why %s\n", name)
	}
	return b.String()
}

// junit has a test for each expectation, or for all of them together if the command ran more than once.
func (s *Suite) junit(sp *Spec, list []*attempt) table.Suite {
	suite := table.Suite{Name: sp.File}
	if len(list) == 1 && list[0].err == nil {
		a := list[0]
		for i := range sp.checks {
			k := &sp.checks[i]
			c := table.Case{Class: sp.File, Name: k.key}
			if k.line > 0 {
				c.Name += fmt.Sprintf(" (line %d)", k.line)
			}
			var said []string
			for _, m := range a.misses {
				if m.check == k {
					said = append(said, m.said)
				}
			}
			if len(said) > 0 {
				c.Failure = &table.Failure{Type: session.Error.String(), Message: said[0], Text: strings.Join(append(said, "wirectl why "+a.name), "\n")}
			}
			suite.Append(c)
		}
		return suite
	}
	passed, text := 0, ""
	for _, a := range list {
		if a.passed() {
			passed++
		} else {
			text += a.lines(sp)
		}
	}
	c := table.Case{Class: sp.File, Name: fmt.Sprintf("%d of %d runs pass", s.mustPass(sp), len(list)), Output: text}
	if passed < s.mustPass(sp) {
		c.Output, c.Failure = "", &table.Failure{Type: session.Error.String(), Message: fmt.Sprintf("%d of %d runs passed", passed, len(list)), Text: text}
	}
	suite.Append(c)
	return suite
}
