package web

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/store"
)

// A Library has the sessions that the page can show. It is safe for any number of goroutines.
type Library interface {
	// List returns the sessions that contain all of the words, the newest first.
	List(ctx context.Context, words string) ([]store.Listed, error)
	// Viewing returns the source that fills s with a session. It is not open yet.
	Viewing(ctx context.Context, id string, s *store.Store) (*store.Viewing, error)
}

// Options say what is served, and to whom.
type Options struct {
	Library Library
	// Only is the session that the page shows; "" lets people choose.
	Only string
	// Listen is HOST:PORT. Remote permits others than loopback.
	Listen string
	Remote bool
	// Control lets the page change the traffic, if the session allows it.
	Control bool
	// Speaks are the protocols of which wirectl send sends any method. Repeat runs it with these arguments, and
	// returns its answer; nil if the page sends nothing. It needs Control.
	Speaks []string
	Repeat func(ctx context.Context, args []string) (string, error)
	// Config is how frames are read.
	Config store.Config
	// Metrics are served at /metrics, to any user of this machine; nil is none.
	Metrics http.Handler
}

// EndTime is how long the server may take to end.
const EndTime = 5 * time.Second

// A Server serves the page.
type Server struct {
	options  Options
	listener net.Listener
	guard    guard
	shelf    *shelf
	streams  chan struct{} // a place for each that is open
	filters  sync.Mutex    // one jq filter runs at a time: each may use a processor and much memory
}

// maxStreams is how many pages may be open at once.
const maxStreams = 64

// Listen listens where the options say.
func Listen(ctx context.Context, o Options) (*Server, error) {
	host, _, err := net.SplitHostPort(o.Listen)
	switch {
	case err != nil:
		return nil, fmt.Errorf("invalid address to listen on, %q: want HOST:PORT", o.Listen)
	case !o.Remote && !isLoopback(host):
		return nil, fmt.Errorf("%s is not loopback: other machines could connect; use ssh -L, or give monitor --web the flag --remote if they may", o.Listen)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return nil, err
	}
	return &Server{
		options: o, listener: l, guard: newGuard(l.Addr(), host), streams: make(chan struct{}, maxStreams),
	}, nil
}

// URL is the address to open, with its token.
func (s *Server) URL() string {
	return "http://" + s.guard.address + "/?token=" + s.guard.token
}

// Serve serves the page until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.shelf = newShelf(ctx, &s.options)
	defer s.shelf.close()
	server := &http.Server{
		Handler: s.guard.admit(s.routes(), s.options.Metrics), BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(s.listener) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		// The streams end with ctx.
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), EndTime)
		defer cancel()
		if server.Shutdown(late) != nil {
			server.Close()
		}
		err = <-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Run serves the page until ctx ends, and writes its address.
func Run(ctx context.Context, o Options, out io.Writer) error {
	s, err := Listen(ctx, o)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "the page is at %s\n", s.URL()); err != nil {
		return errors.Join(err, s.listener.Close())
	}
	return s.Serve(ctx)
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.servePage)
	mux.HandleFunc("GET /session/{id...}", s.servePage)
	mux.HandleFunc("GET /api/sessions", s.serveSessions)
	mux.HandleFunc("GET /api/events", s.serveEvents)
	mux.HandleFunc("GET /api/frame", s.ofSession(s.serveFrame))
	mux.HandleFunc("GET /api/command", s.ofSession(s.serveAsCommand))
	mux.HandleFunc("GET /api/find", s.ofSession(serveFound))
	mux.HandleFunc("GET /api/stats", s.ofSession(serveStats))
	mux.HandleFunc("GET /api/peers", s.ofSession(servePeers))
	mux.HandleFunc("GET /api/context", s.ofSession(serveContexts))
	mux.HandleFunc("POST /api/do", s.mayCommand(s.ofSession(serveCommand)))
	mux.HandleFunc("POST /api/repeat", s.mayCommand(s.ofSession(s.serveRepeat)))
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	return mux
}

