package diff

import (
	"bytes"
	"slices"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// A speech is the joined content of parts: the values at each path, by the hash of the path.
// It refers to the memory of the parts.
type speech map[uint64]*said

// said is the content of parts at one path.
type said struct {
	keys   []string // the path
	first  []byte   // the value of the first part
	varies bool
	isText bool
	text   []byte // joined, if all are strings
	ends   []int  // of each part in text
}

// speechOf joins parts; it returns nil if one of them is not JSON.
func (c *comparison) speechOf(parts run) speech {
	s := make(speech)
	for _, m := range parts {
		payload := m.payload()
		if jsonscan.WellFormed(payload) != nil {
			return nil
		}
		w := jsondiff.Walk{Ignore: c.options.Ignore}
		w.Leaf = func(keys []string, value, _ []byte) { s.hear(w.Place(), keys, value) }
		w.Values(payload, payload)
	}
	return s
}

func (s speech) hear(path uint64, keys []string, value []byte) {
	p := s[path]
	if p == nil {
		p = &said{keys: slices.Clone(keys), first: value, isText: true}
		s[path] = p
	}
	p.varies = p.varies || !jsondiff.Same(p.first, value)
	text, ok := jsonscan.Unquote(value)
	if p.isText = p.isText && ok; p.isText {
		p.text = append(p.text, text...)
		p.ends = append(p.ends, len(p.text))
	}
}

// cutElsewhere reports whether parts have the same texts in total, split at different places.
// Numbers may differ, because they may count the parts.
func (c *comparison) cutElsewhere(p pair, a, b run) bool {
	here, there := c.speechOf(a), c.speechOf(b)
	if here == nil || there == nil {
		return false
	}
	moved := false
	for path, va := range here {
		vb := there[path]
		switch {
		case !va.isText && (vb == nil || !vb.isText):
			if !va.counts(vb) {
				return false
			}
		case vb == nil || !vb.isText || !va.isText:
			return false
		case bytes.Equal(va.text, vb.text) && (va.varies || vb.varies || len(a) != len(b) && !va.holdsID()):
			moved = moved || !slices.Equal(va.ends, vb.ends)
		case va.varies || vb.varies || !c.same(p, &a[0], &b[0], va.keys, va.first, vb.first):
			return false
		}
	}
	for path, vb := range there {
		if here[path] == nil && (vb.isText || !vb.counts(nil)) {
			return false
		}
	}
	return moved
}

func (s *said) holdsID() bool { return len(s.keys) > 0 && jsondiff.HoldsID(s.keys[len(s.keys)-1]) }

// counts reports whether two values are the same, or numbers that may count parts.
func (s *said) counts(there *said) bool {
	if there != nil && !s.varies && !there.varies {
		return jsondiff.Same(s.first, there.first)
	}
	return jsonscan.KindOf(s.first) == jsonscan.Number
}
