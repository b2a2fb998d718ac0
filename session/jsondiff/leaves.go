package jsondiff

import (
	"bytes"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

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
