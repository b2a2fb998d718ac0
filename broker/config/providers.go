package config

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/provider"
)

func (b *builder) providers(*Config) error {
	for _, name := range slices.Sorted(maps.Keys(b.Providers)) {
		p := b.Providers[name]
		made, err := b.provider(name, &p)
		if err != nil {
			return err
		}
		b.backends[name] = &broker.Backend{
			Name: name, Provider: made, KeyEnv: p.Key.Env,
			Concurrency: p.Concurrency, Rate: p.Rate, Burst: p.Burst,
			Backoff: p.Backoff, MaxWait: p.MaxWait,
			Breaker: p.Breaker.Failures, BreakerDelay: p.Breaker.Delay,
			FirstPart: p.Timeouts.FirstPart, Total: p.Timeouts.Total,
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
		u, err := url.Parse(p.BaseURL)
		switch at := append(path, "base_url"); {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil:
			return nil, b.at(at, "expected a URL that begins with http:// or https://, without user and password")
		case strings.ContainsAny(p.BaseURL, "?#"): // also one that nothing follows
			return nil, b.at(at, "expected a URL without ? and #: paths such as /chat/completions are appended")
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
	if err := b.fitsKind(path, p); err != nil {
		return nil, err
	}
	switch p.Kind {
	case "mock":
		return provider.NewMock(p.Mock), nil
	case "workers":
		return nil, nil
	}
	return kinds[p.Kind](provider.Config{
		BaseURL: p.BaseURL, APIVersion: p.APIVersion, Key: key, Header: header,
		Connect: p.Timeouts.Connect, MaxTokens: p.MaxTokens, Drop: p.Drop,
	}), nil
}

// fitsKind checks that the kind of a provider exists, and that it has no settings of other kinds.
func (b *builder) fitsKind(path []string, p *Provider) error {
	switch _, known := kinds[p.Kind]; {
	case !known:
		return b.at(append(path, "kind"), "%q is not a kind of provider; expected one of %s", p.Kind, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	case p.Kind == "workers" && (p.BaseURL != "" || p.Key != Secret{} || len(p.Headers) > 0 || len(p.Drop) > 0):
		return b.at(path, "set base_url, key, headers and drop in the workers' own configurations")
	case p.APIVersion != "" && p.Kind != "openai":
		return b.at(append(path, "api_version"), "not used here; it is for the kind openai, at Azure")
	case p.MaxTokens != 0 && p.Kind != "anthropic":
		return b.at(append(path, "max_tokens"), "not used here; it is for the kind anthropic")
	case len(p.Drop) > 0 && p.Kind == "mock":
		return b.at(append(path, "drop"), "not used here; a mock takes everything")
	}
	for i, name := range p.Drop {
		if p.Kind == "openai" && name != "tools" {
			return b.at(append(path, "drop", strconv.Itoa(i)), "not used here; with the kind openai only tools can be dropped")
		}
		if known := provider.Droppable(); !slices.Contains(known, name) {
			return b.at(append(path, "drop", strconv.Itoa(i)), "%q is not a parameter that can be dropped; expected one of %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// numbers checks the numbers of a provider.
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

// mock checks the answers of a mock.
func (b *builder) mock(path []string, m *provider.MockConfig) error {
	if m.Chunk < 0 {
		return b.at(append(path, "chunk"), "expected a number of characters; 0 means a word")
	}
	for i, l := range m.Script {
		if l.Status != 0 && !isFailure(l.Status) {
			return b.at(append(path, "script", strconv.Itoa(i), "status"), "expected an error status, from 400 to 599")
		}
	}
	for i, t := range m.Turns {
		if t.Status != 0 && !isFailure(t.Status) {
			return b.at(append(path, "turns", strconv.Itoa(i), "status"), "expected an error status, from 400 to 599")
		}
	}
	if len(m.Turns) > 0 && (len(m.Script) > 0 || m.Prefix != nil) {
		return b.at(append(path, "turns"), "expected either turns, or script and prefix: a mock with turns says nothing else")
	}
	for i, f := range m.Faults {
		switch at := append(path, "faults", strconv.Itoa(i)); {
		case f.Every < 1:
			return b.at(append(at, "every"), "expected a number from 1: every how many calls one fails")
		case f.Status != 0 && !isFailure(f.Status):
			return b.at(append(at, "status"), "expected an error status, from 400 to 599, or none for an answer that is cut")
		}
	}
	return nil
}

func isFailure(status int) bool { return status >= 400 && status <= 599 }

// kinds are the constructors of providers; the mock has a configuration of its own.
var kinds = map[string]func(provider.Config) provider.Provider{
	"mock":      nil,
	"workers":   nil, // they are found once the broker has joined a hub
	"openai":    func(c provider.Config) provider.Provider { return provider.NewOpenAI(c) },
	"anthropic": func(c provider.Config) provider.Provider { return provider.NewAnthropic(c) },
	"gemini":    func(c provider.Config) provider.Provider { return provider.NewGemini(c) },
}

// credential matches names of headers whose values are likely to be secrets, even if they are
// written in the file itself.
var credential = regexp.MustCompile(`(?i)auth|key|token|secret|cookie|password`)

// header makes the headers of every request.
func (b *builder) header(path []string, values map[string]Header) (http.Header, error) {
	h := http.Header{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		secret, err := b.secret(append(path, name), values[name].Secret)
		if err != nil {
			return nil, err
		}
		value := cmp.Or(secret, values[name].Text)
		if secret == "" && credential.MatchString(name) {
			b.secrets = append(b.secrets, value)
		}
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, b.at(append(path, name), "expected a header of HTTP: a name of letters, digits and '-', and a value of one line")
		}
		h.Set(name, value)
	}
	return h, nil
}

// secret finds a secret. The error names its place, never its value.
func (b *builder) secret(path []string, s Secret) (found string, err error) {
	switch {
	case s.Env != "" && s.File != "":
		return "", b.at(path, "expected either env or file; got both")
	case s.Env != "":
		if found = strings.TrimSpace(b.env.Getenv(s.Env)); found == "" {
			return "", b.at(path, "the environment variable %s is not set", s.Env)
		}
	case s.File != "":
		data, err := b.env.ReadFile(s.File)
		if err != nil {
			if pe, ok := errors.AsType[*fs.PathError](err); ok {
				err = pe.Err
			}
			return "", b.at(path, "cannot read %s: %v", s.File, err)
		}
		found = strings.TrimSpace(string(data))
	}
	if !httpguts.ValidHeaderFieldValue(found) {
		return "", b.at(path, "this is not a key: it has more than one line, or control characters")
	}
	if found != "" {
		b.secrets = append(b.secrets, found)
	}
	return found, nil
}
