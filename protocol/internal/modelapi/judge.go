package modelapi

import (
	"fmt"
	"iter"
	"slices"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// A Judge finds what requests and answers break besides what their messages tell.
type Judge interface {
	// Request judges the body of a request.
	Request(body []byte) []protocol.Broken
	// Answer judges an event or a whole answer, whose message is m. It adds what that
	// brings of tool calls to t.
	Answer(payload []byte, m *protocol.Message, t *Tools) []protocol.Broken
}

// Results are the tool calls of a conversation, by which its tool results are judged.
type Results struct {
	calls  map[string]bool
	Broken []protocol.Broken
}

// Call notes a tool call, whose id is a string as it is written.
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

// Tools are the tool calls of an answer, whose arguments may come in pieces.
type Tools struct {
	calls []tool
	size  int
	told  int // of the calls, how many [Tools.Named] has yielded
}

type tool struct {
	key       [2]int64
	name      string
	arguments []byte // escapes as written, unless it is whole
	whole     bool   // arguments is JSON
}

const (
	// maxTools bounds the tool calls of an answer that are judged, and maxArguments their
	// names and arguments, in bytes.
	maxTools     = 128
	maxArguments = 20 << 10
	maxToolName  = 256
)

// Add notes a piece of the call of a key; either may be nil. Of what is too much only the
// names are kept.
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

// AddWhole notes a call whose arguments are JSON, as it is written.
func (t *Tools) AddWhole(name, arguments []byte) {
	key := [2]int64{-1, int64(len(t.calls))}
	before := len(t.calls)
	if t.Add(key, name, nil); len(t.calls) > before && t.keep(len(arguments)) {
		c := &t.calls[before]
		c.arguments, c.whole = slices.Clone(arguments), true
	}
}

// keep reports whether so many bytes of arguments are kept. If not, none are.
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

// Named returns the names of the calls that were added since it was called last.
func (t *Tools) Named() (names []string) {
	for ; t.told < len(t.calls) && t.calls[t.told].name != ""; t.told++ {
		names = append(names, t.calls[t.told].name)
	}
	return names
}

// limits are the reasons for which models stop in the middle of what they say.
var limits = []string{"length", "max_tokens", "max_output_tokens", "model_context_window_exceeded", "content_filter", "refusal"}

// Judge returns what is wrong with the calls of an answer that has stopped for a reason.
// fits says why arguments, which are JSON, are not those of the tool of a name.
func (t *Tools) Judge(reason string, fits func(name string, arguments []byte) error) (broken []protocol.Broken) {
	if slices.Contains(limits, reason) {
		return nil
	}
	for _, c := range t.calls {
		text := c.argumentText()
		if len(text) == 0 { // none are needed
			continue
		}
		if err := jsonscan.Valid(text); err != nil {
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

// WrongUsage says that what was used is missing, or in which way it does not add up.
func WrongUsage(format string, args ...any) []protocol.Broken {
	return []protocol.Broken{{Finding: "wrong-usage", How: fmt.Sprintf(format, args...)}}
}

// Sum judges a total, which is that of the parts if it is told.
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

// Count returns a count in the object that usage is; 0 if it is not there.
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

// Uses returns what is wrong with the tool results of a conversation. Its turns are the
// member list of body, and the blocks of a turn its member inner; read walks a block.
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

// Indexed yields the elements of the array at a path.
func Indexed(payload []byte, path ...string) iter.Seq2[int, []byte] {
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

// Elements is Indexed without the indexes.
func Elements(payload []byte, path ...string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, element := range Indexed(payload, path...) {
			if !yield(element) {
				return
			}
		}
	}
}
