package source

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A Parser parses lines. The zero Parser is ready.
type Parser struct {
	scan  jsonscan.Scanner
	words [64]string // that lines have repeated
}

// Parse reads the members of a line, which is an object, into the struct that v points to, by the names
// in its tags for encoding/json. Raw values are parts of the line, not copies. Values of other types
// than expected are ignored. The error says that the line is not JSON.
func (p *Parser) Parse(line []byte, v any) error {
	p.scan.Init(line)
	p.into(reflect.ValueOf(v).Elem())
	return p.scan.End()
}

// Parse is that of a new [Parser].
func Parse(line []byte, v any) error { return new(Parser).Parse(line, v) }

// fieldsOf are the numbers of the fields of a struct, by the hashes of their names in JSON.
var fieldsOf sync.Map

func fields(t reflect.Type) map[uint64]int {
	if found, ok := fieldsOf.Load(t); ok {
		return found.(map[uint64]int)
	}
	found := map[uint64]int{}
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" {
			found[jsonscan.Hash(name)] = i
		}
	}
	fieldsOf.Store(t, found)
	return found
}

var (
	rawType  = reflect.TypeFor[json.RawMessage]()
	timeType = reflect.TypeFor[time.Time]()
)

// into reads the next value.
func (p *Parser) into(v reflect.Value) {
	s := &p.scan
	kind := s.Peek()
	switch t := v.Type(); {
	case t == rawType:
		v.SetBytes(s.Value())
	case kind == jsonscan.Null:
	case t == timeType:
		if at, ok := plainTime(s.Value()); ok {
			v.Set(reflect.ValueOf(at))
		}
	case t.Kind() == reflect.Pointer && kind == jsonscan.Object:
		v.Set(reflect.New(t.Elem()))
		p.into(v.Elem())
	case t.Kind() == reflect.Struct && kind == jsonscan.Object:
		known := fields(t)
		for ok := s.Object(); ok && s.Next(); {
			if i, ok := known[s.KeyHash()]; ok {
				p.into(v.Field(i))
			}
		}
	case t.Kind() == reflect.Slice && kind == jsonscan.Array:
		for ok := s.Array(); ok && s.Elem(); {
			v.Grow(1)
			v.SetLen(v.Len() + 1)
			last := v.Index(v.Len() - 1)
			last.SetZero()
			p.into(last)
		}
	case t.Kind() == reflect.String && kind == jsonscan.String:
		text, _ := jsonscan.Unquote(s.Value())
		v.SetString(p.word(text))
	case t.Kind() == reflect.Bool && (kind == jsonscan.True || kind == jsonscan.False):
		v.SetBool(kind == jsonscan.True)
	case v.CanInt() && kind == jsonscan.Number:
		if n, err := strconv.ParseInt(string(s.Value()), 10, 64); err == nil {
			v.SetInt(n)
		}
	}
}

// word returns a text, the same for one that repeats itself.
func (p *Parser) word(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	at := &p.words[(len(text)*31+int(text[0])+4*int(text[len(text)-1]))%len(p.words)]
	if string(text) != *at {
		*at = string(text)
	}
	return *at
}
