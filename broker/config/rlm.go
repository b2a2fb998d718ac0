package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/prices"
)

// A Setting is a key of the section rlm, and what it is set to.
type Setting struct {
	Name   string // such as max_depth, or log.prompts
	Values []string
	At     string // FILE:LINE:COLUMN
}

// settings lists what is set in a part of the file.
func (d *document) settings(part reflect.Value, path ...string) (list []Setting) {
	for field, value := range part.Fields() {
		key := slices.Concat(path, []string{field.Tag.Get("yaml")})
		s := Setting{Name: strings.Join(key[1:], ".")}
		switch {
		case value.Kind() == reflect.Struct:
			list = append(list, d.settings(value, key...)...)
			continue
		case value.IsNil():
			continue
		case value.Kind() == reflect.Slice:
			s.Values = value.Interface().([]string)
		default:
			s.Values = []string{written(value.Elem().Interface())}
		}
		line, column := d.place(key)
		s.At = fmt.Sprintf("%s:%d:%d", d.name, line, column)
		list = append(list, s)
	}
	return list
}

// written is a value as a flag has it.
func written(value any) string {
	if d, ok := value.(Duration); ok {
		return time.Duration(d).String()
	}
	return fmt.Sprint(value)
}

// Facts are what a configuration says of a model besides where its calls go.
type Facts struct {
	Names         []string      // its name, then what its providers call it
	Price         *prices.Price // nil if it says nothing
	ContextWindow int           // in tokens; 0 if it says nothing
}

// Facts returns those of the model that a name, or "" for the default, leads to.
func (c *Config) Facts(model string) Facts {
	name := cmp.Or(model, c.Broker.Default)
	name = cmp.Or(c.Broker.Aliases[name], name)
	facts := c.facts[lookup(c.facts, name)]
	facts.Names = append([]string{name}, facts.Names...)
	return facts
}
