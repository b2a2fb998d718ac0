package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/store"
)

const (
	// frameTime is the time between two updates of a page, and aliveTime between two
	// without news.
	frameTime = time.Second / 30
	aliveTime = 5 * time.Second
	// atOnce is how many frames or exchanges are in one update.
	atOnce = 1000
	// stuckTime is how long a page may take to read an update.
	stuckTime = 30 * time.Second
	// maxAsked bounds a payload that a page requests, in bytes.
	maxAsked = 256 << 10
)

// serveEvents sends updates of a session as server-sent events. Nothing is queued: a slow page
// gets the current state, and the number of frames that it missed.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	o, err := s.shelf.acquire(r.FormValue("session"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer s.shelf.release(o)
	w.Header().Set("Content-Type", "text/event-stream")
	v := &viewer{server: s, session: o, out: w, control: http.NewResponseController(w)}
	_ = v.control.SetReadDeadline(time.Time{})
	v.run(r)
}

// A viewer is a page that looks at a session.
type viewer struct {
	server  *Server
	session *opened
	out     http.ResponseWriter
	control *http.ResponseController
	cursor  store.Cursor
	version int64 // of the store, at the last look
	sentAt  time.Time
	last    about
	started bool
	more    bool // there are more frames than in the last update
}

// run sends updates until the page has gone.
func (v *viewer) run(r *http.Request) {
	tick := time.Tick(frameTime)
	for {
		if v.look() != nil {
			return
		}
		if v.more {
			continue
		}
		select {
		case <-tick:
		case <-r.Context().Done():
			return
		}
	}
}

// look sends what is new.
func (v *viewer) look() error {
	now := time.Now()
	alive := now.Sub(v.sentAt) > aliveTime
	version := v.session.store.Version()
	if v.started && version == v.version && !v.more && !alive {
		return nil
	}
	v.version = version
	about, c := v.session.about(v.server.options.Control, now)
	about.Repeats = v.server.options.Control && v.server.options.Repeat != nil && slices.ContainsFunc(about.Protocols, func(name string) bool {
		name, _, _ = strings.Cut(name, "/")
		return slices.Contains(v.server.options.Speaks, name)
	})
	changes := v.session.store.Follow(&v.cursor, atOnce)
	v.more = changes.More
	if changes.Empty() && v.started && !alive && sameAbout(about, v.last) {
		return nil
	}
	v.sentAt, v.last = now, about
	d := delta{About: about, Marks: changes.Marks, Skipped: changes.Skipped, Missed: changes.Missed}
	if !v.started {
		d.Reset, v.started = true, true
		if v.server.options.Control {
			d.Secret = v.server.guard.command
		}
	}
	d.Findings = findingsOf(changes.Findings)
	d.Heads = headsOf(changes.Heads, c)
	rest := changes.Exchanges
	for len(rest) > atOnce {
		d.Exchanges = exchangesOf(rest[:atOnce], c)
		if err := v.tell(&d); err != nil {
			return err
		}
		rest, d = rest[atOnce:], delta{About: about}
	}
	d.Exchanges = exchangesOf(rest, c)
	if len(changes.Frames) > 0 {
		d.Frames = &frames{}
		for i := range changes.Frames {
			d.Frames.addFrame(&changes.Frames[i], c)
		}
	}
	return v.tell(&d)
}

// sameAbout reports whether two are the same except for the time.
func sameAbout(a, b about) bool {
	a.Now, b.Now = 0, 0
	return reflect.DeepEqual(a, b)
}

func exchangesOf(list []store.Exchange, c clock) (out []exchange) {
	for i := range list {
		out = append(out, exchangeOf(&list[i], c))
	}
	return out
}

func findingsOf(list []store.Finding) (out []finding) {
	for i := range list {
		f := finding{list[i].Finding, list[i].Do}
		f.Message = text(f.Message)
		out = append(out, f)
	}
	return out
}

// tell sends an event.
func (v *viewer) tell(d *delta) error {
	_ = v.control.SetWriteDeadline(time.Now().Add(stuckTime))
	if _, err := v.out.Write([]byte("data: ")); err != nil {
		return err
	}
	if err := jsonscan.NewEncoder(v.out).Encode(d); err != nil { // a line
		return err
	}
	if _, err := v.out.Write([]byte("\n")); err != nil {
		return err
	}
	return v.control.Flush()
}

