package modelapi

import (
	"fmt"
	"hash/fnv"
	"iter"
	"slices"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// A Judge finds broken rules that need more of a payload than its message has.
type Judge interface {
	// Request judges the body of a request.
	Request(body []byte) []protocol.Broken
	// Answer judges an event or a whole answer, whose message is m, and adds its tool calls to
	// t.
	Answer(payload []byte, m *protocol.Message, t *Tools) []protocol.Broken
}

// Results judge the tool results of a conversation by its tool calls.
type Results struct {
	calls  map[string]bool
	Broken []protocol.Broken
}

// Call adds a tool call. Its id is a JSON string as written.
func (r *Results) Call(id []byte) {
	if r.calls == nil {
		r.calls = map[string]bool{}
	}
	r.calls[string(id)] = true
}

// Result judges the result of the call with an id.
func (r *Results) Result(id []byte) {
	if word := jsonwalk.Word(id); word != nil && !r.calls[string(id)] {
		r.Broken = append(r.Broken, protocol.Broken{Finding: "unknown-tool-call", How: fmt.Sprintf("there is a result for %.200q, which was not called", word)})
	}
}

// Tools are the tool calls of an answer. Their arguments may come in pieces.
type Tools struct {
	calls  []tool
	size   int
	places map[[2]int64][2]int64 // the keys of ids, by their places
	// Unused is why the usage is missing; nil if it has come.
	Unused []protocol.Broken
	told   int // how many calls [Tools.Named] has returned
}

type tool struct {
	key       [2]int64
	name      string
	arguments []byte // JSON if whole is set, or else a string with its escapes
	whole     bool
}

const (
	// maxTools bounds the tool calls of an answer that are judged, and maxArguments their
	// names and arguments, in bytes.
	maxTools     = 128
	maxArguments = 20 << 10
	maxToolName  = 256
)

// Add adds a name or a piece of the arguments to the call of a key; either may be nil. Beyond
// maxArguments only names are kept.
func (t *Tools) Add(key [2]int64, name, piece []byte) {
	i := slices.IndexFunc(t.calls, func(c tool) bool { return c.key == key })
	if i < 0 {
		if len(t.calls) == maxTools {
			return
		}
		t.calls, i = append(t.calls, tool{key: key}), len(t.calls)
	}
	c := &t.calls[i]
	if c.name == "" {
		c.name = string(name[:min(len(name), maxToolName)])
	}
	if t.keep(len(piece)) {
		c.arguments = append(c.arguments, piece...)
	}
}

// Key returns the key of a call in a choice: that of its id, or else of its index, -1 for none. A
// later piece may have either.
func (t *Tools) Key(choice, index int64, id []byte) [2]int64 {
	place := [2]int64{choice, index}
	if len(id) > 0 {
		h := fnv.New64a()
		_, _ = h.Write(id)
		key := [2]int64{choice, int64(h.Sum64() | 1<<63)} // no index is negative but -1
		if t.places == nil {
			t.places = map[[2]int64][2]int64{}
		}
		if len(t.places) < maxTools {
			t.places[place], t.places[[2]int64{choice, -1}] = key, key
		}
		return key
	}
	if key, ok := t.places[place]; ok {
		return key
	}
	return place
}

// AddWhole adds a call whose arguments are JSON, as written.
func (t *Tools) AddWhole(name, arguments []byte) {
	key := [2]int64{-1, int64(len(t.calls))}
	before := len(t.calls)
	if t.Add(key, name, nil); len(t.calls) > before && t.keep(len(arguments)) {
		c := &t.calls[before]
		c.arguments, c.whole = slices.Clone(arguments), true
	}
}

// keep reports whether so many more bytes of arguments may be kept. If not, it drops all
// arguments.
func (t *Tools) keep(n int) bool {
	if t.size += n; t.size <= maxArguments {
		return true
	}
	for i := range t.calls {
		t.calls[i].arguments = nil
	}
	t.size = maxArguments
	return n == 0
}

// Named returns the names of the calls that were added since its last call.
func (t *Tools) Named() (names []string) {
	for ; t.told < len(t.calls) && t.calls[t.told].name != ""; t.told++ {
		names = append(names, t.calls[t.told].name)
	}
	return names
}

// limits are the stop reasons of incomplete answers.
var limits = []string{"length", "max_tokens", "max_output_tokens", "model_context_window_exceeded", "content_filter", "refusal"}

// Judge judges the calls of an answer with that stop reason. fits returns why arguments, which
// are JSON, do not fit the tool of a name.
func (t *Tools) Judge(reason string, fits func(name string, arguments []byte) error) (broken []protocol.Broken) {
	broken = t.Unused
	if slices.Contains(limits, reason) {
		return broken
	}
	for _, c := range t.calls {
		text := c.argumentText()
		if len(text) == 0 { // arguments are optional
			continue
		}
		if err := jsonscan.WellFormed(text); err != nil {
			broken = append(broken, protocol.Broken{Finding: "bad-arguments", How: fmt.Sprintf("the arguments for %.200q are not JSON: %v", c.name, err)})
		} else if err := fits(c.name, text); err != nil {
			broken = append(broken, protocol.Broken{Finding: "bad-arguments", How: fmt.Sprintf("the arguments for %.200q do not fit its schema: %.300v", c.name, err)})
		}
	}
	return broken
}

// argumentText returns the arguments; nil for none.
func (c *tool) argumentText() []byte {
	if c.whole {
		return c.arguments
	}
	text, _ := jsonscan.Unquote(slices.Concat([]byte(`"`), c.arguments, []byte(`"`)))
	return text
}

// WrongUsage returns the finding that the usage is missing or does not add up.
func WrongUsage(format string, args ...any) []protocol.Broken {
	return []protocol.Broken{{Finding: "wrong-usage", How: fmt.Sprintf(format, args...)}}
}

// Sum judges a total, which must be the sum of its parts if it is present.
func Sum(usage []byte, total string, parts ...string) []protocol.Broken {
	raw, ok := jsonscan.Get(usage, total)
	if !ok || jsonscan.KindOf(raw) != jsonscan.Number {
		return nil
	}
	var sum int64
	for _, p := range parts {
		sum += Count(usage, p)
	}
	if all := jsonwalk.Count(raw); all != sum {
		return WrongUsage("%s is %d, and its parts are %d", total, all, sum)
	}
	return nil
}

// Count returns the count at a path; 0 if there is none.
func Count(usage []byte, path ...string) int64 {
	raw, _ := jsonscan.Get(usage, path...)
	return jsonwalk.Count(raw)
}

// Object returns the object at a path; nil if there is none.
func Object(payload []byte, path ...string) []byte {
	raw, _ := jsonscan.Get(payload, path...)
	if jsonscan.KindOf(raw) != jsonscan.Object {
		return nil
	}
	return raw
}

// Uses judges the tool results of a conversation. The member list of body holds its turns, and
// the member inner of a turn its blocks; read walks a block.
func Uses(body []byte, list, inner string, read func(*jsonscan.Scanner, *Results)) []protocol.Broken {
	var r Results
	var s jsonscan.Scanner
	s.Init(body)
	for ok := s.Object(); ok && s.Next(); {
		if string(s.Key()) != list {
			continue
		}
		for ok := s.Array(); ok && s.Elem(); {
			for ok := s.Object(); ok && s.Next(); {
				if string(s.Key()) != inner {
					continue
				}
				for ok := s.Array(); ok && s.Elem(); {
					read(&s, &r)
				}
			}
		}
	}
	if s.End() != nil {
		return nil
	}
	return r.Broken
}

// Elements yields the elements of the array at a path.
func Elements(payload []byte, path ...string) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		list, _ := jsonscan.Get(payload, path...)
		var s jsonscan.Scanner
		s.Init(list)
		for i, ok := 0, s.Array(); ok && s.Elem(); i++ {
			if !yield(i, s.Value()) {
				return
			}
		}
	}
}
