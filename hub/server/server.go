// Package server runs a hub: it runs a NATS server in this process, or creates the streams
// on an existing server. It also makes the tokens that grant rights.
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	nserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/internal/fd"
	"github.com/wirectl/wirectl/internal/otlp"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/transport"
)

// Options say where a hub is and what it keeps.
type Options struct {
	// NATS is the address of an existing server, and Creds the file of credentials for it; if
	// NATS is "", a server is started.
	NATS, Creds string
	// Dir is the folder of the user's state for the hub.
	Dir string
	// Listen is HOST:PORT. Beyond loopback, it needs the files TLSCert and TLSKey, and every
	// client needs a token.
	Listen          string
	TLSCert, TLSKey string
	MaxBytes        int64 // of all sessions; the oldest are removed first
	MaxAge          time.Duration
	Reindex         bool // rebuild the index
	// SearchBytes bounds what a search reads of a session, and SearchTime how long it reads
	// sessions for one answer; 0 is the default.
	SearchBytes int64
	SearchTime  time.Duration
	// OTLP is the URL of an OpenTelemetry collector that gets spans; if it is "", none does.
	OTLP   string
	Getenv func(string) string
	Warn   func(string)
	// Page serves a page with the sessions of the hub, and its metrics, until ctx ends; if it
	// is nil, there is no page.
	Page func(ctx context.Context, conn *hub.Conn, metrics http.Handler) error
}

// A Hub is a running hub.
type Hub struct {
	options Options
	server  *nserver.Server // nil if the hub uses an existing server
	conn    *hub.Conn
	address string // of the existing server
	open    bool   // every client may do everything
	lock    *os.File
	index   *index // nil if there is none

	sieves   []*sieve // of warnings that clients cause
	registry *prometheus.Registry
	spans    *otlp.Exporter // nil if there is no collector
}