// ofSession returns a handler of requests about an open session.
func (s *Server) ofSession(serve func(w http.ResponseWriter, r *http.Request, o *opened)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if o := s.shelf.get(r.FormValue("session")); o != nil {
			serve(w, r, o)
		} else {
			http.Error(w, "no page shows this session", http.StatusNotFound)
		}
	}
}

// jqTime is how long a jq filter may take.
const jqTime = time.Second

// serveFrame answers with the payload of a frame, with that of the answer that it ends, or with what
// a jq filter makes of it.
func (s *Server) serveFrame(w http.ResponseWriter, r *http.Request, o *opened) {
	seq, err := strconv.ParseInt(r.FormValue("seq"), 10, 64)
	if err != nil {
		http.Error(w, "seq: want the number of a frame", http.StatusBadRequest)
		return
	}
	d := (*store.Detail)(nil)
	if r.FormValue("answer") != "" {
		d = o.store.AnswerUpTo(seq)
	} else {
		d = o.store.Detail(seq)
	}
	switch {
	case d == nil:
		http.Error(w, "this frame is no longer kept", http.StatusNotFound)
		return
	case d.Err != "":
		http.Error(w, d.Err, http.StatusNotFound)
		return
	}
	payload, form := d.Payload, d.JSON
	if d.Gap {
		payload = d.Raw
	}
	if filter := r.FormValue("jq"); filter != "" {
		if payload, err = s.filtered(r.Context(), filter, form); err != nil {
			http.Error(w, text(err.Error()), http.StatusBadRequest)
			return
		}
		form = payload
	}
	answer(w, map[string]any{
		"payload": shown(payload, form, maxAsked), "wire": d.Wire, "offset": d.Offset, "raw": len(d.Raw),
		"seq": d.Seq, "kind": text(d.Kind), "size": d.Size, "joined": d.Joined, "missing": d.Missing, "part": d.Part,
	})
}

// filtered returns the output of a jq filter for a payload in JSON, a line for each result.
func (s *Server) filtered(ctx context.Context, filter string, form []byte) ([]byte, error) {
	jq, err := query.CompileJQ(filter, nil)
	if err != nil {
		return nil, err
	}
	if form == nil {
		return nil, errors.New("jq: this payload has no JSON form")
	}
	s.filters.Lock()
	defer s.filters.Unlock()
	ctx, cancel := context.WithTimeout(ctx, jqTime)
	defer cancel()
	out, err := jq.Append(ctx, nil, form)
	if len(out) > 0 && errors.Is(err, query.ErrHalt) {
		err = nil
	}
	return bytes.TrimSpace(out), err
}

// serveAsCommand answers with a command for a shell that sends a request again, and with what is
// known of the request.
func (s *Server) serveAsCommand(w http.ResponseWriter, r *http.Request, o *opened) {
	seq, _ := strconv.ParseInt(r.FormValue("seq"), 10, 64)
	request, err := o.store.Request(seq)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	address := ""
	if isAddress(request.Server) {
		address = request.Server
	}
	answer(w, map[string]any{
		"command": request.Command(s.options.Speaks), "method": text(request.Method),
		"refuses": request.Refuses(s.options.Speaks), "server": text(request.Server), "address": address,
	})
}

// findTime is how long one search of the frames may take.
const findTime = 50 * time.Millisecond

// serveFound answers with the numbers of the frames that contain a text, from a number on.
func serveFound(w http.ResponseWriter, r *http.Request, o *opened) {
	from, err := strconv.ParseInt(r.FormValue("from"), 10, 64)
	if err != nil {
		http.Error(w, "from: want the number of a frame", http.StatusBadRequest)
		return
	}
	found, next := o.store.Containing(r.FormValue("text"), from, findTime)
	answer(w, map[string]any{"found": found, "next": next})
}

func serveStats(w http.ResponseWriter, _ *http.Request, o *opened) {
	view := o.store.Overview()
	answer(w, figuresOf(o.store, clockOf(&view)))
}

func serveContexts(w http.ResponseWriter, _ *http.Request, o *opened) {
	answer(w, contextsOf(o.store))
}

func servePeers(w http.ResponseWriter, _ *http.Request, o *opened) {
	view := o.store.Overview()
	answer(w, peersOf(o.store, clockOf(&view)))
}

