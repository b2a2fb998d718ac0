package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/wirectl/wirectl/broker/mask"
	"github.com/wirectl/wirectl/broker/provider"
)

// A table is a configuration prepared for routing. It is fixed, except for the turns of its
// models and the state of its backends.
type table struct {
	models   map[string]*model
	aliases  map[string]string
	patterns []*model // the longest first
	fallback string   // the default model
	names    []string // models, patterns and aliases
	named    []string // the same without patterns
	batch    int
	backends []*backend
	secrets  *mask.Secrets
	clients  map[string]*Budget
	group    Group // nil without one
	workers  Workers
	rest     *model // for names that only workers offer; nil without workers
}

// A model is the target of calls for one name or pattern.
type model struct {
	name      string
	routes    []route
	fallbacks []fallback
	budget    *Budget
	price     *Price
	composed  bool
	output    atomic.Int64 // the usual output of an answer, in tokens; 0 if it is not known

	mu    sync.Mutex
	turns []int // by route, for smooth weighted round robin
}

// A fallback is a model and the name to use for it, "" for a pattern: then the requested name
// is used.
type fallback struct {
	*model
	name string
}

type route struct {
	*backend
	model  string
	weight int
}

// newTable makes a table, whose backends count in n.
func newTable(cfg Config, n *metrics) (*table, error) {
	t := &table{models: map[string]*model{}, aliases: cfg.Aliases, fallback: cfg.Default, batch: cmp.Or(cfg.Batch, 16), secrets: cfg.Secrets, clients: cfg.Clients, group: cfg.Group}
	known := map[*Backend]*backend{}
	for i := range cfg.Models {
		if err := t.addModel(&cfg.Models[i], known, n); err != nil {
			return nil, err
		}
	}
	t.addWorkers(cfg.Workers, n)
	for i := range cfg.Models {
		if err := t.link(&cfg.Models[i]); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(t.patterns, func(a, b *model) int { return cmp.Compare(len(b.name), len(a.name)) })
	return t, t.check()
}

func (t *table) addModel(m *Model, known map[*Backend]*backend, n *metrics) error {
	if t.models[m.Name] != nil {
		return fmt.Errorf("duplicate model %q", m.Name)
	}
	made := &model{name: m.Name, budget: m.Budget, price: m.Price, composed: m.Composed, turns: make([]int, len(m.Routes))}
	for _, r := range m.Routes {
		b := known[r.Backend]
		if b == nil {
			b = newBackend(r.Backend, n, t.secrets, t.group)
			known[r.Backend] = b
			t.backends = append(t.backends, b)
		}
		made.routes = append(made.routes, route{b, r.Model, max(r.Weight, 1)})
	}
	t.models[m.Name] = made
	t.names = append(t.names, m.Name)
	if strings.Contains(m.Name, "*") {
		t.patterns = append(t.patterns, made)
	}
	return nil
}

// link finds the fallbacks of a model.
func (t *table) link(m *Model) error {
	made := t.models[m.Name]
	for _, name := range m.Fallbacks {
		other, plain, err := t.find(name)
		if err != nil {
			return fmt.Errorf("the model %q falls back to %q, which does not exist", m.Name, name)
		}
		if strings.Contains(plain, "*") {
			plain = ""
		}
		made.fallbacks = append(made.fallbacks, fallback{other, plain})
	}
	return nil
}

func (t *table) check() error {
	for alias, name := range t.aliases {
		t.names = append(t.names, alias)
		if t.models[name] == nil && t.match(name) == nil {
			return fmt.Errorf("the alias %q stands for %q, which does not exist", alias, name)
		}
	}
	slices.Sort(t.names)
	t.named = slices.DeleteFunc(slices.Clone(t.names), func(name string) bool {
		return slices.ContainsFunc(t.patterns, func(m *model) bool { return m.name == name })
	})
	if t.fallback != "" {
		if _, _, err := t.find(t.fallback); err != nil {
			return fmt.Errorf("the default model %q does not exist", t.fallback)
		}
	}
	return nil
}

// find returns the model of a requested name, and the name after aliases.
func (t *table) find(asked string) (*model, string, error) {
	name := strings.TrimSpace(asked)
	if name == "" {
		name = t.fallback
	}
	if m := t.models[name]; m != nil && !strings.Contains(name, "*") {
		return m, name, nil
	}
	if real, ok := t.aliases[name]; ok {
		name = real
	}
	m := t.models[name]
	if m == nil {
		m = t.match(name)
	}
	if m == nil && t.rest != nil && name != "" && t.workers.Offers(name) {
		m = t.rest
	}
	if m == nil {
		return nil, "", &UnknownModelError{Model: name, Allowed: t.withOffered(t.names, true)}
	}
	return m, name, nil
}

func (t *table) match(name string) *model {
	for _, m := range t.patterns {
		if Match(m.name, name) {
			return m
		}
	}
	return nil
}

// Match reports whether a name is a pattern, or matches its *.
func Match(pattern, name string) bool {
	before, after, wild := strings.Cut(pattern, "*")
	return pattern == name || wild && len(name) >= len(pattern)-1 && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
}

// Closest returns the name among models and patterns, or else the longest pattern that it
// matches; "" if there is none.
func Closest(models iter.Seq[string], name string) (found string) {
	for pattern := range models {
		switch {
		case pattern == name:
			return name
		case len(pattern) > len(found) && Match(pattern, name):
			found = pattern
		}
	}
	return found
}

// withFallbacks makes the call at the model's routes and, if a retry elsewhere may help, at its
// fallbacks.
func (m *model) withFallbacks(ctx context.Context, c *Call) error {
	err := m.withRoutes(ctx, c, c.Name)
	for i := 0; i < len(m.fallbacks) && err != nil && elsewhere(ctx, err); i++ {
		err = m.fallbacks[i].withRoutes(ctx, c, cmp.Or(m.fallbacks[i].name, c.Name))
	}
	return err
}

// withRoutes makes the call at the route whose turn it is, then at the others. Routes without
// a model name of their own use name.
func (m *model) withRoutes(ctx context.Context, c *Call, name string) error {
	if err := c.pay(ctx, m); err != nil {
		return err
	}
	first := m.pick()
	err := m.routes[first].withRetries(ctx, c, name)
	for i := 0; i < len(m.routes) && err != nil && elsewhere(ctx, err); i++ {
		if i != first {
			err = m.routes[i].withRetries(ctx, c, name)
		}
	}
	return err
}

// only makes the call at the first route whose provider supports it.
func (m *model) only(ctx context.Context, c *Call, can func(provider.Provider) bool, cannot error) error {
	for i := range m.routes {
		if can(m.routes[i].Provider) {
			return m.routes[i].withRetries(ctx, c, c.Name)
		}
	}
	return cannot
}

func can[T any](p provider.Provider) bool {
	_, ok := p.(T)
	return ok
}

// elsewhere reports whether a call that failed with err may be retried at another route.
func elsewhere(ctx context.Context, err error) bool {
	var e *provider.Error
	return ctx.Err() == nil && errors.As(err, &e) && e.Elsewhere()
}

// pick returns the route whose turn it is. It skips open breakers unless all are open.
func (m *model) pick() int {
	if len(m.routes) == 1 {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	best, total := -1, 0
	for i, r := range m.routes {
		if r.isOpen() {
			continue
		}
		m.turns[i] += r.weight
		total += r.weight
		if best < 0 || m.turns[i] > m.turns[best] {
			best = i
		}
	}
	if best < 0 {
		return 0
	}
	m.turns[best] -= total
	return best
}
