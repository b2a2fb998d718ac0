package starlark

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	starjson "go.starlark.net/lib/json"
	"go.starlark.net/lib/math"
	"go.starlark.net/starlark"

	"github.com/wirectl/wirectl/rlm"
)

// A space has the variables of a session.
type space struct {
	names    starlark.StringDict
	reserved starlark.StringDict // variables of the worker
	answer   *starlark.Dict
	history  []json.RawMessage
	final    *string // answer of the run
	patterns map[string]*regexp.Regexp
}

var (
	_ starlark.HasSetField = session{}
	_ starlark.HasAttrs    = session{}
)

// A session is the variables as the fields of a value, which compiled code sets.
type session struct{ names starlark.StringDict }

func (session) String() string        { return self }
func (session) Type() string          { return "session" }
func (session) Freeze()               {}
func (session) Truth() starlark.Bool  { return true }
func (session) Hash() (uint32, error) { return 0, errors.New("unhashable") }

// AttrNames implements [starlark.HasAttrs].
func (s session) AttrNames() []string { return s.names.Keys() }

// Attr implements [starlark.HasAttrs].
func (s session) Attr(name string) (starlark.Value, error) {
	if v, ok := s.names[name]; ok {
		return v, nil
	}
	return nil, undefined(name)
}

// SetField implements [starlark.HasSetField].
func (s session) SetField(name string, v starlark.Value) error {
	s.names[name] = v
	return nil
}

// undefined returns an error in the words of the interpreter.
func undefined(name string) error {
	return fmt.Errorf("%s%s is uninitialized", unknownName, name)
}

func newSpace(w *worker) space {
	s := space{names: maps.Clone(starlark.Universe), answer: starlark.NewDict(2), patterns: map[string]*regexp.Regexp{}}
	s.names[self] = session{s.names}
	_ = s.answer.SetKey(starlark.String("content"), starlark.String(""))
	_ = s.answer.SetKey(starlark.String("ready"), starlark.False)
	s.reserved = starlark.StringDict{
		"answer": s.answer, "history": starlark.NewList(nil), "RLM_CORRELATION_ID": starlark.String(""), "RLM_DEPTH": starlark.MakeInt(0),
		"json": starjson.Module, "math": math.Module,
	}
	for name, f := range map[string]builtin{
		"llm_query": w.query, "rlm_query": w.query, "llm_query_batched": w.batched, "rlm_query_batched": w.batched,
		"FINAL": w.giveFinal, "FINAL_VAR": w.giveFinalVar, "SHOW_VARS": w.showVars, "regex_find": w.regexFind, "regex_all": w.regexAll,
	} {
		s.reserved[name] = starlark.NewBuiltin(name, f)
	}
	return s
}

type builtin = func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error)

// restore restores the worker's variables, which code may have changed.
func (s *space) restore() {
	switch found := s.names["answer"].(type) {
	case nil, starlark.NoneType, starlark.Callable:
	case *starlark.Dict: // it was meant to be the answer
		if found != s.answer {
			_ = s.answer.Clear()
			for _, item := range found.Items() {
				_ = s.answer.SetKey(item[0], item[1])
			}
		}
	default: // so was this
		_ = s.answer.SetKey(starlark.String("content"), found)
	}
	maps.Copy(s.names, s.reserved)
}

