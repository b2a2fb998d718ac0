// Package web shows sessions in a browser: live, from a server on this machine, or as a
// report, one HTML page that needs nothing else. Both are the same page with the same
// script: lanes of operations, frames, findings and statistics.
//
// Data from the wire is shown as text only, never as markup or script. A content security
// policy enforces this: the browser runs only the page's own script, which connects only to
// its own server.
package web

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"html"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/context"
	"github.com/wirectl/wirectl/session/stats"
	"github.com/wirectl/wirectl/store"
)

// A delta is an update of the page. A report has one with the whole session; a live page gets
// one after the other. Times are microseconds since the first frame, or frame numbers if times
// are unknown.
type delta struct {
	Reset     bool             `json:"reset,omitempty"`  // forget all before
	Secret    string           `json:"secret,omitempty"` // for commands
	About     about            `json:"about"`
	Frames    *frames          `json:"frames,omitempty"`
	Exchanges []exchange       `json:"exchanges,omitempty"`
	Heads     []head           `json:"heads,omitempty"`
	Findings  []finding        `json:"findings,omitempty"`
	Marks     map[int64]uint32 `json:"marks,omitempty"` // exchanges of frames that were sent before them
	Stats     *figures         `json:"stats,omitempty"`
	Peers     *peers           `json:"peers,omitempty"`
	Contexts  *contexts        `json:"contexts,omitempty"`
	Skipped   int64            `json:"skipped,omitempty"` // frames that the page was too slow for
	Missed    int64            `json:"missed,omitempty"`  // the same for exchanges
}

// about is the summary of a session.
type about struct {
	Title     string   `json:"title"`
	View      string   `json:"view,omitempty"` // that opens first
	Protocols []string `json:"protocols"`
	Timed     bool     `json:"timed"`
	Live      bool     `json:"live,omitempty"`
	Run       bool     `json:"run,omitempty"`   // the session of a run
	Joins     bool     `json:"joins,omitempty"` // of several wires
	Waiting   string   `json:"waiting,omitempty"`
	Begun     int64    `json:"begun,omitempty"` // milliseconds since 1970
	Last      float64  `json:"last"`
	Now       float64  `json:"now,omitempty"` // 0 unless the session is live
	Frames    int64    `json:"frames"`
	Bytes     int64    `json:"bytes"`
	Exchanges int64    `json:"exchanges"`
	Open      int64    `json:"open"`
	Failed    int64    `json:"failed"`
	Findings  int64    `json:"findings"`
	Dropped   int64    `json:"dropped,omitempty"` // frames
	Gone      int64    `json:"gone,omitempty"`    // exchanges
	Lost      int64    `json:"lost,omitempty"`    // frames, by the source
	Untold    int64    `json:"untold,omitempty"`  // frames without their payload
	Altered   bool     `json:"altered,omitempty"`
	Commands  bool     `json:"commands,omitempty"` // the traffic can be changed
	Repeats   bool     `json:"repeats,omitempty"`  // requests can be sent to a server
	Error     string   `json:"error,omitempty"`
	Notice    string   `json:"notice,omitempty"`
	Held      int      `json:"held,omitempty"`
	First     *held    `json:"first,omitempty"` // the first held frame
}

// held is a frame that waits on the wire.
type held struct {
	Number int64  `json:"number"`
	Dir    int    `json:"dir"`
	Text   string `json:"text"`
}

// frames are columns, because rows would repeat their names.
type frames struct {
	Seq     []int64   `json:"seq"`
	Time    []float64 `json:"time"`
	Dir     []int     `json:"dir"`
	Conn    []int     `json:"conn"`
	Kind    []string  `json:"kind"`
	ID      []string  `json:"id"`
	Size    []int64   `json:"size"`
	Of      []uint32  `json:"of"` // mark of the exchange, 0 if none
	Says    []string  `json:"says"`
	Payload []string  `json:"payload,omitempty"` // JSON, or bytes in hexadecimal after "hex:"
}