// Start starts a server, or prepares an existing one.
func Start(ctx context.Context, o Options) (_ *Hub, err error) {
	h := &Hub{options: o}
	h.registry = h.newRegistry()
	if o.OTLP != "" {
		if h.spans, err = otlp.New(otlp.Options{URL: o.OTLP, Getenv: o.Getenv, Scope: "wirectl/hub", Hide: capture.Secrets().Text(), Warn: o.Warn}); err != nil {
			return nil, fmt.Errorf("--otlp: %w", err)
		}
	}
	if o.NATS != "" {
		err = h.join()
	} else {
		err = h.serve(ctx)
	}
	if err == nil {
		err = h.prepare(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// join connects to the existing server.
func (h *Hub) join() error {
	a, err := hub.ParseAddress(h.options.NATS)
	if err != nil {
		return err
	}
	if h.options.Creds != "" {
		a.Creds = h.options.Creds
	}
	h.address = a.Servers
	h.conn, err = hub.Dial(a)
	return err
}

// readyTime is how long the server may take to start.
const (
	readyTime = 60 * time.Second
	lookTime  = 100 * time.Millisecond
)

// own locks the folder for this hub.
func (h *Hub) own() (err error) {
	if h.lock, err = os.OpenFile(filepath.Join(h.options.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	switch locked, err := fd.TryLock(h.lock); {
	case err != nil:
		return fmt.Errorf("%s: %w", h.lock.Name(), err)
	case !locked:
		return fmt.Errorf("another hub uses %s: stop it first, or set XDG_STATE_HOME to another folder", h.options.Dir)
	}
	return nil
}

// serve starts the server and connects to it.
func (h *Hub) serve(ctx context.Context) error {
	options, err := h.serverOptions()
	if err != nil {
		return err
	}
	if err := h.own(); err != nil {
		return err
	}
	pair, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	own, err := pair.PublicKey()
	if err != nil {
		return err
	}
	guard := &authority{file: tokensFile(h.options.Dir), open: h.open, own: own}
	options.CustomClientAuthentication = guard
	if h.server, err = nserver.NewServer(options); err != nil {
		return err
	}
	log := logger{&sieve{what: "nats", warn: h.options.Warn}, h.options.Listen, make(chan error, 1)}
	h.sieves = append(h.sieves, log.sieve)
	h.server.SetLogger(log, false, false)
	h.server.Start()
	if err := h.await(ctx, log.fatal); err != nil {
		return err
	}
	if err := guard.admit(h.server); err != nil {
		return err
	}
	h.conn, err = hub.Dial(hub.Address{Servers: "nats://hub", Org: hub.DefaultOrg}, nats.InProcessServer(h.server), nats.Nkey(own, pair.Sign))
	return err
}

// await waits until the server listens.
func (h *Hub) await(ctx context.Context, fatal <-chan error) error {
	for began := time.Now(); ; {
		ready := h.server.ReadyForConnections(lookTime)
		select {
		case err := <-fatal:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		default:
		}
		if ready {
			return nil
		}
		if time.Since(began) > readyTime {
			return fmt.Errorf("the hub cannot listen at %s: see %s", h.options.Listen, h.options.Dir)
		}
	}
}

func (h *Hub) serverOptions() (*nserver.Options, error) {
	o := &h.options
	host, port, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("invalid address to listen on, %q: want HOST:PORT", o.Listen)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("invalid port %q: want a number up to 65535", port)
	}
	listen := int(number)
	if listen == 0 {
		listen = nserver.RANDOM_PORT
	}
	h.open = transport.IsLoopback(host)
	if !h.open && (o.TLSCert == "" || o.TLSKey == "") {
		return nil, fmt.Errorf("%s is not loopback: give --tls-cert and --tls-key, and make tokens with wirectl hub token", o.Listen)
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	options := &nserver.Options{
		ServerName: "wirectl", Host: host, Port: listen, NoSigs: true, NoLog: true, AlwaysEnableNonce: true,
		JetStream: true, StoreDir: filepath.Join(o.Dir, "store"), JetStreamMaxStore: o.MaxBytes + room + room/2 + hub.SharedBytes, JetStreamMaxMemory: room,
		SyncInterval: syncInterval,
	}
	if o.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(o.TLSCert, o.TLSKey)
		if err != nil {
			return nil, fmt.Errorf("the certificate of the hub: %w", err)
		}
		options.TLS, options.TLSConfig = true, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
		options.TLSTimeout = 5
	}
	return options, nil
}

const (
	// room is the size of two buckets.
	room = 256 << 20
	// syncInterval bounds what a power failure may cost.
	syncInterval = 5 * time.Second
)

// prepare creates the stream and the buckets, or updates their limits.
func (h *Hub) prepare(ctx context.Context) error {
	js, err := jetstream.New(h.conn.NATS())
	if err != nil {
		return err
	}
	replicas := 1
	if h.server == nil && h.conn.NATS().ConnectedClusterName() != "" {
		replicas = 3
	}
	for _, cfg := range h.streams(replicas) {
		if err := h.prepareStream(ctx, js, cfg); err != nil {
			return fmt.Errorf("the stream %s: %w", cfg.Name, err)
		}
	}
	if h.index, err = h.startIndex(ctx, js); err != nil { // a hub works without it
		h.options.Warn(fmt.Sprintf("there is no index: %v", err))
	}
	return nil
}

// codeNoPeers is the error code of a cluster with too few servers for the replicas.
const codeNoPeers = 10005

// prepareStream creates a stream, or updates its limits. An existing stream keeps its number
// of replicas.
func (h *Hub) prepareStream(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) error {
	there, err := js.Stream(ctx, cfg.Name)
	switch {
	case err == nil:
		cfg.Replicas = there.CachedInfo().Config.Replicas
		_, err = js.UpdateStream(ctx, cfg)
		return err
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return err
	}
	_, err = js.CreateStream(ctx, cfg)
	if few, ok := errors.AsType[*jetstream.APIError](err); ok && few.ErrorCode == codeNoPeers && cfg.Replicas > 1 {
		h.options.Warn(fmt.Sprintf("the cluster has too few servers for three copies of %s (%v): it keeps one", cfg.Name, err))
		cfg.Replicas = 1
		_, err = js.CreateStream(ctx, cfg)
	}
	return err
}

// streams returns the streams of a hub. They do not allow Rollup, by which a message could
// replace what is stored.
func (h *Hub) streams(replicas int) []jetstream.StreamConfig {
	return []jetstream.StreamConfig{
		{
			Name: hub.Stream, Description: "Sessions that wirectl sends, in segments", Subjects: []string{hub.Segments + ">"},
			Storage: jetstream.FileStorage, Replicas: replicas, AllowDirect: true,
			Discard: jetstream.DiscardOld, MaxBytes: h.options.MaxBytes, MaxAge: h.options.MaxAge,
		},
		hub.SharedStream(replicas),
		hub.BucketStream(hub.Presence, "Sessions that are being sent", replicas, hub.PresenceTime, room/2),
		hub.BucketStream(hub.Summaries, "What the sessions are", replicas, h.options.MaxAge, room/2),
		hub.BucketStream(hub.Facts, "What was found in the sessions", replicas, h.options.MaxAge, room/2),
	}
}

// URL returns the URL of the hub.
func (h *Hub) URL() string {
	if h.server == nil {
		return h.address
	}
	return h.server.ClientURL()
}

// Open reports whether every client may do everything.
func (h *Hub) Open() bool { return h.server != nil && h.open }

// Conn returns the hub's own connection.
func (h *Hub) Conn() *hub.Conn { return h.conn }

// Close stops the hub, and the server that it has started. It may be called again.
func (h *Hub) Close() error {
	if h.index != nil {
		h.index.close()
		h.index = nil
	}
	if h.spans != nil {
		ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
		defer cancel()
		if err := h.spans.Close(ctx); err != nil {
			h.options.Warn("the OpenTelemetry collector: " + err.Error())
		}
		h.spans = nil
	}
	if h.conn != nil {
		h.conn.Close()
	}
	if h.server != nil {
		h.server.Shutdown()
		h.server.WaitForShutdown()
	}
	for _, s := range h.sieves {
		s.sum()
	}
	lock := h.lock
	h.lock = nil
	if lock == nil {
		return nil
	}
	return fd.CloseLocked(lock)
}

// A logger passes on the warnings of the server, and keeps why it does not start.
type logger struct {
	*sieve
	listen string
	fatal  chan error
}

func (l logger) warnf(format string, v ...any)  { l.filter("nats: " + fmt.Sprintf(format, v...)) }
func (l logger) Noticef(string, ...any)         {}
func (l logger) Debugf(string, ...any)          {}
func (l logger) Tracef(string, ...any)          {}
func (l logger) Warnf(format string, v ...any)  { l.warnf(format, v...) }
func (l logger) Errorf(format string, v ...any) { l.warnf(format, v...) }
func (l logger) Fatalf(format string, v ...any) {
	err := fmt.Errorf("the hub did not start: "+format, v...)
	if strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) {
		err = transport.Explain(l.listen, syscall.EADDRINUSE)
	}
	select {
	case l.fatal <- err:
	default:
	}
}

// A sieve passes on a few warnings a minute and counts the rest: clients can cause any number.
type sieve struct {
	what string // they are about
	warn func(string)

	mu    sync.Mutex
	count int // in the current minute
	timer *time.Timer
}

const (
	sieveTime = time.Minute
	maxSaid   = 20 // in that time
)

func (s *sieve) filter(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == 0 {
		s.timer = time.AfterFunc(sieveTime, s.sum)
	}
	if s.count++; s.count <= maxSaid {
		s.warn(text)
	}
}

// sum ends the minute, and tells how many warnings were not passed on.
func (s *sieve) sum() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	if more := s.count - maxSaid; more > 0 {
		s.warn(fmt.Sprintf("%s: %d more warnings were not shown", s.what, more))
	}
	s.count = 0
}

// EndTime is how long a hub may take to stop.
const EndTime = 10 * time.Second

// Run runs a hub until ctx ends. It writes the address, and what to do on other machines.
func Run(ctx context.Context, o Options, out io.Writer) error {
	h, err := Start(ctx, o)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "the hub is at %s\nto send from a machine, or to read there:\n  export %s='%s'\n", h.URL(), hub.Variable, h.pasted()); err != nil {
		return errors.Join(err, h.Close())
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return h.watch(ctx) })
	if o.Page != nil {
		g.Go(func() error { return o.Page(ctx, h.conn, h.Metrics()) })
	}
	return errors.Join(g.Wait(), h.Close())
}

// healthTime is how often the server is asked whether it can store messages.
const healthTime = time.Second

// watch waits until ctx ends or the server stores nothing any more, from which it does not
// recover by itself.
func (h *Hub) watch(ctx context.Context) error {
	for wait.For(ctx, healthTime) == nil {
		if h.server == nil {
			continue
		}
		if s := h.server.Healthz(&nserver.HealthzOptions{}); s.Error != "" {
			return fmt.Errorf("the hub cannot store messages: %s: free space in %s and restart it; lossless senders wait", s.Error, h.options.Dir)
		}
	}
	return nil
}

// pasted returns the address of the hub for other machines.
func (h *Hub) pasted() string {
	if h.server == nil {
		return h.options.NATS
	}
	if h.open {
		return h.URL()
	}
	u, err := url.Parse(h.URL())
	if err != nil {
		return h.URL()
	}
	if ip := net.ParseIP(u.Hostname()); ip == nil || ip.IsUnspecified() {
		name, _ := os.Hostname()
		u.Host = net.JoinHostPort(cmp.Or(name, "HOST"), u.Port())
	}
	return u.String() + "?creds=FILE"
}