// servePage answers with the page, which requests its data itself.
func (s *Server) servePage(w http.ResponseWriter, r *http.Request) {
	if s.options.Only != "" && r.URL.Path == "/" {
		http.Redirect(w, r, sessionPath(s.options.Only), http.StatusSeeOther)
		return
	}
	policy := policy() + "; connect-src 'self'"
	w.Header().Set("Content-Security-Policy", policy+"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = write(w, "wirectl", policy, func(io.Writer) error { return nil }) // or the browser has gone
}

func (s *Server) serveSessions(w http.ResponseWriter, r *http.Request) {
	list, err := s.options.Library.List(r.Context(), r.FormValue("words"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	if list == nil {
		list = []store.Listed{}
	}
	answer(w, list)
}

// answer answers with JSON.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = jsonscan.NewEncoder(w).Encode(v) // or the browser has gone
}

// A guard admits browsers with the token. The token is in the printed address; it is exchanged
// for a cookie, and then removed from the address.
type guard struct {
	address string // HOST:PORT
	names   []string
	token   string
	cookie  string // name of the cookie, with the port, because cookies are shared by all ports
	secret  string // value of the cookie
	command string // secret for commands
}

func newGuard(addr net.Addr, host string) guard {
	_, port, _ := net.SplitHostPort(addr.String())
	g := guard{names: []string{host}, token: rand.Text(), cookie: "wirectl-" + port, secret: rand.Text(), command: rand.Text()}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host, _ = os.Hostname() // other machines may know it
		g.names = []string{host}
	}
	g.address = net.JoinHostPort(host, port)
	return g
}

// knows reports whether a Host header names this server. Other names may be part of a DNS
// rebinding attack.
func (g *guard) knows(hostPort string) bool {
	host := hostOf(hostPort)
	return isLoopback(host) || slices.Contains(g.names, host) || !isLoopback(g.names[0]) && net.ParseIP(host) != nil
}

// hostOf returns the host in a Host header; "" if it has none.
func hostOf(hostPort string) string {
	u, err := url.Parse("http://" + hostPort)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// IsLocal reports whether a Host header names loopback.
func IsLocal(hostPort string) bool { return isLoopback(hostOf(hostPort)) }

// IsOwn reports whether a request comes from a page of this server, or from no page.
func IsOwn(r *http.Request) bool {
	if slices.ContainsFunc(r.Header["Origin"], func(origin string) bool { return origin != "" && origin != "http://"+r.Host }) {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	// Other pages may link to this one.
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && !strings.HasPrefix(r.URL.Path, "/api/")
}

// Same compares secrets.
func Same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// admit passes admitted requests to next. Metrics, which name no session, are for any user of
// this machine: Prometheus has no cookies.
func (g *guard) admit(next, metrics http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		cookie, err := r.Cookie(g.cookie)
		token := r.URL.Query().Get("token")
		switch {
		case !g.knows(r.Host):
			http.Error(w, "the Host header does not name this server", http.StatusMisdirectedRequest)
		case !IsOwn(r):
			http.Error(w, "the request comes from another page", http.StatusForbidden)
		case metrics != nil && r.Method == http.MethodGet && r.URL.Path == "/metrics" && isLoopback(g.names[0]):
			metrics.ServeHTTP(w, r)
		case r.Method == http.MethodGet && Same(token, g.token):
			http.SetCookie(w, &http.Cookie{Name: g.cookie, Value: g.secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
			http.Redirect(w, r, pathOf(r.URL), http.StatusSeeOther)
		case err != nil || !Same(cookie.Value, g.secret):
			http.Error(w, "open the address that wirectl printed: it contains the token", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// pathOf is the path of an address on this server.
func pathOf(u *url.URL) string { return "/" + strings.TrimLeft(u.EscapedPath(), "/\\") }

// sessionPath is the link to a session.
func sessionPath(id string) string { return "/session/" + url.PathEscape(id) }

// Local has the live and recorded sessions of this machine, or a single one.
type Local struct {
	Opener *source.Opener
	Config store.Config
	Only   string   // a session; "" means all
	With   []string // more sessions, which are joined with that
	Follow bool     // wait for more at the end of a file
}

// List returns the taps and the recorded sessions.
func (l *Local) List(_ context.Context, words string) (list []store.Listed, err error) {
	choices := []store.Choice{{Name: strings.Join(source.Labels(append([]string{l.Only}, l.With...)), " + "), Input: l.Only}}
	if l.Only == "" {
		if choices, err = store.Choices(l.Opener.Getenv); err != nil {
			return nil, err
		}
	}
	if l.Only == "" && len(choices) == 1 && source.IsTap(choices[0].Input) {
		choices[0] = store.Choice{Name: store.Await, About: "what runs, or the next relay or broker that does", Input: store.Await}
	}
	for _, c := range choices {
		about := strings.ToLower(c.Name + "\n" + c.About)
		if !slices.ContainsFunc(strings.Fields(strings.ToLower(words)), func(word string) bool { return !strings.Contains(about, word) }) {
			list = append(list, store.Listed{ID: c.Input, Name: c.Name, About: c.About})
		}
	}
	return list, nil
}

// Viewing returns the source of a listed session.
func (l *Local) Viewing(ctx context.Context, id string, s *store.Store) (*store.Viewing, error) {
	list, err := l.List(ctx, "")
	if err != nil {
		return nil, err
	}
	// A link may name only listed sessions, not any file of this machine.
	if !slices.ContainsFunc(list, func(c store.Listed) bool { return c.ID == id }) {
		return nil, fmt.Errorf("no session %q", id)
	}
	name, err := l.Opener.Resolve(id)
	if err != nil {
		return nil, err
	}
	cfg := l.Config
	cfg.Resync, cfg.Notice = true, s.Notice
	return &store.Viewing{Name: name, With: l.With, Opener: l.Opener, Store: s, Config: cfg, Follow: l.Follow || source.IsRun(id) && len(l.With) == 0}, nil
}

// peers are the connections, and the last lines besides frames, such as standard error.
type peers struct {
	Peers []peer     `json:"peers"`
	Lines []noteLine `json:"lines"`
	Total int        `json:"total"` // of lines
}

type peer struct {
	Conn   int     `json:"conn"`
	Name   string  `json:"name"`
	Up     int64   `json:"up"` // frames from the client, and bytes
	UpSize int64   `json:"upSize"`
	Down   int64   `json:"down"`
	Size   int64   `json:"size"`
	State  string  `json:"state"`
	Bad    bool    `json:"bad,omitempty"`
	Note   string  `json:"note,omitempty"`
	Stall  float64 `json:"stall,omitempty"` // microseconds that frames waited to be forwarded
}

// A noteLine is a line that is not a frame.
type noteLine struct {
	Conn int     `json:"conn"`
	Time float64 `json:"time"`
	Kind string  `json:"kind"`
	Text string  `json:"text"`
}

// maxLines bounds the lines in a page.
const maxLines = 500

func peersOf(s *store.Store, c clock) *peers {
	p := s.Peers(maxLines)
	out := &peers{Peers: []peer{}, Lines: []noteLine{}, Total: p.Total}
	for i := range p.Peers {
		of := &p.Peers[i]
		row := peer{
			Conn: max(of.Conn, 1), Name: text(of.Name),
			Up: of.FramesUp(), UpSize: of.BytesUp(), Down: of.FramesDown(), Size: of.BytesDown(),
			State: of.State(), Bad: of.Failed || of.Note != "", Note: text(of.Note),
			Stall: float64((of.StallTotal[0] + of.StallTotal[1] + of.StallTotal[2]) / time.Microsecond),
		}
		if row.Name == "" {
			row.Name = text(p.Session.Unit)
		}
		out.Peers = append(out.Peers, row)
	}
	for _, line := range p.Lines {
		row := noteLine{Conn: line.Conn, Kind: line.Kind.String(), Text: text(line.Text)}
		if !line.Time.IsZero() && c.timed {
			row.Time = c.since(line.Time.UnixNano())
		}
		out.Lines = append(out.Lines, row)
	}
	return out
}

// isLoopback reports whether a host is loopback, without asking a resolver.
func isLoopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }
