// Package jsondiff compares JSON values. White space, the order of keys, and the spelling of
// strings and numbers do not matter.
package jsondiff

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
)

// MaxDepth bounds how deep values are compared member by member. Deeper values are compared
// as text without white space.
const MaxDepth = 64

// A member is a key of an object with its value. nth counts earlier members with the same key.
type member struct {
	key   string
	nth   int
	value []byte
}

// membersOf returns the members of a valid object.
func membersOf(object []byte) []member {
	var list []member
	seen := make(map[string]int)
	var s jsonscan.Scanner
	s.Init(object)
	for ok := s.Object(); ok && s.Next(); {
		key := string(s.Key())
		list = append(list, member{key, seen[key], s.Value()})
		seen[key]++
	}
	return list
}

// elements returns the elements of a valid array.
func elements(array []byte) (list [][]byte) {
	var s jsonscan.Scanner
	s.Init(array)
	for ok := s.Array(); ok && s.Elem(); {
		list = append(list, s.Value())
	}
	return list
}

func isContainer(k jsonscan.Kind) bool { return k == jsonscan.Object || k == jsonscan.Array }

var seed = maphash.MakeSeed()

type pathTo struct {
	parent uint64
	key    string
}

// A Walk compares two valid JSON values. It calls Leaf for values that are not both objects or
// both arrays, with nil for an absent one. Elements have their numbers as keys. The keys are
// valid during the call.
//
// If Named is set, items of arrays are matched by a member that names them, and this name is
// their key.
type Walk struct {
	Ignore []Path
	Leaf   func(keys []string, a, b []byte)
	// Named reports whether the value of a member such as name or id identifies an item of an
	// array on both sides. Ids that each side makes up do not.
	Named func(key string, value []byte) bool
	// Reordered, if set, is called if the common items differ in order, with their names as
	// JSON arrays.
	Reordered func(keys []string, a, b []byte)

	keys []string
	path uint64 // hash of keys
}

// Place is the hash of the path that Leaf is called with.
func (w *Walk) Place() uint64 { return w.path }

// Values compares two values.
func (w *Walk) Values(a, b []byte) {
	a, b = bytes.TrimSpace(a), bytes.TrimSpace(b)
	kind := jsonscan.KindOf(a)
	switch {
	case Ignored(w.Ignore, w.keys):
	case !isContainer(kind) || jsonscan.KindOf(b) != kind || len(w.keys) >= MaxDepth:
		w.Leaf(w.keys, a, b)
	case kind == jsonscan.Array:
		w.arrays(a, b)
	default:
		w.members(membersOf(a), membersOf(b))
	}
}

// arrays compares two arrays. The ids of messages in a batch do not count as names.
func (w *Walk) arrays(a, b []byte) {
	if w.Named != nil && len(w.keys) > 0 {
		if itemsA, itemsB, ok := w.items(a, b); ok {
			w.named(itemsA, itemsB)
			return
		}
	}
	listA, listB := elements(a), elements(b)
	for i := range max(len(listA), len(listB)) {
		w.member(strconv.Itoa(i), elementAt(listA, i), elementAt(listB, i))
	}
}

