package jsonwalk

import (
	"math/bits"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
)

// Paths is a table that says which members of a message the fields of T hold. It is made of the
// tags of the fields:
//
//	TurnID []byte `at:"params.turnId params.turn.id"`
//
// A path is the keys from the top of the message. A step of it may be several keys, as in `a|b`; `*`
// is any other key, `[0]` the first element of an array, and `[]` each element that is not for a `[0]`
// of the table. A tilde stands for a dot in a key. If a message has several paths of a field, or repeats one, the last value counts.
// A field named _ continues the tag of the one before it.
//
// The paths of the fields of an inner struct begin with those of the struct. Those of an embedded one
// also count without.
//
// A field of bytes holds the value as written, and nil if it is missing or malformed. An int64
// holds a [Count], an int says how many there are, and a bool whether there is one. These words
// change that, after a comma behind a path:
//
//   - word: [Word]
//   - text: a string like a word, and other values as written
//   - unquoted: a string without quotes and escapes, and nothing else
//   - set: null is as good as missing
//   - filled: null and empty values are ignored
//   - first: the first value counts
//   - plain: an object or array is ignored if the table has a path into it
//   - true: whether the value is true
//   - sum: all values count
//   - micros: [Micros]
type Paths[T any] struct {
	root   step
	fields map[string]uintptr
}

// A step is a value on a path: those that follow, and the fields that hold it.
type step struct {
	keys   []key  // in the order of the table
	slots  []key  // the same keys, each at its own number
	factor uint64 // with which the numbers differ
	shift  uint8
	other  *step // any other key
	first  *step // element of an array
	each   *step
	leaves []leaf
}

type key struct {
	name string
	step *step
	only int // the offset of the field that holds the value as written, if nothing else is to do; -1 otherwise
}

// A leaf is a field at some offset.
type leaf struct {
	at   uintptr
	kind reflect.Kind
	how  how
}

// how says how a leaf holds a value.
type how uint16

const (
	word how = 1 << iota
	text
	unquoted
	set
	filled
	first
	plain
	isTrue
	sum
	micros
)

var hows = map[string]how{
	"word": word, "text": text, "unquoted": unquoted, "set": set, "filled": filled, "first": first, "plain": plain, "true": isTrue, "sum": sum, "micros": micros,
}

// PathsOf returns the table of T. It panics if a tag is wrong.
func PathsOf[T any]() *Paths[T] {
	p := &Paths[T]{fields: map[string]uintptr{}}
	p.addFields(reflect.TypeFor[T](), 0, "")
	p.root.finish()
	return p
}

// addFields adds the fields of t, which is at an offset in T. The prefix of their paths ends in a dot.
func (p *Paths[T]) addFields(t reflect.Type, offset uintptr, prefix string) {
	var l leaf
	for i := range t.NumField() {
		f := t.Field(i)
		at := strings.Fields(f.Tag.Get("at"))
		if f.Type.Kind() == reflect.Struct && f.Name != "_" {
			if f.Anonymous {
				p.addFields(f.Type, offset+f.Offset, prefix)
			}
			for _, path := range at {
				p.addFields(f.Type, offset+f.Offset, prefix+path+".")
			}
			continue
		}
		if f.Name != "_" {
			l = leaf{at: offset + f.Offset, kind: f.Type.Kind()}
		}
		for _, path := range at {
			path, words, _ := strings.Cut(prefix+path, ",")
			l.how = 0
			for w := range strings.SplitSeq(words, ",") {
				if l.how |= hows[w]; w != "" && hows[w] == 0 {
					panic("jsonwalk: unknown word " + w)
				}
			}
			p.fields[path] = l.at
			p.root.insert(strings.Split(strings.ReplaceAll(path, "[", ".["), "."), l)
		}
	}
}

// insert adds a leaf at the end of a path.
func (n *step) insert(path []string, l leaf) {
	if len(path) == 0 {
		n.leaves = append(n.leaves, l)
		return
	}
	for name := range strings.SplitSeq(strings.ReplaceAll(path[0], "~", "."), "|") {
		next := n.next(name)
		if *next == nil {
			*next = new(step)
		}
		(*next).insert(path[1:], l)
	}
}

// next returns the place of the step with a key.
func (n *step) next(name string) **step {
	switch name {
	case "*":
		return &n.other
	case "[]":
		return &n.each
	case "[0]":
		return &n.first
	}
	at := slices.IndexFunc(n.keys, func(k key) bool { return k.name == name })
	if at < 0 {
		at = len(n.keys)
		n.keys = append(n.keys, key{name: name, only: -1})
	}
	return &n.keys[at].step
}

