package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/internal/nearest"
)

// builtin are the schemes that need no other package.
var builtin = []Scheme{
	{Name: "tcp", Dial: dialTCP, Listen: listenTCP, Check: CheckHostPort},
	{Name: "tls", Dial: dialTLS, Listen: listenTLS, Check: CheckHostPort},
	{Name: "unix", Dial: dialUnix, Listen: listenUnix, Check: checkUnix},
	{Name: "ws", Dial: dialWS, Listen: listenWS, Check: checkWS},
	{Name: "wss", Dial: dialWS, Listen: listenWS, Check: checkWS},
}

func schemes(opts *Options) []Scheme { return slices.Concat(builtin, opts.Schemes) }

func schemeNames(list []Scheme) []string {
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
	}
	return names
}

// Awaited is the endpoint of a peer that connects to us.
type Awaited struct{ Listener }

func (a Awaited) String() string { return a.Addr() }

// Dial waits for the peer.
func (a Awaited) Dial(ctx context.Context) (Conn, error) { return a.Accept(ctx) }

// Beginnings are what the words of an endpoint can begin with, with what follows.
var Beginnings = [][2]string{
	{"--", "a program, with its arguments"},
	{"exec", "a program, with its arguments"},
	{"ssh", "a program elsewhere: what you would type for ssh"},
	{"container", "a program in a running container"},
	{"stdio", "our own standard input and output"},
	{"tcp://", "HOST:PORT"},
	{"tls://", "HOST:PORT"},
	{"unix://", "PATH of a socket"},
	{"ws://", "a WebSocket"},
	{"wss://", "a WebSocket in TLS"},
	{"http://", "an HTTP server"},
	{"https://", "an HTTP server in TLS"},
	{"quic://", "HOST:PORT"},
	{"grpc://", "HOST:PORT"},
	{"grpcs://", "HOST:PORT, in TLS"},
}

// TakesRest reports whether word, as the first of an endpoint, is followed by a
// command line.
func TakesRest(word string) bool {
	return slices.Contains([]string{"--", "exec", "ssh", "container"}, word)
}

// IsWord reports whether word is an endpoint by itself: stdio, or an address.
func IsWord(word string) bool {
	scheme, _, ok := strings.Cut(word, "://")
	return word == "stdio" || ok && isName(scheme)
}

// isName reports whether s is a valid scheme: it becomes part of a program's name.
func isName(s string) bool {
	return strings.IndexAny(s, letters) == 0 && strings.Trim(s, letters+"0123456789+-._") == ""
}

// Parse returns the endpoint that words name: "--" or exec and a command line,
// ssh and its arguments, container with a name and a command line, stdio, or an
// address such as tcp://localhost:7000. It does not connect.
func Parse(words []string, opts Options) (Endpoint, error) {
	if len(words) == 0 {
		return nil, errors.New("no endpoint: end with one such as tcp://HOST:PORT, or -- and a command")
	}
	first, rest := words[0], words[1:]
	switch first {
	case "--", "exec":
		return parseExec(first, rest, opts)
	case "ssh":
		return parseSSH(rest, opts)
	case "container":
		return parseContainer(rest, opts)
	}
	switch {
	case !IsWord(first):
		return nil, notEndpoint(first, len(rest) > 0)
	case len(rest) > 0:
		return nil, fmt.Errorf("%s is a complete endpoint, but %q follows it", first, rest[0])
	case first == "stdio":
		return stdioEndpoint{opts}, nil
	}
	return parseAddress(first, opts)
}

// notEndpoint returns the error for a word that is not an endpoint, with a suggestion.
func notEndpoint(word string, more bool) error {
	hint := "write a program after -- or exec, as in -- " + quoteWord(word)
	switch _, _, err := net.SplitHostPort(word); {
	case more:
	case err == nil:
		hint = "for TCP write tcp://" + word
	case strings.HasSuffix(word, ".sock"), strings.HasSuffix(word, ".socket"):
		hint = "for a Unix socket write unix://" + word
	}
	return fmt.Errorf("invalid endpoint %q: %s", word, hint)
}

func parseAddress(address string, opts Options) (Endpoint, error) {
	name, rest, _ := strings.Cut(address, "://")
	list := schemes(&opts)
	if i := slices.IndexFunc(list, func(s Scheme) bool { return s.Name == name }); i >= 0 {
		if err := list[i].checkAddress(address); err != nil {
			return nil, err
		}
		return urlEndpoint{scheme: list[i], address: address, opts: opts}, nil
	}
	if name == "http" || name == "https" {
		return parseHTTP(address)
	}
	if e := findConnector(name, rest, opts); e != nil {
		return e, nil
	}
	names := append(schemeNames(list), "http", "https")
	return nil, fmt.Errorf("%q: unknown kind of endpoint %q%s; there are %s, and any TYPE with a program latis-connector-TYPE on PATH or in %s",
		address, name, nearest.Question(name, names), strings.Join(names, ", "), connectorsDir)
}