func elementAt(list [][]byte, i int) []byte {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// members compares members with the same key: first in the order of a, then those that
// only b has.
func (w *Walk) members(a, b []member) {
	type id struct {
		key string
		nth int
	}
	there := make(map[id][]byte, len(b))
	for _, m := range b {
		there[id{m.key, m.nth}] = m.value
	}
	for _, m := range a {
		w.member(m.key, m.value, there[id{m.key, m.nth}])
		delete(there, id{m.key, m.nth})
	}
	for _, m := range b {
		if value, ok := there[id{m.key, m.nth}]; ok {
			w.member(m.key, nil, value)
		}
	}
}

func (w *Walk) member(key string, a, b []byte) {
	path := w.path
	w.path = maphash.Comparable(seed, pathTo{path, key})
	w.keys = append(w.keys, key)
	w.Values(a, b)
	w.keys = w.keys[:len(w.keys)-1]
	w.path = path
}

// Same reports whether two JSON values are equal; nil is no value. Objects and arrays are
// equal if they differ only in white space.
func Same(a, b []byte) bool {
	switch {
	case a == nil || b == nil:
		return a == nil && b == nil
	case bytes.Equal(a, b):
		return true
	case jsonscan.KindOf(a) != jsonscan.KindOf(b):
		return false
	}
	return bytes.Equal(plain(a), plain(b))
}

// plain returns the canonical form of a value.
func plain(value []byte) []byte {
	switch kind := jsonscan.KindOf(value); {
	case kind == jsonscan.String:
		text, _ := jsonscan.Unquote(value)
		return text
	case kind == jsonscan.Number:
		return plainNumber(value)
	case isContainer(kind):
		return jsonscan.AppendCompact(nil, value)
	}
	return value
}

// plainNumber keeps integers as written. Other numbers are rounded to a double if they are in
// its range.
func plainNumber(value []byte) []byte {
	if !bytes.ContainsAny(value, ".eE") {
		return value
	}
	n, err := strconv.ParseFloat(string(value), 64)
	if err != nil {
		return value
	}
	return strconv.AppendFloat(nil, n, 'f', -1, 64)
}

// sortMembers puts members in the order of their keys.
func sortMembers(list []member) {
	slices.SortStableFunc(list, func(m, n member) int { return strings.Compare(m.key, n.key) })
}

// Leaves calls leaf for each scalar of a valid JSON text that is the value of a key, or in a
// list that is, with the key and the offset of the scalar. It skips values deeper than
// MaxDepth.
func Leaves(text []byte, leaf func(key string, at int, value []byte)) {
	leavesOf("", bytes.TrimRight(text, " \t\r\n"), 0, 0, leaf)
}

func leavesOf(of string, text []byte, base, depth int, leaf func(key string, at int, value []byte)) {
	if depth > MaxDepth {
		return
	}
	var s jsonscan.Scanner
	s.Init(text)
	for ok := s.Object(); ok && s.Next(); {
		key, at, value := string(s.Key()), s.Offset(), s.Value()
		if isContainer(jsonscan.KindOf(value)) {
			leavesOf(key, value, base+at, depth+1, leaf)
		} else {
			leaf(key, base+at, value)
		}
	}
	for ok := s.Array(); ok && s.Elem(); {
		at, value := s.Offset(), s.Value()
		switch {
		case isContainer(jsonscan.KindOf(value)):
			leavesOf("", value, base+at, depth+1, leaf)
		case of != "":
			leaf(of, base+at, value)
		}
	}
}

// A Path names members of payloads by keys. "*" stands for any one key or element. Elements
// are named by number, or by name if they have one.
type Path []string

// ParsePath parses a path of keys separated by dots.
func ParsePath(text string) (Path, error) {
	p := Path(strings.Split(text, "."))
	if slices.Contains(p, "") {
		return nil, fmt.Errorf("invalid path %q: %w", text, errPath)
	}
	return p, nil
}

var errPath = errors.New("write keys with dots between them, such as params.*.time")

// Ignored reports whether one of the paths names a member.
func Ignored(ignore []Path, keys []string) bool {
	matches := func(pattern, key string) bool { return pattern == "*" || pattern == key }
	return slices.ContainsFunc(ignore, func(p Path) bool { return slices.EqualFunc(p, keys, matches) })
}

// Join returns a path in the form that ParsePath reads. It shortens a long one.
func Join(keys []string) string {
	var b strings.Builder
	for i, k := range keys {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(render.Clip(k, maxPath))
		if b.Len() > maxPath {
			return render.Shorten(b.String(), maxPath)
		}
	}
	return b.String()
}

// maxPath bounds the result of Join, in bytes.
const maxPath = 200

// HoldsID reports whether a key holds ids, judged by its name: id, requestId, target_id,
// progressToken, request_seq, or a list such as taskIds. The requestState of an MCP call names
// the call that a retry continues.
func HoldsID(key string) bool {
	key = strings.ToLower(key)
	return key == "requeststate" || strings.HasSuffix(key, "id") || strings.HasSuffix(key, "ids") || strings.HasSuffix(key, "token") || strings.HasSuffix(key, "seq")
}

// IsToken reports whether a JSON value is the token with that text. Tokens of some protocols
// include the quotes.
func IsToken(value []byte, text string) bool {
	if string(value) == text {
		return true
	}
	unquoted, ok := jsonscan.Unquote(value)
	return ok && string(unquoted) == text
}