// variables returns the names of the variables that code has set.
func (s *space) variables() []string {
	var found []string
	for name, v := range s.names {
		_, ours := s.reserved[name]
		if !ours && !strings.HasPrefix(name, "_") && name != self && starlark.Universe[name] != v {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

func (s *space) lookup(name string) (starlark.Value, bool) {
	name = strings.TrimSpace(strings.Trim(strings.TrimSpace(name), `'"`))
	v, ok := s.names[name]
	_, isFunction := v.(*starlark.Builtin)
	if !ok || isFunction || name == self {
		return nil, false
	}
	meant := s.meant(v)
	return meant, v != s.answer || meant != starlark.String("")
}

// meant returns what a value means as an answer: the dict answer is not one.
func (s *space) meant(v starlark.Value) starlark.Value {
	if v == s.answer {
		if content, ok, _ := s.answer.Get(starlark.String("content")); ok {
			return content
		}
	}
	return v
}

func (s *space) readAnswer() (content starlark.Value, ready bool) {
	content = starlark.String("")
	if v, ok, _ := s.answer.Get(starlark.String("content")); ok {
		content = v
	}
	v, ok, _ := s.answer.Get(starlark.String("ready"))
	return content, ok && bool(v.Truth())
}

// set sets a variable of the host.
func (w *worker) set(m *message) {
	value := m.Value
	if m.Name == "tools" {
		var list []rlm.Function
		_ = json.Unmarshal(m.Value, &list) // as the host sends it
		for _, f := range list {
			w.reserved[f.Name] = starlark.NewBuiltin(f.Name, w.tool(f))
		}
		return
	}
	if m.Name == "history" {
		var added []json.RawMessage
		_ = json.Unmarshal(m.Value, &added) // the host sends lists
		w.history = append(w.history[:min(m.From, len(w.history))], added...)
		value, _ = json.Marshal(w.history) // it was JSON
	}
	if v, err := decode(string(value)); err == nil {
		w.reserved[m.Name] = v
	}
}

func decode(text string) (starlark.Value, error) {
	return starlark.Call(&starlark.Thread{}, starjson.Module.Members["decode"], starlark.Tuple{starlark.String(text)}, nil)
}

// load reads the context.
func (w *worker) load(m *message) object {
	v, err := w.readContext(m)
	switch {
	case m.life.Err() != nil:
		return failure(interrupted, "")
	case err != nil:
		return failure("ValueError", err.Error())
	}
	w.reserved["context"] = v
	return object{}
}

func (w *worker) readContext(m *message) (starlark.Value, error) {
	f, err := os.Open(m.Path)
	if err != nil {
		return nil, errors.Unwrap(err) // without a path of the host
	}
	defer f.Close()
	if m.Type == "jsonl" {
		return readLines(m, f)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var text strings.Builder // which becomes a string where it is
	text.Grow(int(info.Size()))
	for err == nil && m.life.Err() == nil {
		_, err = io.CopyN(&text, f, 16<<20)
	}
	switch {
	case err != nil && err != io.EOF:
		return nil, errors.New("the file cannot be read")
	case m.Type == "json":
		return decode(text.String())
	}
	return starlark.String(strings.ToValidUTF8(text.String(), "\ufffd")), nil
}

func readLines(m *message, f io.Reader) (starlark.Value, error) {
	var list []starlark.Value
	lines := bufio.NewReader(f)
	for number := 1; m.life.Err() == nil; number++ {
		line, err := lines.ReadString('\n')
		if strings.TrimSpace(line) != "" {
			v, failed := decode(line)
			if failed != nil {
				return nil, fmt.Errorf("line %d: %w", number, failed)
			}
			list = append(list, v)
		}
		if err == io.EOF {
			break
		} else if err != nil {
			return nil, errors.New("the file cannot be read")
		}
	}
	return starlark.NewList(list), nil
}

func (w *worker) giveFinal(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "value", &v); err != nil {
		return nil, err
	}
	text, err := answerOf(w.meant(v))
	if err != nil {
		return nil, err
	}
	w.final = &text
	return starlark.String(text), nil
}

func (w *worker) giveFinalVar(t *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var name starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "name", &name); err != nil {
		return nil, err
	}
	if v, ok := w.lookup(textOf(name)); ok {
		return w.giveFinal(t, b, starlark.Tuple{v}, nil)
	}
	text := fmt.Sprintf("Error: Variable '%s' not found", cut(textOf(name), 100))
	w.print(text + "\n") // code that expects the run to end prints nothing
	return starlark.String(text), nil
}

func (w *worker) showVars(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if err := starlark.UnpackArgs(b.Name(), args, kwargs); err != nil {
		return nil, err
	}
	var lines []string
	for _, name := range w.variables() {
		lines = append(lines, name+": "+w.names[name].Type())
	}
	if lines == nil {
		lines = []string{"no variables yet"}
	}
	return starlark.String(strings.Join(lines, "\n")), nil
}

// maxPatterns is how many compiled patterns are kept.
const maxPatterns = 100

func (w *worker) pattern(b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (p *regexp.Regexp, text string, err error) {
	var expr string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "pattern", &expr, "text", &text); err != nil {
		return nil, "", err
	}
	if p = w.patterns[expr]; p == nil {
		if p, err = regexp.Compile(expr); err != nil {
			return nil, "", err
		}
		if len(w.patterns) == maxPatterns {
			clear(w.patterns)
		}
		w.patterns[expr] = p
	}
	return p, text, nil
}

// found is a match: its text, that of its one group, or a tuple of the texts of its groups.
func found(match []string) starlark.Value {
	if len(match) <= 2 {
		return starlark.String(match[len(match)-1])
	}
	var groups starlark.Tuple
	for _, group := range match[1:] {
		groups = append(groups, starlark.String(group))
	}
	return groups
}

func (w *worker) regexFind(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	p, text, err := w.pattern(b, args, kwargs)
	if err != nil {
		return nil, err
	}
	if match := p.FindStringSubmatch(text); match != nil {
		return found(match), nil
	}
	return starlark.None, nil
}

func (w *worker) regexAll(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	p, text, err := w.pattern(b, args, kwargs)
	if err != nil {
		return nil, err
	}
	var list []starlark.Value
	for _, match := range p.FindAllStringSubmatch(text, -1) {
		list = append(list, found(match))
	}
	return starlark.NewList(list), nil
}

// Bounds of the representations of a variable, and of all together, in bytes.
const (
	shown    = 2000
	allShown = 4 << 20
)

func (w *worker) locals() map[string]string {
	texts, room := map[string]string{}, allShown
	for _, name := range w.variables() {
		text := cut(show(w.names[name], shown, 0), shown)
		if room -= len(name) + len(text); room < 0 {
			break
		}
		texts[name] = text
	}
	return texts
}

// show returns the representation of a value. Only its beginning has to be correct.
func show(v starlark.Value, room, depth int) string {
	switch v := v.(type) {
	case starlark.String:
		return starlark.String(cut(string(v), room)).String()
	case starlark.Bytes:
		return starlark.Bytes(cut(string(v), room)).String()
	case starlark.Int:
		if _, small := v.Int64(); !small && v.BigInt().BitLen() > 4*shown {
			return fmt.Sprintf("<int of %d bits>", v.BigInt().BitLen())
		}
	case *starlark.Function:
		return "<function '" + v.Name() + "'>"
	case *starlark.Builtin:
		return "<function '" + v.Name() + "'>"
	case *starlark.List:
		return showItems("[", v, "]", room, depth)
	case starlark.Tuple:
		if len(v) == 1 {
			return showItems("(", v, ",)", room, depth)
		}
		return showItems("(", v, ")", room, depth)
	case *starlark.Set:
		return showItems("set([", v, "])", room, depth)
	case *starlark.Dict:
		return showItems("{", v, "}", room, depth)
	}
	return v.String()
}

func showItems(left string, v starlark.Iterable, right string, room, depth int) string {
	if depth > 8 {
		return left + "..." + right
	}
	dict, _ := v.(*starlark.Dict)
	var parts []string
	used := 0
	for item := range starlark.Elements(v) {
		text := show(item, room-used, depth+1)
		if dict != nil {
			of, _, _ := dict.Get(item) // it is one of its keys
			text += ": " + show(of, room-used, depth+1)
		}
		parts = append(parts, text)
		if used += len(text) + 2; used > room {
			break
		}
	}
	return left + strings.Join(parts, ", ") + right
}

// cut returns at most the first n bytes of text, without an incomplete character.
func cut(text string, n int) string {
	if len(text) <= max(0, n) {
		return text
	}
	return strings.ToValidUTF8(text[:max(0, n)], "")
}