// An urlEndpoint is an address that one of the schemes dials.
type urlEndpoint struct {
	scheme  Scheme
	address string
	opts    Options
	path    string // and query, to use instead of those of the address, unless ""
}

func (e urlEndpoint) String() string { return e.address }

func (e urlEndpoint) Dial(ctx context.Context) (Conn, error) {
	address := e.address
	if e.path != "" {
		scheme, rest, _ := strings.Cut(address, "://")
		address = scheme + "://" + rest[:strings.IndexAny(rest+"/", "/?#")] + e.path
	}
	c, err := e.scheme.Dial(ctx, address, e.opts)
	if err != nil {
		return nil, Explain(e.address, err)
	}
	return c, nil
}

// Listen listens at an address such as unix:///run/user/1000/unit.sock. The
// context only bounds the setup.
func Listen(ctx context.Context, address string, opts Options) (Listener, error) {
	name, _, ok := strings.Cut(address, "://")
	list := slices.DeleteFunc(schemes(&opts), func(s Scheme) bool { return s.Listen == nil })
	i := slices.IndexFunc(list, func(s Scheme) bool { return s.Name == name })
	if !ok || i < 0 {
		return nil, &AddressError{fmt.Errorf("%q: cannot listen there%s: the address begins with %s://", address,
			meant(name, schemeNames(list)), strings.Join(schemeNames(list), "://, "))}
	}
	if err := list[i].checkAddress(address); err != nil {
		return nil, &AddressError{err}
	}
	l, err := list[i].Listen(ctx, address, opts)
	if err != nil {
		return nil, Explain(address, err)
	}
	return l, nil
}

// meant suggests a scheme or an address for a name that is not a scheme; "" if none fits.
func meant(name string, schemes []string) string {
	host, port, err := net.SplitHostPort(name)
	if err != nil {
		host, port = "", name
	}
	switch _, bad := strconv.ParseUint(port, 10, 16); {
	case bad == nil:
		return " (did you mean tcp://" + net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port) + "?)"
	case filepath.IsAbs(name):
		return " (did you mean unix://" + name + "?)"
	}
	return nearest.Question(name, schemes)
}

// plainChars are characters that have no meaning for any shell.
const plainChars = letters + "0123456789@%+=:,./_-"

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// quoteWord quotes word for a POSIX shell.
func quoteWord(word string) string {
	if word != "" && strings.Trim(word, plainChars) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func quoteWords(words []string) string {
	var quoted []string
	for _, w := range words {
		quoted = append(quoted, quoteWord(w))
	}
	return strings.Join(quoted, " ")
}

// A Shown endpoint copies the standard error of its program, if it is one, to Stderr.
// Otherwise nobody would read it, and the program would block.
type Shown struct {
	Endpoint
	Stderr io.Writer
	// Ended, if not nil, is called with the end of each program, before Close returns.
	Ended func(Exit, error)
	// Lingers, if not nil, is called if Close waits long for a program to end.
	Lingers func()
}

// AtOnce is how long a program may take to end before Lingers is called.
const AtOnce = 300 * time.Millisecond

// Dial reaches the endpoint.
func (e Shown) Dial(ctx context.Context) (Conn, error) {
	conn, err := e.Endpoint.Dial(ctx)
	process, ok := conn.(Process)
	if err != nil || !ok {
		return conn, err
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(e.Stderr, process.Stderr()) // best effort; it ends with the process
	}()
	return &shownProcess{process, e, copied}, nil
}

// A shownProcess is a process whose standard error is being shown.
type shownProcess struct {
	Process
	endpoint Shown
	copied   chan struct{}
}

// Close ends the process, and waits until all of its standard error is shown.
func (p *shownProcess) Close() error {
	if p.endpoint.Lingers != nil {
		defer time.AfterFunc(AtOnce, p.endpoint.Lingers).Stop()
	}
	err := p.Process.Close()
	<-p.copied
	if p.endpoint.Ended != nil {
		p.endpoint.Ended(p.Wait())
	}
	return err
}

// Exits collects the ends of programs.
type Exits struct {
	mu    sync.Mutex
	first error // of a program that failed by itself
}

// Add adds an end. The error is that of a program that leads to the peer.
func (e *Exits) Add(x Exit, err error) {
	if err == nil && !x.Told && x.Code() != 0 {
		err = errors.New("the program " + x.String())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.first == nil {
		e.first = err
	}
}

// Failed returns the error of the first program that failed by itself; nil if none did.
func (e *Exits) Failed() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.first
}
