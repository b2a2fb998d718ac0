package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/prices"
	"github.com/wirectl/wirectl/internal/yamlfile"
)

// Doors are the front doors with their default ports, in the order in which they are listed.
var Doors = []Door{
	{"rlm", "8760"},
	{"proxy", "8761"},
	{"nexus", "8765"},
	{"latis", "8766"},
	{"latis_ws", "8767"},
	{"openai", "8768"},
	{"admin", "8769"},
}

// A Door is the name and the default port of a front door.
type Door struct{ Name, Port string }

// A Config is a checked configuration.
type Config struct {
	Broker broker.Config
	// Listen is the address of each door, "off" for one that is not opened.
	Listen map[string]string
	// Token is the token that clients must send; "" admits all.
	Token string
	// Clients are the names of clients with tokens of their own, by token.
	Clients map[string]string
	// Spent is the file that stores the use of budgets, "" for the default one.
	Spent  string
	Limits Limits
	// Join is the address of the hub at which brokers share limits and workers offer
	// models, "" if there is none. With OpenOnHubLoss, calls pass if it cannot be reached.
	Join          string
	OpenOnHubLoss bool
	// Secrets are all secrets of the configuration, including tokens.
	Secrets []string
	// RLM has the settings of the section rlm.
	RLM []Setting

	facts map[string]Facts // by the names of models and patterns
}

// An Env is the environment in which a configuration is read.
type Env struct {
	Getenv   func(string) string
	ReadFile func(string) ([]byte, error)
	// RLM makes a recursive language model with settings and the models of a configuration,
	// which is not complete yet. If nil, there are no recursive language models.
	RLM func(of *Config, model string, settings []Setting) (provider.Provider, error)
}

// OSEnv is the environment of the process.
func OSEnv() Env { return Env{Getenv: os.Getenv, ReadFile: yamlfile.Read} }

// Load reads the file of that name; "" is an empty one.
func Load(name string, env Env) (*Config, error) {
	if name == "" {
		return Parse("the built-in configuration", nil, env)
	}
	data, err := env.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return Parse(name, data, env)
}

// Parse reads a configuration. The name is for errors. Without any models, there is one, served
// by a mock.
func Parse(name string, data []byte, env Env) (*Config, error) {
	d, err := parse(name, data)
	if err != nil {
		return nil, err
	}
	b := builder{document: d, env: env, backends: map[string]*broker.Backend{}}
	return b.build()
}

type builder struct {
	*document
	env      Env
	backends map[string]*broker.Backend
	secrets  []string // found so far
}

func (b *builder) build() (*Config, error) {
	c := &Config{Listen: map[string]string{}, Limits: b.Limits, Spent: b.Spent, Join: b.Join, OpenOnHubLoss: b.OnHubLoss == "open", RLM: b.settings([]string{"rlm"}, reflect.ValueOf(b.File.RLM)), facts: map[string]Facts{}}
	if len(b.Providers) == 0 && len(b.Models) == 0 {
		b.Providers = map[string]Provider{"mock": {Kind: "mock"}}
		b.Models = map[string]Model{"mock": {Provider: "mock"}}
		b.File.Default = cmp.Or(b.File.Default, "mock")
	}
	for _, step := range []func(*Config) error{b.listen, b.providers, b.models, b.names, b.token, b.clients, b.limits} {
		if err := step(c); err != nil {
			return nil, err
		}
	}
	c.Secrets = b.secrets
	return c, nil
}

func (b *builder) listen(c *Config) error {
	for _, door := range Doors {
		c.Listen[door.Name] = "127.0.0.1:" + door.Port
	}
	for _, name := range slices.Sorted(maps.Keys(b.Listen)) {
		if _, known := c.Listen[name]; !known {
			return b.at([]string{"listen", name}, "unknown door; expected one of %s", DoorNames())
		}
		addr, err := Address(name, b.Listen[name])
		if err != nil {
			return b.at([]string{"listen", name}, "%v", err)
		}
		c.Listen[name] = addr
	}
	return nil
}

// DoorNames lists the doors.
func DoorNames() string {
	var names []string
	for _, d := range Doors {
		names = append(names, d.Name)
	}
	return strings.Join(names, ", ")
}

func (b *builder) token(c *Config) (err error) {
	c.Token, err = b.secret([]string{"token"}, b.Token)
	return err
}

