package pin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/contract"
)

// A Mode says what is done when the tools of a server have changed.
type Mode string

// The modes; "" pins nothing.
const (
	Warn   Mode = "warn"
	Refuse Mode = "refuse" // answer tools/list with an error instead
)

// Modes lists all modes.
var Modes = []Mode{Warn, Refuse}

// A Watch compares the lists of tools that pass with the pins, and makes those that are missing.
type Watch struct {
	Mode Mode

	store *Store
	mcp   protocol.Protocol
	say   func(text string)

	mu      sync.Mutex
	clients map[string]string   // the names that they give themselves, by where they are
	asked   map[string]*request // requests for lists, by where they are and their ids
	lists   map[string]*listing // by the ids of pins and where they are
	hosts   map[string]bool     // of servers over HTTP that were asked
	made    map[string]bool     // the pins that this watch has made
	said    map[string]bool
}

// A request is one for a page of a list.
type request struct {
	place          Place
	server, client string
	id             json.RawMessage
	goesOn         bool // it is for a later page
	// answered requests stay: a client may pass over an answer that it does not understand, and take the next one.
	answered bool
}

// A listing is a list of tools, as far as its pages are known.
type listing struct {
	request
	tools []contract.Item
	size  int
	isCut bool // more pages follow
}

// The bounds of what is remembered.
const (
	maxAsked    = 1 << 12
	maxListings = 1 << 10
	maxListing  = 64 << 20 // bytes
	maxSaid     = 1 << 10
)

// NewWatch returns a watch of sessions of MCP. It calls say, once for each change, with what has changed.
func NewWatch(store *Store, mode Mode, mcp protocol.Protocol, say func(text string)) *Watch {
	return &Watch{
		Mode: mode, store: store, mcp: mcp, say: say,
		clients: map[string]string{}, asked: map[string]*request{}, lists: map[string]*listing{}, hosts: map[string]bool{}, made: map[string]bool{}, said: map[string]bool{},
	}
}

// A Place is where a message travels.
type Place struct {
	Conn, Stream int
	Server       string // see [Command]
	// Shared means that the answer may come on another connection, as over HTTP.
	Shared bool
}

func (p Place) key() string {
	if p.Shared {
		return p.Server
	}
	return strconv.Itoa(p.Conn)
}

// host is that of the server: in the older transport, an answer comes from another path than its request went to.
func (p Place) host() string {
	u, err := url.Parse(p.Server)
	if err != nil {
		return p.Server
	}
	return u.Scheme + "://" + u.Host
}

func (p Place) exact() string { return strconv.Itoa(p.Conn) + " " + strconv.Itoa(p.Stream) }

// A Drift is what a frame shows of a change.
type Drift struct {
	Note capture.Record // for records
	// Instead is the payload for the client instead of the frame's; nil leaves that as it is.
	Instead []byte
}

// See sees a frame, which it does not keep, with its payload. The result is nil unless the frame lists tools that
// have changed.
func (w *Watch) See(at Place, f *frame.Frame, payload []byte) *Drift {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case f.Dir == frame.C2U && !f.Gap:
		w.ask(at, payload)
	case f.Dir != frame.U2C || len(w.asked) == 0 || at.Shared && !w.hosts[at.host()]:
	case !f.Gap && slices.ContainsFunc(listWords, func(word string) bool { return bytes.Contains(bytes.ToLower(payload), []byte(word)) }):
		return w.checkAnswers(at, payload)
	case !f.Gap:
	case len(f.Raw) > hugeGap:
		return w.differsFromAny("an answer is too large to be compared with the pin")
	}
	return nil
}

// hugeGap is the size of a gap that may be a frame over the limit.
const hugeGap = 64 << 10

// listWords are texts of which a list of tools has one, whatever its spelling.
var listWords = []string{"tools", `\u00`}

// differsFromAny is differs for an answer that cannot be read, to whatever was asked.
func (w *Watch) differsFromAny(about string) *Drift {
	for _, r := range w.asked {
		if !r.answered {
			r.answered = true
			return w.differs(r, nil, about, "")
		}
	}
	return nil
}