type exchange struct {
	Mark     uint32  `json:"mark"`
	ID       string  `json:"id"`
	Kind     string  `json:"kind"`
	Name     string  `json:"name,omitempty"`
	Version  string  `json:"version,omitempty"`
	Reason   string  `json:"reason,omitempty"` // of its cancel, or why its answer is missing
	Why      string  `json:"why,omitempty"`    // it failed: the status, the code and the text of the error
	Args     string  `json:"args,omitempty"`   // the beginning of the arguments of the request
	Of       uint32  `json:"of,omitempty"`     // mark of its operation; 0 if it is one
	Guessed  bool    `json:"guessed,omitempty"`
	Run      string  `json:"run,omitempty"`  // the id of the run that it belongs to
	Turn     uint32  `json:"turn,omitempty"` // the id of its turn, and of the agent right above it
	Head     uint32  `json:"head,omitempty"`
	Wire     string  `json:"wire,omitempty"`
	Own      string  `json:"own,omitempty"` // what the agent does with it for itself
	Role     string  `json:"role,omitempty"`
	Waits    []span  `json:"waits,omitempty"` // when nothing in it was at work
	Path     []span  `json:"path,omitempty"`  // its part of the critical path
	Place    string  `json:"place,omitempty"` // in the run
	Edge     string  `json:"edge,omitempty"`  // to what it stands below, if that is on another wire
	Asks     string  `json:"asks,omitempty"`
	Under    uint32  `json:"under,omitempty"`    // mark of what it stands below in its run
	Inferred bool    `json:"inferred,omitempty"` // its outcome
	Usage    []int64 `json:"usage,omitempty"`    // tokens: input, cached, output; the cost, in millionths of a dollar; and how many more tokens there may be
	Model    *model  `json:"model,omitempty"`
	Conn     int     `json:"conn"`
	Dir      uint8   `json:"dir"`
	First    int64   `json:"first"` // frame
	Opened   float64 `json:"opened"`
	End      float64 `json:"end,omitempty"`  // of its lane: with what came after its end; not of an open one
	Took     float64 `json:"took,omitempty"` // until it was over; not of an open one
	From     float64 `json:"from,omitempty"` // of its parts
	To       float64 `json:"to,omitempty"`
	Asked    float64 `json:"asked,omitempty"`
	Outcome  string  `json:"outcome"`
	State    string  `json:"state"` // a word without spaces
	Open     bool    `json:"open,omitempty"`
	Cancel   bool    `json:"cancel,omitempty"`
	Parts    int64   `json:"parts,omitempty"`
	After    int64   `json:"after,omitempty"`
	Bytes    int64   `json:"bytes"`
	Findings int     `json:"findings,omitempty"`
	Refusal  string  `json:"refusal,omitempty"` // why it cannot be cancelled while it is open

	// Only in a report; a live page asks for them.
	Command  string `json:"command,omitempty"`  // for a shell
	Answer   string `json:"answer,omitempty"`   // of a model, joined
	Answered int64  `json:"answered,omitempty"` // the frame of its answer, if it is not the last
	Joined   int    `json:"events,omitempty"`   // from so many events
	Missing  bool   `json:"missing,omitempty"`
	Part     bool   `json:"part,omitempty"` // the end of its answer is missing
}

// A span is a time. Its end is -1 while it goes on.
type span [2]float64