func (b *builder) clients(c *Config) error {
	c.Clients, c.Broker.Clients = map[string]string{}, map[string]*broker.Budget{}
	for _, name := range slices.Sorted(maps.Keys(b.Clients)) {
		path := []string{"clients", name}
		token, err := b.secret(append(path, "token"), b.Clients[name].Token)
		switch {
		case err != nil:
			return err
		case strings.TrimSpace(name) == "":
			return b.at(path, "expected a name")
		case token == "":
			return b.at(path, "expected a token, as {env: NAME} or {file: NAME}")
		case token == c.Token || c.Clients[token] != "":
			return b.at(append(path, "token"), "this token is in use already; each client needs its own")
		}
		c.Clients[token] = name
		if c.Broker.Clients[name], err = b.budget(append(path, "budget"), b.Clients[name].Budget); err != nil {
			return err
		}
	}
	return nil
}

// budget checks a budget, which may be nil.
func (b *builder) budget(path []string, of *broker.Budget) (*broker.Budget, error) {
	switch {
	case of == nil:
		return nil, nil
	case of.Calls < 0 || of.Tokens < 0 || !(0 <= of.Cost && of.Cost <= 1e12): // also rejects NaN
		return nil, b.at(path, "expected calls, tokens and cost from 0; 0 means no limit")
	case of.Calls == 0 && of.Tokens == 0 && of.Cost == 0:
		return nil, b.at(path, "it limits nothing; expected calls, tokens or cost")
	}
	return of, nil
}

func (b *builder) limits(*Config) error {
	if loss := b.OnHubLoss; loss != "" && loss != "open" && loss != "closed" {
		return b.at([]string{"on_hub_loss"}, "found %q; expected closed (calls that need a shared limit fail) or open (they pass)", loss)
	}
	for _, n := range []struct {
		key string
		is  int64
	}{
		{"batch", int64(b.Limits.Batch)},
		{"connections", int64(b.Limits.Connections)},
		{"body_bytes", b.Limits.BodyBytes},
	} {
		if n.is < 0 {
			return b.at([]string{"limits", n.key}, "expected a number from 0; 0 means the default")
		}
	}
	return nil
}

// Address reads the address of a door: HOST:PORT, :PORT or PORT on loopback, or off.
func Address(door, text string) (string, error) {
	if text == "off" {
		return text, nil
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil && !strings.ContainsAny(text, ":[]") {
		port, err = text, nil
	}
	switch _, bad := strconv.ParseUint(port, 10, 16); {
	case err == nil && bad == nil && !strings.Contains(host, "/"):
		return net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port), nil
	case err == nil && host == "" && strings.ContainsAny(port, ".abcdefghijklmnopqrstuvwxyz"): // it is a host
		return "", fmt.Errorf("%q has no port for the door %s; expected HOST:PORT, as %s is, or PORT, or off", text, door, net.JoinHostPort(port, usualPort(door)))
	}
	return "", fmt.Errorf("invalid address %q for the door %s; expected HOST:PORT, PORT or off", text, door)
}

func usualPort(door string) string {
	i := slices.IndexFunc(Doors, func(d Door) bool { return d.Name == door })
	return Doors[i].Port
}

// among lists the possible values, if there are any.
func among(names []string) string {
	if len(names) == 0 {
		return ", where there is none"
	}
	return ": " + strings.Join(names, ", ")
}

// Addresses returns the addresses of the doors, by name: those of the configuration, changed by
// the words of --listen. With anyPort, doors that --listen does not name get a free port.
func (c *Config) Addresses(words []string, anyPort bool) (map[string]string, error) {
	addrs := maps.Clone(c.Listen)
	for name, addr := range addrs {
		if host, _, err := net.SplitHostPort(addr); err == nil && anyPort {
			addrs[name] = net.JoinHostPort(host, "0")
		}
	}
	for _, word := range words {
		name, text, ok := strings.Cut(word, "=")
		if _, known := addrs[name]; !ok || !known {
			return nil, fmt.Errorf("--listen %s: expected DOOR=ADDR, and a DOOR of %s", word, DoorNames())
		}
		addr, err := Address(name, text)
		if err != nil {
			return nil, fmt.Errorf("--listen: %w", err)
		}
		addrs[name] = addr
	}
	return addrs, nil
}

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
