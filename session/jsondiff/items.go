package jsondiff

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"strconv"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
)

// itemKeys are the members by which the items of an array are matched.
var itemKeys = [...]string{"name", "uri", "id", "method"}

// An item is an element of an array with its name.
type item struct {
	name  string
	value []byte
}

// An itemList is an array with the names of its items.
type itemList struct {
	values [][]byte
	names  [len(itemKeys)][]string // of all items, by key; nil if not every item has a unique one
}

// itemsOf reads an array. A key names the items if all of them are objects with different
// values of it.
func (w *Walk) itemsOf(array []byte) (list itemList) {
	var seen [len(itemKeys)]map[string]bool
	for k := range itemKeys {
		seen[k], list.names[k] = make(map[string]bool), []string{}
	}
	list.values = elements(array)
	for _, v := range list.values {
		for k, name := range w.namesOf(v) {
			if name == "" || seen[k][name] {
				list.names[k] = nil
				continue
			}
			seen[k][name] = true
			if list.names[k] != nil {
				list.names[k] = append(list.names[k], name)
			}
		}
	}
	return list
}

// namesOf returns the names of one element, "" for those it lacks.
func (w *Walk) namesOf(value []byte) (found [len(itemKeys)]string) {
	var s jsonscan.Scanner
	s.Init(value)
	for ok := s.Object(); ok && s.Next(); {
		k := slices.Index(itemKeys[:], string(s.Key()))
		v := s.Value()
		if k < 0 || !w.Named(itemKeys[k], v) {
			continue
		}
		if text, ok := jsonscan.Unquote(v); ok {
			found[k] = string(text)
		} else if jsonscan.KindOf(v) == jsonscan.Number {
			found[k] = string(v)
		}
	}
	return found
}

// items returns the items of two arrays by the first key that names all of them. If two lists
// have no id in common, the ids were made up for each run and do not count.
func (w *Walk) items(a, b []byte) (itemsA, itemsB []item, ok bool) {
	listA, listB := w.itemsOf(a), w.itemsOf(b)
	if len(listA.values)+len(listB.values) == 0 {
		return nil, nil, false
	}
	for k, key := range itemKeys {
		namesA, namesB := listA.names[k], listB.names[k]
		if namesA == nil || namesB == nil || key == "id" && !meet(namesA, namesB) {
			continue
		}
		return listA.under(namesA), listB.under(namesB), true
	}
	return nil, nil, false
}

func meet(a, b []string) bool {
	in := make(map[string]bool, len(b))
	for _, name := range b {
		in[name] = true
	}
	return slices.ContainsFunc(a, func(name string) bool { return in[name] })
}

func (l *itemList) under(names []string) []item {
	list := make([]item, len(names))
	for i, name := range names {
		list[i] = item{name, l.values[i]}
	}
	return list
}

// named compares items by name: first in the order of a, then those that only b has.
func (w *Walk) named(a, b []item) {
	there := make(map[string][]byte, len(b))
	for _, it := range b {
		there[it.name] = it.value
	}
	var orderA, orderB []string
	in := make(map[string]bool, len(a))
	for _, it := range a {
		in[it.name] = true
		if there[it.name] != nil {
			orderA = append(orderA, it.name)
		}
		w.member(it.name, it.value, there[it.name])
	}
	for _, it := range b {
		if in[it.name] {
			orderB = append(orderB, it.name)
		} else {
			w.member(it.name, nil, it.value)
		}
	}
	if w.Reordered != nil && !slices.Equal(orderA, orderB) {
		w.Reordered(w.keys, quoteAll(orderA), quoteAll(orderB))
	}
}

// quoteAll returns names as a JSON array.
func quoteAll(names []string) []byte {
	b := []byte{'['}
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonscan.AppendQuote(b, []byte(name))
	}
	return append(b, ']')
}

// DigestSize is the size of a digest in bytes.
const DigestSize = sha256.Size

// A digester hashes a JSON value so that equal values have the same digest. It skips the ids of
// the message and ignored members.
type digester struct {
	hash.Hash
	ignore []Path
	tokens []protocol.Token
	keys   []string
}

// Digest returns the digest of a message's payload. Payloads without differences have the same
// digest.
func Digest(payload []byte, m *protocol.Message, ignore []Path) (sum [DigestSize]byte) {
	d := digester{Hash: sha256.New(), ignore: ignore, tokens: []protocol.Token{m.ID, m.Ref, m.Bind}}
	if jsonscan.WellFormed(payload) == nil {
		d.value(bytes.TrimSpace(payload))
	} else {
		d.Write(payload)
	}
	d.Sum(sum[:0])
	return sum
}

func (d *digester) value(value []byte) {
	kind := jsonscan.KindOf(value)
	switch {
	case Ignored(d.ignore, d.keys) || d.isID(value):
		return
	case !isContainer(kind) || len(d.keys) >= MaxDepth:
		d.put(kind, plain(value))
		return
	}
	d.put(kind, nil)
	if kind == jsonscan.Array {
		for i, v := range elements(value) {
			d.member(strconv.Itoa(i), v)
		}
	} else {
		list := membersOf(value)
		sortMembers(list)
		for _, m := range list {
			if !Ignored(d.ignore, append(d.keys, m.key)) { // present or not
				d.put(jsonscan.String, []byte(m.key))
				d.member(m.key, m.value)
			}
		}
	}
	d.put(jsonscan.Invalid, nil)
}

func (d *digester) member(key string, value []byte) {
	d.keys = append(d.keys, key)
	d.value(value)
	d.keys = d.keys[:len(d.keys)-1]
}

// put hashes a piece with its kind and length, so that different sequences of pieces never hash
// the same bytes.
func (d *digester) put(kind jsonscan.Kind, text []byte) {
	d.Write(binary.BigEndian.AppendUint64([]byte{byte(kind)}, uint64(len(text))))
	d.Write(text)
}

// isID reports whether the value is an id of the message.
func (d *digester) isID(value []byte) bool {
	if len(d.keys) == 0 || !HoldsID(d.keys[len(d.keys)-1]) {
		return false
	}
	for _, t := range d.tokens {
		if !t.IsZero() && IsToken(value, string(t.Text)) {
			return true
		}
	}
	return false
}
