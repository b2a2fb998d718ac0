package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/internal/prices"
)

// A Setting is a key of the section rlm, with its value.
type Setting struct {
	Name   string // such as max_depth, or log.prompts
	Values []string
	At     string // FILE:LINE:COLUMN
}

// settings lists the settings in a part of the file, at the keys of name below path.
func (d *document) settings(path []string, part reflect.Value, name ...string) (list []Setting) {
	for field, value := range part.Fields() {
		keys := slices.Concat(name, []string{field.Tag.Get("yaml")})
		s := Setting{Name: strings.Join(keys, ".")}
		switch {
		case value.Kind() == reflect.Struct:
			list = append(list, d.settings(path, value, keys...)...)
			continue
		case value.IsNil():
			continue
		case value.Kind() == reflect.Slice:
			s.Values = value.Interface().([]string)
		default:
			s.Values = []string{fmt.Sprint(value.Elem().Interface())}
		}
		line, column := d.place(slices.Concat(path, keys))
		s.At = fmt.Sprintf("%s:%d:%d", d.name, line, column)
		list = append(list, s)
	}
	return list
}

// Facts are what a configuration says about a model, besides its routes.
type Facts struct {
	Names         []string      // its name, then its providers' names for it
	Price         *prices.Price // nil if unknown
	ContextWindow int           // in tokens; 0 if unknown
	RLM           bool          // it is a recursive language model
}

// Facts returns the facts about the model of a name; "" is the default.
func (c *Config) Facts(model string) Facts {
	name := cmp.Or(model, c.Broker.Default)
	name = cmp.Or(c.Broker.Aliases[name], name)
	facts := c.facts[broker.Closest(maps.Keys(c.facts), name)]
	facts.Names = append([]string{name}, facts.Names...)
	return facts
}

// runs is how many runs a recursive language model makes at once. Each has an interpreter.
const runs = 8

// notOfModels are settings for wirectl rlm only.
var notOfModels = []string{"context", "output", "capture", "prices"}

// rlm makes the route of a recursive language model.
func (b *builder) rlm(c *Config, path []string, name string, m *Model) ([]broker.Route, error) {
	at := append(path, "rlm")
	if m.Provider != "" || m.Model != "" || len(m.Routes) > 0 {
		return nil, b.at(at, "expected either rlm, or a provider or routes")
	}
	if strings.Contains(name, "*") {
		return nil, b.at(path, "expected a name without *: the model is a recursive language model")
	}
	if m.Price != nil {
		return nil, b.at(append(path, "price"), "not used here; the calls of the model have prices")
	}
	settings := b.settings(at, reflect.ValueOf(*m.RLM))
	for _, s := range settings {
		if slices.Contains(notOfModels, s.Name) {
			return nil, b.at(append(at, s.Name), "not used here; it is for wirectl rlm")
		}
	}
	if b.env.RLM == nil {
		return nil, b.at(at, "there are no recursive language models here")
	}
	made, err := b.env.RLM(c, name, settings)
	if err != nil {
		e := &Error{Name: b.name, Msg: err.Error()}
		for _, s := range settings { // an error begins with the position of its setting
			if msg, ok := strings.CutPrefix(e.Msg, s.At+": "); ok {
				e.Msg = msg
				e.Line, e.Column = b.place(slices.Concat(at, strings.Split(s.Name, ".")))
			}
		}
		return nil, e
	}
	return []broker.Route{{Backend: &broker.Backend{Name: "rlm " + name, Provider: made, Concurrency: runs}, Model: name}}, nil
}

// notRecursive checks that recursive language models use only other models.
func (b *builder) notRecursive(c *Config) error {
	for _, name := range slices.Sorted(maps.Keys(b.Models)) {
		of := b.Models[name].RLM
		if of == nil {
			continue
		}
		root, sub := c.Broker.Default, ""
		if of.Model != nil {
			root = *of.Model
		}
		if of.SubModel != nil {
			sub = *of.SubModel
		}
		for i, asked := range []string{root, cmp.Or(sub, root)} {
			path := []string{"models", name, "rlm", []string{"model", "sub_model"}[i]}
			switch found := b.find(cmp.Or(b.Aliases[asked], asked)); {
			case found == "":
				return b.at(path, "no model %q%s", asked, among(slices.Sorted(maps.Keys(b.Models))))
			case b.Models[found].RLM != nil:
				return b.at(path, "%q is a recursive language model; expected a model with a provider", asked)
			}
		}
	}
	return nil
}
