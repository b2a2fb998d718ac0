package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/broker/provider/anthropic"
	"github.com/wirectl/wirectl/broker/provider/gemini"
	"github.com/wirectl/wirectl/broker/provider/mock"
	"github.com/wirectl/wirectl/broker/provider/openai"
)

// Doors are the names of the front doors, in the order in which they are told,
// with the ports that they have unless told otherwise.
var Doors = []Door{
	{"rlm", "8760"},
	{"proxy", "8761"},
	{"nexus", "8765"},
	{"latis", "8766"},
	{"latis_ws", "8767"},
	{"openai", "8768"},
	{"admin", "8769"},
}

// A Door is the name and the usual port of a front door.
type Door struct{ Name, Port string }

// A Config is a file made ready.
type Config struct {
	Broker broker.Config
	// Listen is the address of each door, "off" for one that stays shut.
	Listen map[string]string
	// Token is what clients have to show; "" lets in all.
	Token  string
	Limits Limits
	// Secrets are all that the file leads to, the token among them.
	Secrets []string
}

// Default is the configuration without a file: one model, which a mock answers.
const Default = `default: mock
providers:
  mock: {kind: mock}
models:
  mock: {provider: mock}
`

// An Env is the world that a configuration is read in.
type Env struct {
	Getenv   func(string) string
	ReadFile func(string) ([]byte, error)
}

// OSEnv is the world outside.
func OSEnv() Env { return Env{os.Getenv, os.ReadFile} }

// Load reads the file of that name; "" is [Default].
func Load(name string, env Env) (*Config, error) {
	if name == "" {
		return Parse("the built-in configuration", []byte(Default), env)
	}
	data, err := env.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return Parse(name, data, env)
}

// Parse reads a configuration. The name is for errors.
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
	secrets  []string // all that were found
}

