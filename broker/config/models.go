package config

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/broker"
)

func (b *builder) models(c *Config) error {
	if len(b.Models) == 0 {
		return b.at([]string{"providers"}, "no models; expected models: {NAME: {provider: %s}}", slices.Sorted(maps.Keys(b.Providers))[0])
	}
	for _, name := range slices.Sorted(maps.Keys(b.Models)) {
		m := b.Models[name]
		path := []string{"models", name}
		if strings.TrimSpace(name) != name || name == "" || strings.Count(name, "*") > 1 {
			return b.at(path, "expected a name without surrounding space and with at most one *")
		}
		if m.Provider != "" && len(m.Routes) > 0 {
			return b.at(path, "expected either provider or routes; got both")
		}
		if m.Provider == "" && len(m.Routes) == 0 && m.RLM == nil {
			return b.at(path, "expected a provider, or routes")
		}
		if m.ContextWindow < 0 {
			return b.at(append(path, "context_window"), "expected a number of tokens; 0 means unknown")
		}
		if m.Price != nil {
			if err := m.Price.Check(); err != nil {
				return b.at(append(path, "price"), "%v", err)
			}
		}
		routes, err := b.routes(path, m)
		if m.RLM != nil {
			routes, err = b.rlm(c, path, name, &m)
		}
		if err != nil {
			return err
		}
		budget, err := b.budget(append(path, "budget"), m.Budget)
		if err != nil {
			return err
		}
		facts := Facts{Price: m.Price, ContextWindow: m.ContextWindow, RLM: m.RLM != nil}
		for _, route := range routes {
			facts.Names = append(facts.Names, route.Model)
		}
		c.facts[name] = facts
		c.Broker.Models = append(c.Broker.Models, broker.Model{Name: name, Fallbacks: m.Fallbacks, Routes: routes, Budget: budget, Price: m.Price, Composed: m.RLM != nil})
	}
	return nil
}

// routes makes the routes of a model. A model with a provider has one route.
func (b *builder) routes(path []string, m Model) (made []broker.Route, err error) {
	routes := m.Routes
	if m.Provider != "" {
		routes = []Route{{Provider: m.Provider, Model: m.Model}}
	}
	for i, r := range routes {
		at := path
		if m.Provider == "" {
			at = append(path, "routes", strconv.Itoa(i))
		}
		backend := b.backends[r.Provider]
		switch {
		case backend == nil:
			return nil, b.at(append(at, "provider"), "there is no provider %q; expected a key of providers%s", r.Provider, among(slices.Sorted(maps.Keys(b.backends))))
		case r.Weight < 0:
			return nil, b.at(append(at, "weight"), "expected a number from 0; 0 means 1")
		}
		made = append(made, broker.Route{Backend: backend, Model: r.Model, Weight: r.Weight})
	}
	return made, nil
}

// names checks the names of models that other settings use.
func (b *builder) names(c *Config) error {
	c.Broker.Default, c.Broker.Aliases, c.Broker.Batch = cmp.Or(b.File.Default, b.only()), b.Aliases, b.Limits.Batch
	for _, alias := range slices.Sorted(maps.Keys(b.Aliases)) {
		switch _, model := b.Models[alias]; {
		case model:
			return b.at([]string{"aliases", alias}, "a model has that name")
		case b.find(b.Aliases[alias]) == "":
			return b.at([]string{"aliases", alias}, "no model %q", b.Aliases[alias])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.Models)) {
		for i, f := range b.Models[name].Fallbacks {
			path := []string{"models", name, "fallbacks", strconv.Itoa(i)}
			switch b.find(cmp.Or(b.Aliases[f], f)) {
			case "":
				return b.at(path, "no model %q", f)
			case name:
				return b.at(path, "%q is the model itself; expected another to fall back to", f)
			}
		}
	}
	if d := b.File.Default; d != "" && b.find(cmp.Or(b.Aliases[d], d)) == "" {
		return b.at([]string{"default"}, "no model %q", d)
	}
	return b.notRecursive(c)
}

// only returns the name of the only model, which need not be declared the default; "" if there
// are more.
func (b *builder) only() string {
	for name := range b.Models {
		if len(b.Models) == 1 && !strings.Contains(name, "*") {
			return name
		}
	}
	return ""
}

// find returns the model, or the longest pattern, that matches a name.
func (b *builder) find(name string) string { return broker.Closest(maps.Keys(b.Models), name) }