func (w *Watch) ask(at Place, payload []byte) {
	var m protocol.Message
	for item := range protocol.Items(payload) {
		if w.mcp.Parse(item, &m) != nil {
			continue
		}
		if name := all.ClientName(&m); name != "" && (len(w.clients) < maxAsked || w.clients[at.key()] != "") {
			w.clients[at.key()] = name
		}
		if m.Phase != protocol.Open || string(m.Kind) != contract.Tools.Method || m.ID.IsZero() {
			continue
		}
		if len(w.asked) >= maxAsked {
			maps.DeleteFunc(w.asked, func(_ string, r *request) bool { return r.answered })
		}
		if len(w.asked) >= maxAsked {
			clear(w.asked)
		}
		_, goesOn := jsonscan.Get(item, "params", "cursor")
		r := &request{place: at, server: at.Server, client: w.clients[at.key()], id: bytes.Clone(m.ID.Text), goesOn: goesOn}
		id, _ := decoded(m.ID.Text)
		w.asked[at.exact()+" "+nameOf(id)] = r
		if at.Shared {
			w.asked[at.key()+" "+nameOf(id)] = r
			if key := at.host() + "/ " + nameOf(id); w.asked[key] == nil || w.asked[key].server == r.server || w.asked[key].answered {
				w.asked[key] = r
			} else { // either may be answered
				delete(w.asked, key)
			}
			w.hosts[at.host()] = true
		}
	}
}