// schemes are those of the addresses that a request may be sent to from a page.
var schemes = []string{"http", "https", "ws", "wss", "tcp", "tls", "quic", "grpc", "grpcs", "unix"}

// isAddress reports whether a server is an address, so that sending it something starts no program:
// neither a command line does, nor a scheme that stands for a connector, and no word passes for a flag.
func isAddress(server string) bool {
	u, err := url.Parse(server)
	return err == nil && !strings.ContainsFunc(server, unicode.IsSpace) && slices.Contains(schemes, u.Scheme) && strings.HasPrefix(server, u.Scheme+"://") && (u.Host != "" || u.Path != "")
}

// serveRepeat sends a request of a record to the server that the user names, and answers with its
// answer. A page starts no program: a browser is too near to other people's pages for that.
func (s *Server) serveRepeat(w http.ResponseWriter, r *http.Request, o *opened) {
	var c command
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxCommand)).Decode(&c); err != nil {
		http.Error(w, "want a command: "+err.Error(), http.StatusBadRequest)
		return
	}
	server := strings.TrimSpace(c.Text)
	request, err := o.store.Request(c.Seq)
	switch {
	case s.options.Repeat == nil:
		err = errors.New("this page sends no requests: wirectl monitor --web --control does, on this machine")
	case err != nil:
	case request.Refuses(s.options.Speaks) != "":
		err = errors.New(request.Refuses(s.options.Speaks))
	case !isAddress(server):
		err = errors.New("want an address, such as http://127.0.0.1:8080/mcp: a page starts no program; R in wirectl monitor does")
	}
	said := ""
	if err == nil {
		said, err = s.options.Repeat(r.Context(), request.Args(server))
	}
	if err != nil {
		http.Error(w, text(err.Error()), http.StatusConflict)
		return
	}
	answer(w, map[string]any{"answer": shown([]byte(said), nil, maxAsked)})
}

// maxCommand is the size of a command, which may have a payload.
const maxCommand = 4 << 20

// A command is a change of the traffic that a page requests.
type command struct {
	Do    string `json:"do"`
	Conn  int    `json:"conn"`
	ID    string `json:"id"`
	Seq   int64  `json:"seq"`
	Where string `json:"where"`
	Held  int64  `json:"held"`
	Text  string `json:"text"`
}

// mayCommand admits commands. A page of another server can neither read the secret nor send
// the header.
func (s *Server) mayCommand(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !s.options.Control:
			http.Error(w, "this page is read-only: start it with --control", http.StatusForbidden)
		case !Same(r.Header.Get("Wirectl-Secret"), s.guard.command) || r.Header.Get("Origin") == "":
			http.Error(w, "the page has no such command", http.StatusForbidden)
		default:
			next(w, r)
		}
	}
}

// serveCommand changes the traffic.
func serveCommand(w http.ResponseWriter, r *http.Request, o *opened) {
	var c command
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxCommand)).Decode(&c); err != nil {
		http.Error(w, "want a command: "+err.Error(), http.StatusBadRequest)
		return
	}
	if err := o.do(&c); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

var errFixed = errors.New("this session is read-only: only the tap of a relay takes commands")

// do runs a command.
func (o *opened) do(c *command) (err error) {
	w := o.control()
	if w == nil {
		return errFixed
	}
	switch c.Do {
	case "cancel":
		return w.Cancel(c.Conn, c.ID)
	case "resend":
		return w.Resend(c.Seq)
	case "hold":
		return w.Hold(c.Where)
	case "release":
		err = w.Release(c.Held)
	case "drop":
		err = w.Drop(c.Held)
	case "edit":
		err = o.edit(w, c)
	default:
		return fmt.Errorf("%q is not a command", c.Do)
	}
	if err == nil {
		o.store.Let(c.Held)
	}
	return err
}

// edit sends a held frame with another text.
func (o *opened) edit(w *store.Wire, c *command) error {
	waiting := o.store.Overview().Held
	i := slices.IndexFunc(waiting, func(h store.Held) bool { return h.Number == c.Held })
	if i < 0 {
		return fmt.Errorf("frame %d is no longer held", c.Held)
	}
	payload, err := waiting[i].Edited(c.Text)
	if err == nil {
		err = w.Edit(c.Held, payload)
	}
	return err
}
