package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/store/live"
	"github.com/wirectl/wirectl/transport"
)

// A Library has the sessions that the page can show. It is safe for any number of goroutines.
type Library interface {
	// List returns the sessions that contain all of the words, the newest first.
	List(ctx context.Context, words string) ([]live.Listed, error)
	// Viewing returns the source that fills s with a session. It is not open yet.
	Viewing(ctx context.Context, id string, s *store.Store) (*live.Viewing, error)
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
	// Config is how frames are read.
	Config decode.Config
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
}

// maxStreams is how many pages may be open at once.
const maxStreams = 64

// Listen listens where the options say.
func Listen(ctx context.Context, o Options) (*Server, error) {
	host, _, err := net.SplitHostPort(o.Listen)
	switch {
	case err != nil:
		return nil, fmt.Errorf("invalid address to listen on, %q: want HOST:PORT", o.Listen)
	case !o.Remote && !transport.IsLoopback(host):
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
	mux.HandleFunc("GET /api/frame", s.ofSession(serveFrame))
	mux.HandleFunc("GET /api/find", s.ofSession(serveFound))
	mux.HandleFunc("GET /api/stats", s.ofSession(serveStats))
	mux.HandleFunc("GET /api/peers", s.ofSession(servePeers))
	mux.HandleFunc("POST /api/do", s.mayCommand(s.ofSession(serveCommand)))
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
		list = []live.Listed{}
	}
	answer(w, list)
}

// answer answers with JSON.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = jsonscan.NewEncoder(w).Encode(v) // or the browser has gone
}