// notNumbers are words that JSON does not have, and that clients in Python read. Those in strings are not replaced.
var notNumbers = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b`)

// decoded returns a JSON value as clients read it: of members with the same name the last one counts.
func decoded(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err = d.Decode(&v); err == nil || !bytes.Contains(text, []byte("NaN")) && !bytes.Contains(text, []byte("Infinity")) {
		return v, err
	}
	text = notNumbers.ReplaceAllFunc(text, func(word []byte) []byte {
		if word[0] == '"' {
			return word
		}
		return []byte("null")
	})
	d = json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// folded yields the members of this name, in capitals or not: clients in Go take either.
func folded[T any](of any, name string) iter.Seq[T] {
	return func(yield func(T) bool) {
		m, _ := of.(map[string]any)
		for key, value := range m {
			if v, ok := value.(T); ok && strings.EqualFold(key, name) && !yield(v) {
				return
			}
		}
	}
}

// nameOf returns an id so that those that clients take for equal are equal.
func nameOf(id any) string {
	switch id := id.(type) {
	case json.Number:
		n, _ := id.Float64()
		return "n" + strconv.FormatFloat(n, 'g', -1, 64)
	case string:
		return "s" + id
	}
	return ""
}

// checkAnswers handles a payload of a server while a list is open.
func (w *Watch) checkAnswers(at Place, payload []byte) (drift *Drift) {
	if _, err := decoded(payload); err != nil && strings.Contains(err.Error(), "max depth") { // which some clients read
		return w.differsFromAny("an answer is nested too deeply to be compared with the pin")
	}
	var out []byte
	isBatch, changed := len(bytes.TrimSpace(payload)) > 0 && bytes.TrimSpace(payload)[0] == '[', false
	for item := range protocol.Items(payload) {
		d := w.checkAnswer(at, item)
		if d != nil {
			drift = d
		}
		if len(out) > 0 {
			out = append(out, ',')
		}
		if d != nil && d.Instead != nil {
			out, changed = append(out, d.Instead...), true
		} else {
			out = append(out, item...)
		}
	}
	if changed && isBatch {
		drift.Instead = slices.Concat([]byte("["), out, []byte("]"))
	} else if changed {
		drift.Instead = out
	}
	if drift != nil && changed {
		note, _ := tap.ParseNote(&drift.Note)
		note.Payload = bytes.Clone(payload)
		drift.Note = note.Record()
	}
	return drift
}

// checkAnswer handles a message of a server.
func (w *Watch) checkAnswer(at Place, text []byte) *Drift {
	v, err := decoded(text)
	if err != nil {
		return nil // such as a line of a log
	}
	var tools []any
	isList, isCut := false, false
	for result := range folded[any](v, "result") {
		for list := range folded[[]any](result, "tools") {
			tools, isList = append(tools, list...), true
		}
		for next := range folded[string](result, "nextCursor") {
			isCut = isCut || next != ""
		}
	}
	m, _ := v.(map[string]any)
	_, isCall := m["method"] // with an id of the server's own
	r := w.askedBy(at, v, isList)
	if r == nil || isCall && !isList {
		return nil
	}
	r.answered = true
	if !isList {
		return nil // such as an error
	}
	var items []contract.Item
	for _, tool := range tools {
		definition := unfolded(tool)
		for name := range folded[string](tool, "name") {
			if text, _ := json.Marshal(definition); name != "" { // it was JSON
				items = append(items, contract.Item{Name: name, JSON: text})
			}
		}
	}
	return w.page(r, items, isCut)
}

// unfolded returns the definition of a tool with the names of members as usual. One that is there in several spellings is
// a list of them.
func unfolded(tool any) map[string]any {
	definition, _ := tool.(map[string]any)
	all := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(definition)) {
		name, value := key, definition[key]
		if i := slices.IndexFunc(contract.Members, func(name string) bool { return strings.EqualFold(name, key) }); i >= 0 {
			name = contract.Members[i]
		}
		if before, again := all[name]; again {
			value = []any{before, value}
		}
		all[name] = value
	}
	return all
}

// askedBy returns the request that an answer is for, as clients see it: the SDKs take an id "1" for 1.
func (w *Watch) askedBy(at Place, answer any, isList bool) *request {
	places := []string{at.exact() + " "}
	if at.Shared && isList {
		places = append(places, at.key()+" ", at.host()+"/ ")
	}
	for _, place := range places {
		isNumber := false
		for id := range folded[any](answer, "id") {
			if r := w.asked[place+nameOf(id)]; r != nil {
				return r
			}
			_, is := id.(json.Number)
			isNumber = isNumber || is
		}
		for key, r := range w.asked {
			if isList && !isNumber && strings.HasPrefix(key, place+"n") {
				return r
			}
		}
	}
	return nil
}

// page compares another page of a list.
func (w *Watch) page(r *request, items []contract.Item, isCut bool) *Drift {
	pinID := idOf(r.server, r.client)
	key := pinID + " " + r.place.key()
	l := w.lists[key]
	if l == nil || !r.goesOn {
		if l == nil && len(w.lists) >= maxListings {
			w.finish()
			clear(w.lists)
		}
		l = &listing{}
		w.lists[key] = l
	}
	l.request, l.isCut = *r, isCut
	for _, it := range items {
		l.size += len(it.JSON)
		l.tools = append(l.tools, it)
	}
	if l.size > maxListing {
		l.tools = nil
		return w.differs(r, nil, "the list of tools is too large to be compared with its pin", "")
	}
	for {
		p, _, err := w.store.readPin(pinID, pinExtension)
		switch {
		case errors.Is(err, fs.ErrNotExist) && twice(l.tools) != nil:
			return w.differs(r, twice(l.tools), "a tool is listed twice, so that the list cannot be pinned", "")
		case errors.Is(err, fs.ErrNotExist) && isCut:
			return nil // its end is pinned with it
		case errors.Is(err, fs.ErrNotExist):
			if err = w.pin(l); errors.Is(err, fs.ErrExist) {
				continue
			} else if w.made[pinID] = err == nil; err != nil {
				w.sayOnce("the tools of " + r.server + " are not pinned: " + err.Error())
			}
			return nil
		case err != nil:
			return w.differs(r, nil, "the pin of the tools cannot be read", w.accepts(l, nil)+": "+err.Error())
		}
		changes := l.drift(p)
		if w.made[pinID] && !slices.ContainsFunc(changes, func(c contract.Change) bool { return !isAdded(c) }) && len(changes) > 0 {
			// Some servers list what they have before they know their client, and then the rest.
			if w.store.write(pinID, l.baseline(p)) == nil {
				return nil
			}
		}
		if len(changes) == 0 {
			return nil
		}
		return w.differs(r, changes, "the tools have changed since they were pinned: "+brief(changes), w.accepts(l, p))
	}
}

// accepts keeps a list that differs from its pin, which may be unreadable, and says how to accept it.
func (w *Watch) accepts(l *listing, p *contract.Baseline) string {
	id := idOf(l.server, l.client)
	digest, err := w.store.change(id, l.baseline(p))
	if err != nil {
		return "it cannot be kept for wirectl baseline accept: " + err.Error()
	}
	return "wirectl baseline diff " + id + " shows it, wirectl baseline accept " + id + ":" + digest + " accepts it"
}

// pin makes the pin of a list.
func (w *Watch) pin(l *listing) error {
	return w.store.create(idOf(l.server, l.client), l.baseline(nil))
}

// baseline returns what is to be pinned of a list. Other tools of the pin stay.
func (l *listing) baseline(p *contract.Baseline) *contract.Baseline {
	b := &contract.Baseline{Server: l.server, Client: l.client, Tools: slices.Clone(l.tools)}
	if p != nil {
		b.Tools = append(b.Tools, p.Tools...)
	}
	seen := map[string]bool{}
	b.Tools = slices.DeleteFunc(b.Tools, func(it contract.Item) bool {
		again := seen[it.Name]
		seen[it.Name] = true
		return again
	})
	return b
}

// drift returns how a list differs from the pin. It may lack tools: they may be on another page, or be offered only
// at times, and what is not offered does no harm.
func (l *listing) drift(p *contract.Baseline) []contract.Change {
	changes := append(twice(l.tools), p.Drift(l.tools)...)
	return slices.DeleteFunc(changes, func(c contract.Change) bool { return len(c.Path) == 0 && c.A != nil && c.B == nil })
}

func isAdded(c contract.Change) bool { return len(c.Path) == 0 && c.A == nil && c.B != nil }

// twice returns that a tool is listed more than once: a client may take either.
func twice(tools []contract.Item) []contract.Change {
	seen := map[string]bool{}
	for _, it := range tools {
		if seen[it.Name] {
			return []contract.Change{{Class: contract.Breaking, Text: "tool " + contract.Plain(it.Name) + " is listed twice"}}
		}
		seen[it.Name] = true
	}
	return nil
}

// errorCode is that of the errors of servers in JSON-RPC.
const errorCode = -32000

// differs tells what is wrong with a list, and returns it. What is about has nothing that the server has written.
func (w *Watch) differs(r *request, changes []contract.Change, about, more string) *Drift {
	if more != "" {
		more = "; " + more
	}
	w.sayOnce(r.server + ": " + about + more)
	note := tap.Note{Tap: tap.Drift, Pin: idOf(r.server, r.client), Conn: r.place.Conn, Dir: frame.U2C.String()}
	alike := map[string][]contract.Change{}
	for _, c := range changes {
		kind := c.Severity().String() + " " + string(c.Class)
		alike[kind] = append(alike[kind], c)
	}
	for _, kind := range slices.Sorted(maps.Keys(alike)) {
		note.Changes = append(note.Changes, kind+": "+brief(alike[kind]))
	}
	if len(changes) == 0 {
		note.Changes = []string{session.Error.String() + " " + about}
	}
	d := &Drift{}
	if w.Mode == Refuse {
		note.How = tap.Refused
		if before, _, ok := strings.Cut(more, ": "); ok { // without paths
			more = before
		}
		d.Instead = jsonscan.MustMarshal(struct {
			Version string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Error   any             `json:"error"`
		}{"2.0", r.id, map[string]any{"code": errorCode, "message": "wirectl: " + about + more}})
	}
	d.Note = note.Record()
	return d
}

// sayOnce says a text once.
func (w *Watch) sayOnce(text string) {
	if !w.said[text] && len(w.said) < maxSaid {
		w.said[text] = true
		w.say(text)
	}
}

// Close pins the lists that were not read to their ends.
func (w *Watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finish()
}

func (w *Watch) finish() {
	for _, l := range w.lists {
		if !l.isCut || twice(l.tools) != nil || len(l.tools) == 0 {
			continue
		}
		if err := w.pin(l); err != nil && !errors.Is(err, fs.ErrExist) {
			w.sayOnce("the tools of " + l.server + " are not pinned: " + err.Error())
		}
	}
}

// A writer passes on the records of one server's session, with notes on changes.
type writer struct {
	watch  *Watch
	server string
	to     func(*capture.Record)
}

// Writer returns a writer that sees the records of one server, and passes them on with notes.
func (w *Watch) Writer(server string, to func(*capture.Record)) capture.Writer {
	return &writer{w, server, to}
}

func (w *writer) Write(r *capture.Record) error {
	w.to(r)
	if r.Kind != capture.Frame {
		return nil
	}
	if d := w.watch.See(Place{Conn: r.Conn, Server: w.server}, &r.Frame, r.Payload()); d != nil {
		d.Note.Conn, d.Note.Dir = r.Conn, r.Dir
		w.to(&d.Note)
	}
	return nil
}

// Answer is [Watch.See] for a frame that may still be replaced; see relay.GateConfig.
func (w *Watch) Answer(server string) func(f *frame.Frame) (note *capture.Record, instead []byte) {
	return func(f *frame.Frame) (*capture.Record, []byte) {
		d := w.See(Place{Conn: f.Conn, Server: server}, f, f.Payload())
		if d == nil {
			return nil, nil
		}
		return &d.Note, d.Instead
	}
}