// A head is a turn of the user, or an agent, in the tree of a run.
type head struct {
	Key     uint32  `json:"key"`
	Agent   bool    `json:"agent,omitempty"`
	Name    string  `json:"name"`
	Turn    uint32  `json:"turn,omitempty"`
	Under   uint32  `json:"under,omitempty"`
	Opened  float64 `json:"opened"`
	End     float64 `json:"end"`
	Outcome string  `json:"outcome"`
	State   string  `json:"state"`
	Open    bool    `json:"open,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	Waits   []span  `json:"waits,omitempty"`
	OnPath  bool    `json:"onPath,omitempty"`
	Stops   []stop  `json:"stops,omitempty"` // how far its cancel went
}

// A stop is what a cancel did to an exchange.
type stop struct {
	Mark   uint32  `json:"mark"`
	Name   string  `json:"name"`
	Wire   string  `json:"wire,omitempty"`
	Opened float64 `json:"opened"`
	At     float64 `json:"at,omitempty"`
	Ended  float64 `json:"ended,omitempty"`
	Text   string  `json:"text"`
}

func spansOf(list []store.Span, c clock) (out []span) {
	for _, s := range list {
		at := span{c.since(s.From), -1}
		if s.To != 0 {
			at[1] = c.since(s.To)
		}
		out = append(out, at)
	}
	return out
}

func headsOf(list []store.Head, c clock) (out []head) {
	for i := range list {
		h := &list[i]
		x := head{
			Key: h.ID, Agent: h.Agent, Name: text(h.Name), Turn: h.Turn, Under: h.Under, Opened: c.since(h.Opened), End: c.since(h.Over),
			Outcome: h.Outcome.String(), State: stateOf(h.Outcome.String(), h.Outcome), Open: h.GoesOn(), Reason: text(h.Reason), Waits: spansOf(h.Waits, c), OnPath: h.OnPath,
		}
		if h.GoesOn() {
			x.Outcome, x.State = "in flight", "in-flight"
		}
		for _, s := range h.Stops {
			x.Stops = append(x.Stops, stop{s.Mark, text(s.Name), text(s.Wire), c.since(s.Opened), c.since(s.At), c.since(s.Ended), text(s.Text)})
		}
		out = append(out, x)
	}
	return out
}

// stateOf returns the word for an outcome as a page shows it, without spaces.
func stateOf(shown string, o session.Outcome) string {
	if o.Failed() && strings.HasPrefix(shown, o.String()) {
		return session.Failed.String()
	}
	return strings.ReplaceAll(shown, " ", "-")
}

// A model is the model of an exchange.
type model struct {
	Name   string   `json:"name"`
	Stop   string   `json:"stop,omitempty"`
	Tools  []string `json:"tools,omitempty"`
	First  float64  `json:"first,omitempty"` // microseconds to the first token
	Rate   float64  `json:"rate,omitempty"`  // tokens a second
	Prompt []string `json:"prompt,omitempty"`
}

// modelOf returns the model of an exchange; nil if there is none.
func modelOf(m *store.Model) *model {
	if m.Name == "" {
		return nil
	}
	out := &model{Name: text(m.Name), Stop: text(m.StopReason), First: float64(m.FirstPart.Nanoseconds()) / 1e3, Rate: math.Round(m.TokensPerSecond*10) / 10}
	for _, name := range m.ToolCalls {
		out.Tools = append(out.Tools, text(name))
	}
	if m.Context != nil {
		out.Prompt = m.Context.Lines(3)
	}
	return out
}

type finding struct {
	session.Finding
	Do string `json:"do"`
}

// figures are the statistics.
type figures struct {
	Begin   float64 `json:"begin"` // of the slots
	Slot    float64 `json:"slot"`
	Traffic traffic `json:"traffic"`
	// Outcomes count how exchanges ended, and Cancels how cancelled ones did.
	Outcomes []tally       `json:"outcomes"`
	Cancels  []tally       `json:"cancels"`
	Kinds    []stats.Kind  `json:"kinds"`
	Names    []stats.Name  `json:"names"`
	Models   []stats.Model `json:"models,omitempty"`
	Tools    *stats.Tools  `json:"tools,omitempty"`
	Usage    []int64       `json:"usage,omitempty"`
}

// A tally is a count with its name.
type tally struct {
	Name   string `json:"name"`
	Count  int64  `json:"count"`
	Failed bool   `json:"failed,omitempty"`
}

// traffic is the traffic of each time slot.
type traffic struct {
	Up   []int64 `json:"up"`
	Down []int64 `json:"down"`
	Open []int64 `json:"open"` // in flight, at most
}

// contexts are what models were given, in the last calls.
type contexts struct {
	Calls   []*context.CallRow `json:"calls"`
	LeftOut int                `json:"left_out,omitempty"` // before them
}

// maxContexts bounds the calls in a page, and maxGiven the new items of each, the largest.
const maxContexts, maxGiven = 2000, 24

func contextsOf(s *store.Store) *contexts {
	v := s.Contexts()
	out := &contexts{Calls: []*context.CallRow{}, LeftOut: v.Dropped + max(0, len(v.Calls)-maxContexts)}
	for _, c := range v.Calls[max(0, len(v.Calls)-maxContexts):] {
		row := v.Row(c, false)
		slices.SortStableFunc(row.Items, func(a, b context.ItemRow) int { return cmp.Compare(b.Bytes, a.Bytes) })
		row.Items = row.Items[:min(len(row.Items), maxGiven)]
		out.Calls = append(out.Calls, row)
	}
	return out
}

// usageOf returns the usage of an exchange; nil if it is unknown.
func usageOf(u store.Usage) []int64 {
	if u.IsZero() {
		return nil
	}
	list := []int64{u.Input, u.Cached, u.Output, u.Cost}
	if u.IsUnclear() {
		list = append(list, u.Perhaps.Input, u.Perhaps.Cached, u.Perhaps.Output)
	}
	return list
}

// A clock converts timestamps to times of the page.
type clock struct {
	first int64
	timed bool
}

func clockOf(o *store.Overview) clock { return clock{o.First, o.Timed} }

func (c clock) since(stamp int64) float64 {
	switch {
	case !c.timed:
		return float64(stamp)
	case stamp == 0:
		return 0
	}
	return float64(stamp-c.first) / 1e3
}

func aboutOf(title string, o *store.Overview, c clock) about {
	a := about{
		Title: title, Protocols: o.Protocols, Timed: o.Timed, Run: o.Run, Joins: o.Joins, Last: c.since(o.Last), Frames: o.Frames, Bytes: o.Bytes,
		Exchanges: o.Exchanges, Open: o.Open, Failed: o.Failed, Findings: o.Findings,
		Dropped: o.Dropped, Gone: o.Gone, Lost: o.Lost, Altered: o.Altered, Notice: text(o.Notice), Held: len(o.Held),
	}
	if o.Timed {
		a.Begun = o.First / 1e6
	}
	if o.Err != nil {
		a.Error = text(o.Err.Error())
	}
	if len(o.Held) > 0 {
		h := &o.Held[0]
		a.First = &held{h.Number, int(h.Dir), render.Shorten(h.Text, maxPayload)}
	}
	return a
}

func exchangeOf(x *store.Exchange, c clock) exchange {
	e := exchange{
		Mark: x.Mark, ID: text(x.ID), Kind: text(x.Kind), Name: text(x.Name), Version: text(x.Version), Reason: text(x.Reason), Why: text(x.Explain(x.Outcome, x.Reason, x.Model.StopReason)), Args: text(x.Arguments),
		Of: x.Operation, Guessed: x.Guessed, Run: x.Run, Turn: x.Turn, Head: x.Head, Wire: text(x.Wire), Own: text(x.Own), Role: x.Role.String(), Waits: spansOf(x.Waits, c), Path: spansOf(x.Path, c), Place: text(x.Place), Edge: x.Edge, Asks: text(x.Asks), Under: x.Under, Inferred: x.Outcome.Inferred() || x.Assumed, Usage: usageOf(x.Usage), Model: modelOf(&x.Model),
		Conn: max(x.Conn, 1), Dir: uint8(x.Opener), First: x.First, Opened: c.since(x.Opened), From: c.since(x.FirstPart), To: c.since(x.LastPart),
		Outcome: x.OutcomeName(), Open: x.Open(), Cancel: x.Cancelled, Parts: x.Parts, After: x.After,
		Bytes: x.In + x.Out, Findings: x.Findings,
	}
	if x.Open() {
		e.Refusal = x.Refusal
	} else {
		e.End = c.since(max(x.Closed, x.LastPart, x.Confirmed))
		e.Took = c.since(x.Over) - e.Opened
	}
	e.State = stateOf(e.Outcome, x.Outcome)
	if x.Cancelled {
		e.Asked = c.since(x.Asked)
	}
	return e
}

// keep keeps what a report has of an exchange besides its frames, if it is no larger than a payload
// and than what is left. It returns its size.
func (e *exchange) keep(s *store.Store, x *store.Exchange, speaks []string, left int) int {
	if r, err := s.Request(x.First); err == nil {
		if command := r.Command(speaks); len(command) <= min(maxPayload, left) {
			e.Command = command
		}
	}
	if !x.Open() && x.Last != x.First {
		if a := s.AnswerUpTo(x.Last); a != nil {
			if e.Part = a.Part; a.Seq != x.Last {
				e.Answered = a.Seq
			}
			if a.Joined > 0 && left > maxPayload {
				e.Answer, e.Joined, e.Missing = shown(nil, a.JSON, maxPayload), a.Joined, a.Missing
			}
		}
	}
	return len(e.Command) + len(e.Answer)
}

func (f *frames) addFrame(of *store.Frame, c clock) {
	id, says := of.ID, of.Summary
	if of.Ref != "" {
		id += "→" + of.Ref
	}
	if of.Fault != "" {
		says = of.Fault
	}
	f.Seq, f.Time, f.Dir = append(f.Seq, of.Seq), append(f.Time, c.since(of.Time)), append(f.Dir, int(of.Dir))
	f.Conn, f.Kind, f.ID = append(f.Conn, max(of.Conn, 1)), append(f.Kind, text(of.Kind)), append(f.ID, text(id))
	f.Size, f.Of, f.Says = append(f.Size, of.Size), append(f.Of, of.Mark), append(f.Says, text(says))
}

// maxText bounds texts other than payloads, in bytes.
const maxText = 1 << 10

// text returns the beginning of a text from the wire, as valid UTF-8.
func text(s string) string {
	if len(s) > maxText {
		s = s[:maxText] + "…"
	}
	return strings.ToValidUTF8(s, "�")
}

// shown returns the beginning of a payload: its JSON form if there is one, else its text, else
// hex digits.
func shown(payload, form []byte, limit int) string {
	switch {
	case form != nil && utf8.Valid(form):
		return render.Shorten(form, limit)
	case utf8.Valid(payload):
		return render.Shorten(payload, limit)
	}
	return "hex:" + hex.EncodeToString(payload[:min(len(payload), limit/2)])
}

func figuresOf(s *store.Store, c clock) *figures {
	st := s.Stats()
	f := &figures{Begin: c.since(st.Begin), Slot: float64(st.Slot), Kinds: []stats.Kind{}, Names: append([]stats.Name{}, st.Names...), Models: st.Models, Tools: st.Tools, Outcomes: []tally{}, Cancels: []tally{}, Usage: usageOf(st.Usage)}
	for o, n := range st.Exchanges {
		f.Outcomes = append(f.Outcomes, tally{o.String(), n, o.Failed()})
	}
	for class, n := range st.Cancels {
		f.Cancels = append(f.Cancels, tally{class.String(), n, false})
	}
	for _, list := range [][]tally{f.Outcomes, f.Cancels} {
		slices.SortFunc(list, func(a, b tally) int { return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Name, b.Name)) })
	}
	if st.Timed {
		f.Slot /= 1e3
	}
	for _, slot := range st.Slots {
		t := &f.Traffic
		t.Up, t.Down, t.Open = append(t.Up, slot.Frames[0]+slot.Frames[1]), append(t.Down, slot.Frames[2]), append(t.Open, slot.InFlight)
	}
	for i := range st.Kinds {
		k := stats.KindOf(st.Kinds[i].Protocol, &st.Kinds[i].Kind, st.Timed)
		k.Kind = text(k.Kind)
		f.Kinds = append(f.Kinds, k)
	}
	return f
}

//go:embed page.html
var page string

//go:embed page.css
var css string

//go:embed script
var scripts embed.FS

// script is the script of the page, which is in several files.
var script = sync.OnceValue(func() string {
	var all strings.Builder
	for _, name := range []string{"model", "lanes", "lists", "runs", "detail", "stats", "context", "main"} {
		text, err := scripts.ReadFile("script/" + name + ".js")
		if err != nil {
			panic(err) // it is embedded
		}
		all.Write(text)
	}
	return all.String()
})

// maxPayload bounds each payload in the page, in bytes, and maxPayloads all of them: payloads
// of later frames are left out.
const (
	maxPayload  = 16 << 10
	maxPayloads = 16 << 20
)

// Kept bounds how much of a session is in a page: the last calls. It bounds the memory here
// and in the browser.
var Kept = store.Options{Frames: 1 << 15, Exchanges: 1 << 14, Bytes: 4 << 20, Spill: true, Contexts: true}

// Write writes the page of the session in s. It opens with a view; "" for the first. wirectl send
// sends any method of these protocols.
func Write(w io.Writer, s *store.Store, title, view string, speaks []string) error {
	return write(w, title, policy(), func(out io.Writer) error { return writeData(out, s, title, view, speaks) })
}

// policy lets the browser run the script of the page, and nothing else.
func policy() string {
	return "default-src 'none'; script-src " + hash(script()) + "; style-src " + hash(css)
}

// write writes the page with a policy and data.
func write(w io.Writer, title, policy string, data func(io.Writer) error) error {
	out := bufio.NewWriterSize(w, 64<<10)
	before, after, _ := strings.Cut(page, "{{data}}")
	fill := strings.NewReplacer("{{title}}", html.EscapeString(title), "{{css}}", css, "{{js}}", script(), "{{policy}}", policy)
	_, _ = fill.WriteString(out, before)
	if err := data(out); err != nil {
		return err
	}
	_, _ = fill.WriteString(out, after)
	return out.Flush()
}

// hash names a script or a style in a policy.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// writeData writes the session as JSON, compressed, in base64.
func writeData(w io.Writer, s *store.Store, title, view string, speaks []string) error {
	b64 := base64.NewEncoder(base64.StdEncoding, w)
	zip := gzip.NewWriter(b64)
	enc := jsonscan.NewEncoder(zip)
	d := collect(s, title, speaks)
	d.About.View = view
	if err := enc.Encode(d); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	return b64.Close()
}

// collect reads everything from the store.
func collect(s *store.Store, title string, speaks []string) *delta {
	o := s.Overview()
	c := clockOf(&o)
	d := &delta{About: aboutOf(title, &o, c), Stats: figuresOf(s, c), Peers: peersOf(s, c), Contexts: contextsOf(s)}
	changes := s.Follow(new(store.Cursor), 0)
	d.Exchanges, d.Findings = exchangesOf(changes.Exchanges, c), findingsOf(changes.Findings)
	d.Heads = headsOf(changes.Heads, c)
	if o.Frames > 0 {
		d.Frames = &frames{}
	}
	left := maxPayloads
	for i := range changes.Exchanges {
		left -= d.Exchanges[i].keep(s, &changes.Exchanges[i], speaks, left)
	}
	s.All(func(f *store.Frame, payload, form []byte) bool {
		says := shown(payload, form, maxPayload)
		if left -= len(says); left < 0 {
			says = "omitted: the page is full"
			d.About.Untold++
		}
		d.Frames.addFrame(f, c)
		d.Frames.Payload = append(d.Frames.Payload, says)
		return true
	})
	return d
}
