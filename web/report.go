// Package web writes a session as one HTML page that needs nothing else: the
// exchanges as lanes over time, the frames, what was found, and the statistics.
//
// What the wire said is in the page as compressed data, which the page reads
// and shows as text only: nothing of it is ever markup or script. The page says
// so to the browser too, which runs its own script and asks no server.
package web

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"html"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonscan"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/stats"
	"github.com/wirectl/wirectl/store"
)

//go:embed page.html
var page string

//go:embed page.css
var css string

//go:embed page.js
var script string

// maxPayload is how much of a payload is in the page, in bytes, and maxPayloads how
// much of all: those of later frames are left out.
const (
	maxPayload  = 16 << 10
	maxPayloads = 16 << 20
)

// Kept is how much of a session is in a page: of a longer one, the last calls. That
// bounds the memory that the page takes here and in a browser.
var Kept = store.Options{Frames: 1 << 15, Exchanges: 1 << 14, Bytes: 4 << 20, Spill: true}

// Write writes the page of what s keeps.
func Write(w io.Writer, s *store.Store, title string) error {
	out := bufio.NewWriterSize(w, 64<<10)
	before, after, _ := strings.Cut(page, "{{data}}")
	fill := strings.NewReplacer(
		"{{title}}", html.EscapeString(title), "{{css}}", css, "{{js}}", script,
		"{{policy}}", "default-src 'none'; script-src "+hash(script)+"; style-src "+hash(css),
	)
	_, _ = fill.WriteString(out, before)
	if err := writeData(out, s, title); err != nil {
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
func writeData(w io.Writer, s *store.Store, title string) error {
	b64 := base64.NewEncoder(base64.StdEncoding, w)
	zip := gzip.NewWriter(b64)
	enc := jsonscan.NewEncoder(zip)
	if err := enc.Encode(collect(s, title)); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	return b64.Close()
}

// A session as the page reads it: columns, because rows would repeat their
// names. Times are microseconds since the first frame, or numbers of frames.
type data struct {
	Title     string     `json:"title"`
	Protocols []string   `json:"protocols"`
	Timed     bool       `json:"timed"`
	Begun     int64      `json:"begun,omitempty"`   // milliseconds since 1970
	Dropped   int64      `json:"dropped,omitempty"` // frames
	Gone      int64      `json:"gone,omitempty"`    // exchanges
	Untold    int64      `json:"untold,omitempty"`  // frames without their payload
	Kinds     []string   `json:"kinds"`
	Frames    frames     `json:"frames"`
	Exchanges []exchange `json:"exchanges"`
	Findings  []finding  `json:"findings"`
	Stats     []kind     `json:"stats"`
	Names     []name     `json:"names"`
	Models    []answers  `json:"models,omitempty"`
	Tools     *tools     `json:"tools,omitempty"`
	Usage     []int64    `json:"usage,omitempty"` // tokens: input, cached, output; and the cost, in millionths of a dollar
}

type frames struct {
	Seq     []int64   `json:"seq"`
	Time    []float64 `json:"time"`
	Dir     []int     `json:"dir"`
	Conn    []int     `json:"conn"`
	Kind    []int     `json:"kind"`
	ID      []string  `json:"id"`
	Size    []int64   `json:"size"`
	Of      []int     `json:"of"` // index of the exchange, -1 if none
	Says    []string  `json:"says"`
	Payload []string  `json:"payload"` // JSON, or a text in hexadecimal behind "hex:"
}

type exchange struct {
	ID       string  `json:"id"`
	Kind     string  `json:"kind"`
	Name     string  `json:"name,omitempty"`
	Version  string  `json:"version,omitempty"`
	Reason   string  `json:"reason,omitempty"` // of its cancel
	Of       int     `json:"of"`               // index of its operation; -1 if it is one
	Guessed  bool    `json:"guessed,omitempty"`
	Inferred bool    `json:"inferred,omitempty"` // its outcome
	Usage    []int64 `json:"usage,omitempty"`
	Model    *model  `json:"model,omitempty"`
	Conn     int     `json:"conn"`
	Dir      uint8   `json:"dir"`
	Opened   float64 `json:"opened"`
	End      float64 `json:"end"`            // of its lane: with what came after its end
	Took     float64 `json:"took,omitempty"` // until it was over
	Asked    float64 `json:"asked,omitempty"`
	Outcome  string  `json:"outcome"`
	State    string  `json:"state"` // a word without spaces
	Open     bool    `json:"open,omitempty"`
	Cancel   bool    `json:"cancel,omitempty"`
	Parts    int64   `json:"parts,omitempty"`
	After    int64   `json:"after,omitempty"`
	Bytes    int64   `json:"bytes"`
	Findings int     `json:"findings,omitempty"`
}

// A model is what is known of the one that answers an exchange.
type model struct {
	Name   string   `json:"name"`
	Stop   string   `json:"stop,omitempty"`
	Tools  []string `json:"tools,omitempty"`
	First  float64  `json:"first,omitempty"` // microseconds to the first token
	Rate   float64  `json:"rate,omitempty"`  // tokens a second
	Prompt []string `json:"prompt,omitempty"`
}

// modelOf returns what is known of a model; nil if there is none.
func modelOf(m *store.Model) *model {
	if m.Name == "" {
		return nil
	}
	out := &model{Name: text(m.Name), Stop: text(m.StopReason), First: float64(m.FirstPart.Nanoseconds()) / 1e3, Rate: math.Round(m.TokensPerSecond*10) / 10}
	for _, name := range m.ToolCalls {
		out.Tools = append(out.Tools, text(name))
	}
	if m.Prompt != nil {
		out.Prompt = stats.PromptText(m.Prompt, 3)
	}
	return out
}

type finding struct {
	Name     string  `json:"name"`
	Severity string  `json:"severity"`
	Frames   []int64 `json:"frames"`
	Message  string  `json:"message"`
	Rule     string  `json:"rule"`
	Do       string  `json:"do"`
}

type kind struct {
	Kind   string  `json:"kind"`
	Frames int64   `json:"frames"`
	Bytes  int64   `json:"bytes"`
	Count  int64   `json:"count,omitempty"` // of latencies
	P50    float64 `json:"p50,omitempty"`   // milliseconds
	P90    float64 `json:"p90,omitempty"`
	P99    float64 `json:"p99,omitempty"`
	Max    float64 `json:"max,omitempty"`
}

// answers are what there was of a model.
type answers struct {
	Name   string   `json:"name"`
	Calls  int64    `json:"calls"`
	Errors int64    `json:"errors,omitempty"`
	Usage  []int64  `json:"usage,omitempty"`
	First  *float64 `json:"first,omitempty"` // milliseconds to the first token, the median
	Rate   float64  `json:"rate,omitempty"`  // tokens a second
}

// A name is what exchanges name, such as a tool, or a tool that is defined.
type name struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"`
	Calls   int64    `json:"calls"`
	Errors  int64    `json:"errors,omitempty"`
	P50     *float64 `json:"p50,omitempty"` // milliseconds
	P99     *float64 `json:"p99,omitempty"`
	Bytes   int64    `json:"bytes"`             // of results
	Tokens  int64    `json:"tokens"`            // an estimate of what they are
	Defined int64    `json:"defined,omitempty"` // bytes
}

// tools are those that are defined.
type tools struct {
	Count  int64 `json:"count"`
	Bytes  int64 `json:"bytes"`
	Tokens int64 `json:"tokens"`
}

// usageOf returns what an exchange has used; nil if nothing is known of that.
func usageOf(u protocol.Usage) []int64 {
	if u == (protocol.Usage{}) {
		return nil
	}
	return []int64{u.Input, u.Cached, u.Output, u.Cost}
}

// collect reads everything from the store.
func collect(s *store.Store, title string) *data {
	o := s.Overview()
	d := &data{Title: title, Protocols: o.Protocols, Timed: o.Timed, Dropped: o.Dropped, Gone: o.Gone}
	if o.Timed {
		d.Begun = o.First / 1e6
	}
	since := func(stamp int64) float64 {
		if !o.Timed {
			return float64(stamp)
		}
		return float64(stamp-o.First) / 1e3
	}
	index := d.exchanges(s, &o, since)
	d.frames(s, index, since)
	d.findings(s)
	d.stats(s)
	return d
}

// exchanges reads the exchanges, and returns where each is by its mark.
func (d *data) exchanges(s *store.Store, o *store.Overview, since func(int64) float64) map[uint32]int {
	index := map[uint32]int{}
	d.Exchanges = []exchange{}
	for _, x := range s.IDs(store.IDsQuery{Sort: store.ByArrival, Unfolded: store.Folds{All: true}, N: 1 << 30}).List {
		end := max(x.Closed, x.LastPart, x.Confirmed)
		if x.Open() {
			end = o.Last
		}
		e := exchange{
			ID: text(x.ID), Kind: text(x.Kind), Name: text(x.Name), Version: text(x.Version), Reason: text(x.Reason), Conn: x.Conn, Dir: uint8(x.Opener), Opened: since(x.Opened), End: since(end), Took: since(x.Ended(o.Last)) - since(x.Opened),
			Outcome: x.OutcomeName(), Open: x.Open(), Cancel: x.Cancelled, Parts: x.Parts, After: x.After,
			Bytes: x.In + x.Out, Findings: x.Findings, Of: -1, Guessed: x.Guessed, Inferred: x.Outcome.Inferred(), Usage: usageOf(x.Usage), Model: modelOf(&x.Model),
		}
		if op, ok := index[x.Operation]; ok {
			e.Of = op
		}
		e.State = strings.ReplaceAll(e.Outcome, " ", "-")
		if x.Outcome.Failed() && strings.HasPrefix(e.Outcome, x.Outcome.String()) {
			e.State = session.Failed.String()
		}
		if x.Cancelled {
			e.Asked = since(x.Asked)
		}
		index[x.Mark] = len(d.Exchanges)
		d.Exchanges = append(d.Exchanges, e)
	}
	return index
}

func (d *data) frames(s *store.Store, index map[uint32]int, since func(int64) float64) {
	kinds := map[string]int{}
	d.Kinds = []string{}
	c := &d.Frames
	left := maxPayloads
	s.All(func(f *store.Frame, payload, form []byte) bool {
		k, ok := kinds[f.Kind]
		if !ok {
			k = len(d.Kinds)
			kinds[f.Kind] = k
			d.Kinds = append(d.Kinds, text(f.Kind))
		}
		of, ok := index[f.Mark]
		if !ok {
			of = -1
		}
		id, says := f.ID, f.Summary
		if f.Ref != "" {
			id += "→" + f.Ref
		}
		if f.Fault != "" {
			says = f.Fault
		}
		c.Seq, c.Time, c.Dir = append(c.Seq, f.Seq), append(c.Time, since(f.Time)), append(c.Dir, int(f.Dir))
		c.Conn, c.Kind, c.ID = append(c.Conn, f.Conn), append(c.Kind, k), append(c.ID, text(id))
		c.Size, c.Of, c.Says = append(c.Size, f.Size), append(c.Of, of), append(c.Says, text(says))
		says = shown(payload, form)
		if left -= len(says); left < 0 {
			says = "left out: the page is full"
			d.Untold++
		}
		c.Payload = append(c.Payload, says)
		return true
	})
}

// text makes valid UTF-8 of what came from the wire.
func text(s string) string { return strings.ToValidUTF8(s, "�") }

// shown is a payload as the page has it.
func shown(payload, form []byte) string {
	switch {
	case form != nil && utf8.Valid(form):
		return clip(string(form), len(form))
	case utf8.Valid(payload):
		return clip(string(payload), len(payload))
	}
	return "hex:" + hex.EncodeToString(payload[:min(len(payload), maxPayload/2)])
}

// clip cuts a payload that is too long for the page, and says so.
func clip(s string, n int) string {
	if n <= maxPayload {
		return s
	}
	return strings.ToValidUTF8(s[:maxPayload], "") + "…"
}

func (d *data) findings(s *store.Store) {
	d.Findings = []finding{}
	for _, f := range s.Findings(0, 1<<30).List {
		d.Findings = append(d.Findings, finding{f.Name, f.Severity.String(), f.Frames, text(f.Message), f.Rule, f.Do})
	}
}

func (d *data) stats(s *store.Store) {
	st := s.Stats()
	d.Stats = []kind{}
	for i := range st.Kinds {
		k := &st.Kinds[i]
		row := kind{Kind: text(k.Name), Frames: k.Frames, Bytes: k.Bytes}
		if h := &k.Latency; h.Count > 0 && st.Timed {
			ms := func(q float64) float64 { return float64(h.Quantile(q).Microseconds()) / 1e3 }
			row.Count, row.P50, row.P90, row.P99, row.Max = h.Count, ms(0.5), ms(0.9), ms(0.99), ms(1)
		}
		d.Stats = append(d.Stats, row)
	}
	d.names(&st)
	d.Usage = usageOf(st.Usage)
}

// names takes over what exchanges name, of which trackers bound the number.
func (d *data) names(st *store.Stats) {
	d.Names = []name{}
	for _, m := range st.Models {
		row := answers{Name: m.Name, Calls: m.Calls, Errors: m.Errors, Rate: m.TokensPerSecond, Usage: []int64{m.Usage.Input, m.Usage.Cached, m.Usage.Output, int64(m.Cost)}}
		if q := m.FirstPart; q != nil {
			first := float64(time.Duration(q.P50).Microseconds()) / 1e3
			row.First = &first
		}
		d.Models = append(d.Models, row)
	}
	ms := func(m stats.Millis) *float64 {
		v := float64(time.Duration(m).Microseconds()) / 1e3
		return &v
	}
	for _, n := range st.Names {
		row := name{
			Name: text(n.Name), Kind: text(n.Kind), Calls: n.Calls, Errors: n.Errors,
			Bytes: n.ResultBytes, Tokens: n.ResultTokens, Defined: n.DefinitionBytes,
		}
		if q := n.Latency; q != nil {
			row.P50, row.P99 = ms(q.P50), ms(q.P99)
		}
		d.Names = append(d.Names, row)
	}
	if t := st.Tools; t != nil {
		d.Tools = &tools{t.Count, t.Bytes, t.Tokens}
	}
}
