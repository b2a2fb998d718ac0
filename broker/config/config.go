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