// finish completes a step and those that follow.
func (n *step) finish() {
	for i := range n.keys {
		k := &n.keys[i]
		if k.step.finish(); len(k.step.leaves) == 1 && k.step.leaves[0].how == 0 && k.step.leaves[0].kind == reflect.Slice && !k.step.isWalked() {
			k.only = int(k.step.leaves[0].at)
		}
	}
	for _, next := range [...]*step{n.other, n.first, n.each} {
		if next != nil {
			next.finish()
		}
	}
	n.shift = uint8(62 - bits.Len(uint(len(n.keys))))
	for taken := true; taken; {
		n.slots, n.factor, taken = make([]key, 1<<(64-n.shift)), rand.Uint64()|1, false
		for _, k := range n.keys {
			slot := n.slot(jsonscan.Hash(k.name))
			taken = taken || slot.step != nil
			*slot = k
		}
	}
}

// isWalked reports whether values have members or elements in the table.
func (n *step) isWalked() bool {
	return n.keys != nil || n.other != nil || n.first != nil || n.each != nil
}

// slot returns where a key with that hash is if the step has it.
func (n *step) slot(hash uint64) *key { return &n.slots[hash*n.factor>>(n.shift&63)] }

// Read walks the next value and fills to.
func (p *Paths[T]) Read(s *jsonscan.Scanner, to *T) {
	p.root.read(s, unsafe.Pointer(to))
}

// Parse parses a payload: to holds its members, with which interpret fills m.
func (p *Paths[T]) Parse(payload []byte, m *protocol.Message, to *T, interpret func()) error {
	var s jsonscan.Scanner
	m.Reset()
	s.Init(payload)
	p.Read(&s, to)
	interpret()
	return End(&s, m)
}

// ParseObject is [Paths.Parse] for protocols whose messages are objects. It interprets no other text.
func (p *Paths[T]) ParseObject(payload []byte, m *protocol.Message, to *T, interpret func()) error {
	var s jsonscan.Scanner
	m.Reset()
	s.Init(payload)
	isObject := s.Peek() == jsonscan.Object
	if p.Read(&s, to); s.End() != nil || !isObject {
		m.Faults |= protocol.UnknownKind
	} else {
		interpret()
	}
	return End(&s, m)
}

func (n *step) read(s *jsonscan.Scanner, to unsafe.Pointer) {
	start, walked := s.Offset(), false
	switch {
	case (n.keys != nil || n.other != nil) && s.Object():
		for walked = true; s.Next(); {
			next := n.other
			if k := n.slot(s.KeyHash()); k.step != nil && k.name == string(s.Key()) {
				if k.only >= 0 {
					*(*[]byte)(unsafe.Add(to, k.only)) = s.Value()
					continue
				}
				next = k.step
			}
			if next != nil {
				next.read(s, to)
			}
		}
	case (n.first != nil || n.each != nil) && s.Array():
		walked = true
		for next := n.first; s.Elem(); next = n.each {
			if next == nil {
				next = n.each
			}
			if next != nil {
				next.read(s, to)
			}
		}
	}
	if len(n.leaves) == 0 {
		return
	}
	raw := s.Since(start)
	for i := range n.leaves {
		switch l := &n.leaves[i]; {
		case l.how == 0 && l.kind == reflect.Slice:
			*(*[]byte)(unsafe.Add(to, l.at)) = raw
		case l.how == 0 && l.kind == reflect.Bool:
			*(*bool)(unsafe.Add(to, l.at)) = true
		default:
			l.keep(raw, unsafe.Add(to, l.at), walked)
		}
	}
}

// keep puts a value into the field of the leaf, which is at a place.
func (l *leaf) keep(raw []byte, at unsafe.Pointer, walked bool) {
	if walked && l.how&plain != 0 || l.how&filled != 0 && (len(raw) <= len(`""`) || raw[0] == 'n') {
		return
	}
	switch l.kind {
	case reflect.Bool:
		*(*bool)(at) = string(raw) == "true"
	case reflect.Int:
		*(*int)(at)++
	case reflect.Int64:
		n := (*int64)(at)
		if l.how&sum == 0 {
			*n = 0
		}
		if l.how&micros != 0 {
			*n += Micros(raw)
		} else {
			*n += Count(raw)
		}
	default:
		field := (*[]byte)(at)
		kind := jsonscan.KindOf(raw)
		switch {
		case l.how&first != 0 && *field != nil:
			return
		case l.how&set != 0 && kind == jsonscan.Null:
			raw = nil
		case l.how&unquoted != 0:
			raw, _ = jsonscan.Unquote(raw)
		case l.how&word != 0, l.how&text != 0 && kind == jsonscan.String:
			raw = Word(raw)
		}
		*field = raw
	}
}

// A Field is a field of a table.
type Field uintptr

// Field returns the field of a path. It panics if there is none.
func (p *Paths[T]) Field(path string) Field {
	at, ok := p.fields[path]
	if !ok {
		panic("jsonwalk: no field holds " + path)
	}
	return Field(at)
}

// Value returns the value of a field of bytes.
func (p *Paths[T]) Value(of *T, f Field) []byte { return *(*[]byte)(unsafe.Add(unsafe.Pointer(of), f)) }