func (b *builder) build() (*Config, error) {
	c := &Config{Listen: map[string]string{}, Limits: b.Limits}
	if len(b.Providers) == 0 && len(b.Models) == 0 {
		b.Providers = map[string]Provider{"mock": {Kind: "mock"}}
		b.Models = map[string]Model{"mock": {Provider: "mock"}}
		b.File.Default = cmp.Or(b.File.Default, "mock")
	}
	for _, step := range []func(*Config) error{b.listen, b.providers, b.models, b.names, b.token, b.limits} {
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
			return b.at([]string{"listen", name}, "there is no such door; expected one of %s", DoorNames())
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

func (b *builder) providers(*Config) error {
	for _, name := range slices.Sorted(maps.Keys(b.Providers)) {
		p := b.Providers[name]
		made, err := b.provider(name, &p)
		if err != nil {
			return err
		}
		b.backends[name] = &broker.Backend{
			Name: name, Provider: made,
			Concurrency: p.Concurrency, Rate: p.Rate, Burst: p.Burst,
			Backoff: time.Duration(p.Backoff), MaxWait: time.Duration(p.MaxWait),
			Breaker: p.Breaker.Failures, BreakerDelay: time.Duration(p.Breaker.Delay),
			FirstPart: time.Duration(p.Timeouts.FirstPart), Total: time.Duration(p.Timeouts.Total),
		}
		if p.Kind != "mock" {
			b.backends[name].Retries = 2
			b.backends[name].Total = cmp.Or(b.backends[name].Total, 10*time.Minute)
		}
		if p.Retries != nil {
			b.backends[name].Retries = *p.Retries
		}
	}
	return nil
}

func (b *builder) provider(name string, p *Provider) (provider.Provider, error) {
	path := []string{"providers", name}
	if err := b.numbers(path, p); err != nil {
		return nil, err
	}
	if p.BaseURL != "" {
		if u, err := url.Parse(p.BaseURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
			return nil, b.at(append(path, "base_url"), "expected a URL that begins with http:// or https://, without user and password")
		}
	}
	key, err := b.secret(append(path, "key"), p.Key)
	if err != nil {
		return nil, err
	}
	header, err := b.header(append(path, "headers"), p.Headers)
	if err != nil {
		return nil, err
	}
	make, known := kinds[p.Kind]
	switch {
	case !known:
		return nil, b.at(append(path, "kind"), "%q is no kind of provider; expected one of %s", p.Kind, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	case p.APIVersion != "" && p.Kind != "openai":
		return nil, b.at(append(path, "api_version"), "nothing reads this here; it is for the kind openai, at Azure")
	case p.MaxTokens != 0 && p.Kind != "anthropic":
		return nil, b.at(append(path, "max_tokens"), "nothing reads this here; it is for the kind anthropic")
	case len(p.Drop) > 0 && p.Kind != "anthropic" && p.Kind != "gemini":
		return nil, b.at(append(path, "drop"), "nothing reads this here; it is for the kinds anthropic and gemini")
	}
	for i, name := range p.Drop {
		if known := provider.Droppable(); !slices.Contains(known, name) {
			return nil, b.at(append(path, "drop", strconv.Itoa(i)), "%q is no parameter that can be left out; expected one of %s", name, strings.Join(known, ", "))
		}
	}
	made, err := make(p, key, header)
	if err != nil {
		return nil, b.at(path, "%v", err)
	}
	return made, nil
}

// numbers checks those of a provider.
func (b *builder) numbers(path []string, p *Provider) error {
	retries := 0
	if p.Retries != nil {
		retries = *p.Retries
	}
	for _, n := range []struct {
		key    string
		is     float64
		atMost float64
	}{
		{"concurrency", float64(p.Concurrency), math.MaxInt32},
		{"rate", p.Rate, math.MaxInt32},
		{"burst", float64(p.Burst), math.MaxInt32},
		{"retries", float64(retries), 10},
		{"breaker.failures", float64(p.Breaker.Failures), math.MaxInt32},
		{"max_tokens", float64(p.MaxTokens), math.MaxInt32},
	} {
		if !(0 <= n.is && n.is <= n.atMost) { // so that NaN is refused, too
			return b.at(append(path, strings.Split(n.key, ".")...), "expected a number from 0 to %v", int64(n.atMost))
		}
	}
	return b.mock(append(path, "mock"), &p.Mock)
}

// mock checks what a mock is to answer with.
func (b *builder) mock(path []string, m *Mock) error {
	for i, l := range m.Script {
		if l.Status != 0 && !isFailure(l.Status) {
			return b.at(append(path, "script", strconv.Itoa(i), "status"), "expected the status of an error, from 400 to 599")
		}
	}
	for i, f := range m.Faults {
		switch at := append(path, "faults", strconv.Itoa(i)); {
		case f.Every < 1:
			return b.at(append(at, "every"), "expected a number from 1: every how many calls one fails")
		case f.Status != 0 && !isFailure(f.Status):
			return b.at(append(at, "status"), "expected the status of an error, from 400 to 599, or none for an answer that is cut")
		}
	}
	return nil
}

func isFailure(status int) bool { return status >= 400 && status <= 599 }

// kinds makes the providers.
var kinds = map[string]func(p *Provider, key string, h http.Header) (provider.Provider, error){
	"mock": newMock,
	"openai": func(p *Provider, key string, h http.Header) (provider.Provider, error) {
		return openai.New(openai.Config{BaseURL: p.BaseURL, APIVersion: p.APIVersion, Key: key, Header: h, Connect: time.Duration(p.Timeouts.Connect)}), nil
	},
	"anthropic": func(p *Provider, key string, h http.Header) (provider.Provider, error) {
		return anthropic.New(anthropic.Config{BaseURL: p.BaseURL, Key: key, Header: h, Connect: time.Duration(p.Timeouts.Connect), MaxTokens: p.MaxTokens, Drop: p.Drop}), nil
	},
	"gemini": func(p *Provider, key string, h http.Header) (provider.Provider, error) {
		return gemini.New(gemini.Config{BaseURL: p.BaseURL, Key: key, Header: h, Connect: time.Duration(p.Timeouts.Connect), Drop: p.Drop}), nil
	},
}

// header makes the headers that go with every request.
func (b *builder) header(path []string, values map[string]Header) (http.Header, error) {
	h := http.Header{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		secret, err := b.secret(append(path, name), values[name].Secret)
		if err != nil {
			return nil, err
		}
		value := cmp.Or(secret, values[name].Text)
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, b.at(append(path, name), "expected a header of HTTP: a name of letters, digits and '-', and a value of one line")
		}
		h.Set(name, value)
	}
	return h, nil
}

func newMock(p *Provider, _ string, _ http.Header) (provider.Provider, error) {
	cfg := mock.Config{Prefix: p.Mock.Prefix, Latency: time.Duration(p.Mock.Latency), Pause: time.Duration(p.Mock.Pause)}
	for _, l := range p.Mock.Script {
		line := mock.Line{When: l.When, Say: l.Say, Finish: l.Finish, Status: l.Status, RetryAfter: time.Duration(l.RetryAfter)}
		for _, call := range l.ToolCalls {
			args := []byte("{}")
			if call.Arguments != nil {
				var err error
				if args, err = json.Marshal(call.Arguments); err != nil {
					return nil, err
				}
			}
			line.ToolCalls = append(line.ToolCalls, provider.ToolCall{ID: call.ID, Name: call.Name, Arguments: args})
		}
		cfg.Script = append(cfg.Script, line)
	}
	for _, f := range p.Mock.Faults {
		cfg.Faults = append(cfg.Faults, mock.Fault{Every: f.Every, Status: f.Status, RetryAfter: time.Duration(f.RetryAfter)})
	}
	return mock.New(cfg), nil
}

// secret finds a secret. The error names where it was to be, never what is there.
func (b *builder) secret(path []string, s Secret) (found string, err error) {
	switch {
	case s.Env != "" && s.File != "":
		return "", b.at(path, "expected either env or file, and here are both")
	case s.Env != "":
		if found = strings.TrimSpace(b.env.Getenv(s.Env)); found == "" {
			return "", b.at(path, "the environment variable %s is not set", s.Env)
		}
	case s.File != "":
		data, err := b.env.ReadFile(s.File)
		if err != nil {
			var pe *fs.PathError
			if errors.As(err, &pe) {
				err = pe.Err
			}
			return "", b.at(path, "cannot read %s: %v", s.File, err)
		}
		found = strings.TrimSpace(string(data))
	}
	if !httpguts.ValidHeaderFieldValue(found) {
		return "", b.at(path, "what is there is no key: it has more than one line, or control characters")
	}
	if found != "" {
		b.secrets = append(b.secrets, found)
	}
	return found, nil
}

func (b *builder) models(c *Config) error {
	if len(b.Models) == 0 {
		return b.at([]string{"providers"}, "there are no models, so that no call could be made; expected models: {NAME: {provider: %s}}", slices.Sorted(maps.Keys(b.Providers))[0])
	}
	for _, name := range slices.Sorted(maps.Keys(b.Models)) {
		m := b.Models[name]
		path := []string{"models", name}
		if strings.TrimSpace(name) != name || name == "" || strings.Count(name, "*") > 1 {
			return b.at(path, "expected a name without space around it and with one * at most")
		}
		if m.Provider != "" && len(m.Routes) > 0 {
			return b.at(path, "expected either provider or routes, and here are both")
		}
		if m.Provider == "" && len(m.Routes) == 0 {
			return b.at(path, "expected a provider, or routes")
		}
		made := broker.Model{Name: name, Fallbacks: m.Fallbacks}
		if m.Provider != "" {
			m.Routes = []Route{{Provider: m.Provider, Model: m.Model}}
		}
		for i, r := range m.Routes {
			at := path
			if m.Provider == "" {
				at = append(path, "routes", strconv.Itoa(i))
			}
			backend := b.backends[r.Provider]
			switch {
			case backend == nil:
				return b.at(append(at, "provider"), "there is no provider %q; expected a key of providers%s", r.Provider, among(slices.Sorted(maps.Keys(b.backends))))
			case r.Weight < 0:
				return b.at(append(at, "weight"), "expected a number from 0; 0 is the same as 1")
			}
			made.Routes = append(made.Routes, broker.Route{Backend: backend, Model: r.Model, Weight: r.Weight})
		}
		c.Broker.Models = append(c.Broker.Models, made)
	}
	return nil
}

// names checks what refers to models by name.
func (b *builder) names(c *Config) error {
	c.Broker.Default, c.Broker.Aliases, c.Broker.Batch = cmp.Or(b.File.Default, b.only()), b.Aliases, b.Limits.Batch
	for _, alias := range slices.Sorted(maps.Keys(b.Aliases)) {
		switch _, model := b.Models[alias]; {
		case model:
			return b.at([]string{"aliases", alias}, "there is a model of that name")
		case b.find(b.Aliases[alias]) == "":
			return b.at([]string{"aliases", alias}, "there is no model %q", b.Aliases[alias])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.Models)) {
		for i, f := range b.Models[name].Fallbacks {
			path := []string{"models", name, "fallbacks", strconv.Itoa(i)}
			switch b.find(cmp.Or(b.Aliases[f], f)) {
			case "":
				return b.at(path, "there is no model %q", f)
			case name:
				return b.at(path, "%q is the model itself; expected another to fall back to", f)
			}
		}
	}
	if d := b.File.Default; d != "" && b.find(cmp.Or(b.Aliases[d], d)) == "" {
		return b.at([]string{"default"}, "there is no model %q", d)
	}
	return nil
}

// only returns the name of the model, if there is just one: it needs not be
// called the default.
func (b *builder) only() string {
	for name := range b.Models {
		if len(b.Models) == 1 && !strings.Contains(name, "*") {
			return name
		}
	}
	return ""
}

// find returns the model, or the longest pattern, that a name leads to.
func (b *builder) find(name string) (found string) {
	for pattern := range b.Models {
		before, after, wild := strings.Cut(pattern, "*")
		switch {
		case pattern == name:
			return name
		case wild && len(pattern) > len(found) && len(name) >= len(pattern)-1 && strings.HasPrefix(name, before) && strings.HasSuffix(name, after):
			found = pattern
		}
	}
	return found
}

func (b *builder) token(c *Config) (err error) {
	c.Token, err = b.secret([]string{"token"}, b.Token)
	return err
}

func (b *builder) limits(*Config) error {
	for _, n := range []struct {
		key string
		is  int64
	}{
		{"batch", int64(b.Limits.Batch)},
		{"connections", int64(b.Limits.Connections)},
		{"body_bytes", b.Limits.BodyBytes},
	} {
		if n.is < 0 {
			return b.at([]string{"limits", n.key}, "expected a number from 0; 0 is the usual limit")
		}
	}
	return nil
}

// Address reads where a door is to listen: HOST:PORT, :PORT or PORT on this
// machine's own address, or off.
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
	case err == nil && host == "" && strings.ContainsAny(port, ".abcdefghijklmnopqrstuvwxyz"): // it was a host
		return "", fmt.Errorf("%q has no port for the door %s; expected HOST:PORT, as %s is, or PORT, or off", text, door, net.JoinHostPort(port, usualPort(door)))
	}
	return "", fmt.Errorf("%q is no address for the door %s; expected HOST:PORT, PORT or off", text, door)
}

func usualPort(door string) string {
	i := slices.IndexFunc(Doors, func(d Door) bool { return d.Name == door })
	return Doors[i].Port
}

// among lists what there is to choose from, if there is anything.
func among(names []string) string {
	if len(names) == 0 {
		return ", where there is none"
	}
	return ": " + strings.Join(names, ", ")
}
