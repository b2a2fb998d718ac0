// Package fault injects faults into a stream of frames, by rules: it delays, drops,
// duplicates and damages the frames that they match. A [Filter] only decides; the caller
// moves the bytes. The same rules and seed have the same effect on the same frames.
package fault

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/yamlfile"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session/query"
)

// Fields are the fields for conditions on frames.
var Fields = query.Fields{
	Names: []string{"dir", "conn", "size", "framing", "protocol", "kind", "id", "ref", "phase", "payload"},
	Values: map[string][]string{
		"dir": frame.DirNames(), "framing": frame.Names(), "protocol": all.Names(), "phase": protocol.Phases(),
	},
}

// An Item is a frame with its message: a [query.Record] with [Fields]. For a gap, or a
// frame that does not parse, Message is empty.
type Item struct {
	Frame    *frame.Frame
	Framing  frame.Framing
	Protocol protocol.Protocol
	Message  protocol.Message

	scratch []byte
}

// Read reads a frame into the item.
func (it *Item) Read(f *frame.Frame, framing frame.Framing, p protocol.Protocol) {
	it.Frame, it.Framing, it.Protocol = f, framing, p
	if f.Gap || p.Parse(f.Payload(), &it.Message) != nil {
		it.Message.Reset()
	}
}

// Field returns a field; see [query.Record].
func (it *Item) Field(name string) ([]byte, bool) {
	token := it.field(name)
	return token, len(token) > 0
}

func (it *Item) field(name string) []byte {
	switch name {
	case "dir":
		return []byte(it.Frame.Dir.String())
	case "conn":
		return it.formatNumber(it.Frame.Conn)
	case "size":
		return it.formatNumber(it.Frame.End - it.Frame.Start)
	case "framing":
		return []byte(it.Framing.Name())
	case "protocol":
		return []byte(it.Protocol.Name())
	case "kind":
		return it.quote(it.Message.Kind)
	case "id":
		return it.token(it.Message.ID.Text)
	case "ref":
		return it.token(it.Message.Ref.Text)
	case "phase":
		return []byte(it.Message.Phase.String())
	}
	return it.payload()
}

// payload is the payload as JSON; nil if it has no JSON form.
func (it *Item) payload() []byte {
	payload := it.Frame.Payload()
	if it.Protocol.Encoding() == protocol.JSON {
		return payload
	}
	t, ok := it.Protocol.(protocol.Transcoder)
	if !ok {
		return nil
	}
	form, _, err := t.AppendJSON(it.scratch[:0], payload)
	if err != nil {
		return nil
	}
	it.scratch = form
	return form
}

// token is an id as JSON.
func (it *Item) token(id []byte) []byte {
	if it.Protocol.Encoding() == protocol.JSON {
		return id
	}
	return it.quote(id)
}

// quote is text as a JSON string; nothing if it is empty.
func (it *Item) quote(text []byte) []byte {
	if len(text) == 0 {
		return nil
	}
	it.scratch = jsonscan.AppendQuote(it.scratch[:0], text)
	return it.scratch
}

func (it *Item) formatNumber(n int) []byte {
	it.scratch = strconv.AppendInt(it.scratch[:0], int64(n), 10)
	return it.scratch
}

// An Action is what a rule does to a frame.
type Action string

// The actions. N is the number that a rule gives them.
const (
	Delay     Action = "delay"     // delay the frame and the following ones
	Drop      Action = "drop"      // do not send the frame
	Duplicate Action = "duplicate" // send the frame twice
	Reorder   Action = "reorder"   // send the frame after the next one
	Cut       Action = "cut"       // send the first N bytes of the frame (2, inside a length) and close
	Split     Action = "split"     // send the frame in pieces of N bytes (1)
	Corrupt   Action = "corrupt"   // flip a bit of byte N of the payload, or of any
	Cancel    Action = "cancel"    // cancel an exchange after N parts (1)
	Close     Action = "close"     // close the connection after the frame
)

// A Rule is one fault: what, to which frames of a direction, and how often.
type Rule struct {
	Action Action
	// For is the time of Delay.
	For time.Duration
	// N is the number of bytes before a Cut, the size of the pieces of Split, the byte
	// of the payload that Corrupt changes (-1 for any), or the number of parts before a
	// Cancel.
	N int
	// When is the condition on frames; nil means each.
	When *query.Where
	// Of the matching frames, Nth chooses one, Every chooses every so many, and Chance
	// is the probability for each; 0 chooses all. Limit bounds the chosen frames; 0
	// means no bound.
	Nth, Every, Limit int64
	Chance            float64
}

// A Plan is a set of rules, which are applied in their order.
type Plan struct {
	Rules []Rule
	// Seed makes chance repeatable.
	Seed uint64
}

// An action's argument.
type argument uint8

const (
	none argument = iota
	duration
	number
)

// actions are the arguments of the actions.
var actions = []struct {
	action   Action
	takes    argument
	optional bool
	initial  int // N without an argument
	least    int // of N
}{
	{Delay, duration, false, 0, 0},
	{Drop, none, true, 0, 0},
	{Duplicate, none, true, 0, 0},
	{Reorder, none, true, 0, 0},
	{Cut, number, true, 2, 0},
	{Split, number, true, 1, 1},
	{Corrupt, number, true, -1, 0},
	{Cancel, number, true, 1, 1},
	{Close, none, true, 0, 0},
}

// Rules are those of a flag that may be repeated.
type Rules []Rule

func (f *Rules) Set(text string) error {
	r, err := Parse(text)
	if err == nil {
		*f = append(*f, r)
	}
	return err
}

func (f *Rules) String() string { return "" }

// file is a plan as it is written in YAML.
type file struct {
	Seed  uint64 `yaml:"seed"`
	Rules []rule `yaml:"rules"`
}

// rule is a rule in YAML: the text that Parse reads.
type rule struct{ Rule }

// UnmarshalYAML reads the text. Its error says where in the file that is.
func (r *rule) UnmarshalYAML(n ast.Node) error {
	at := n.GetToken().Position
	var text string
	if err := yaml.NodeToValue(n, &text); err != nil || n.Type() != ast.StringType {
		return fmt.Errorf("[%d:%d] a rule is a string, such as drop nth 2", at.Line, at.Column)
	}
	parsed, err := Parse(text)
	if err != nil {
		return fmt.Errorf("[%d:%d] %w", at.Line, at.Column, err)
	}
	r.Rule = parsed
	return nil
}

// ParseFile reads a plan in YAML: a seed, and a list of rules as [Parse] reads
// them. The error says in which line.
func ParseFile(data []byte) (*Plan, error) {
	if err := yamlfile.Check(data); err != nil {
		return nil, err
	}
	var f file
	if err := yaml.UnmarshalWithOptions(data, &f, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s", yaml.FormatError(err, false, false))
	}
	p := &Plan{Seed: f.Seed}
	for _, r := range f.Rules {
		p.Rules = append(p.Rules, r.Rule)
	}
	return p, nil
}

// A Step is an instruction to the caller.
type Step struct {
	// Wait is how long to wait first.
	Wait time.Duration
	// Bytes are to be sent. They may be those of the frame.
	Bytes []byte
	// Cancel, if not nil, is the id of the exchange to cancel, on behalf of the
	// receiver of the frame.
	Cancel []byte
	// Close ends the connection.
	Close bool
}

// pause is the time between the pieces of a frame, so that they are read separately.
const pause = 2 * time.Millisecond

// A Filter applies a plan to one direction of one connection.
type Filter struct {
	rules []counted
	rand  *rand.Rand
	late  []Step // of a frame that follows the next one
}

// counted is a rule with its counts.
type counted struct {
	*Rule
	matched, applied int64
	parts            map[string]int // by exchange
}

// Filter returns the filter of a direction of a connection.
func (p *Plan) Filter(conn int, dir frame.Dir) *Filter {
	f := &Filter{rand: rand.New(rand.NewPCG(p.Seed, uint64(conn)<<2|uint64(dir)))} //nolint:gosec // it is to be repeatable
	for i := range p.Rules {
		f.rules = append(f.rules, counted{Rule: &p.Rules[i]})
	}
	return f
}

// Apply returns the steps for a frame, and the applied actions. Without actions, the only
// step sends the frame. The steps are valid as long as the frame is.
func (f *Filter) Apply(it *Item) (steps []Step, done []Action) {
	steps = []Step{{Bytes: it.Frame.Raw}}
	late := f.late
	f.late = nil
	for i := range f.rules {
		r := &f.rules[i]
		if !f.chosen(r, it) {
			continue
		}
		done = append(done, r.Action)
		steps = f.change(steps, r.Rule, it)
	}
	return append(steps, late...), done
}

// End returns the remaining steps at the end of the stream.
func (f *Filter) End() []Step {
	late := f.late
	f.late = nil
	return late
}

// chosen reports whether a rule is to be applied to a frame.
func (f *Filter) chosen(r *counted, it *Item) bool {
	if it.Frame.Gap || !r.When.Match(it) || r.Action == Cancel && !r.due(&it.Message) {
		return false
	}
	r.matched++
	chosen := (r.Nth == 0 || r.matched == r.Nth) &&
		(r.Every == 0 || r.matched%r.Every == 0) &&
		(r.Limit == 0 || r.applied < r.Limit) &&
		(r.Chance == 0 || f.rand.Float64() < r.Chance)
	if chosen {
		r.applied++
	}
	return chosen
}

// maxCounted bounds the exchanges whose parts are counted.
const maxCounted = 1 << 16

// due counts the parts of exchanges, and reports whether a cancel is due after one.
func (r *counted) due(m *protocol.Message) bool {
	id := m.ID.Text
	if m.ID.IsZero() {
		id = m.Ref.Text // as of progress
	}
	switch {
	case m.Phase.Ends():
		delete(r.parts, string(id))
		return false
	case m.Phase != protocol.Part || len(id) == 0:
		return false
	case r.parts == nil:
		r.parts = make(map[string]int)
	case len(r.parts) > maxCounted:
		clear(r.parts)
	}
	r.parts[string(id)]++
	return r.parts[string(id)] == r.N
}

// change applies a rule.
func (f *Filter) change(steps []Step, r *Rule, it *Item) []Step {
	switch r.Action {
	case Delay:
		if len(steps) > 0 {
			steps[0].Wait += r.For
		}
	case Drop:
		return nil
	case Duplicate:
		return append(steps, steps...)
	case Reorder:
		for _, s := range steps {
			s.Bytes = bytes.Clone(s.Bytes)
			f.late = append(f.late, s)
		}
		return nil
	case Cut:
		n := min(r.N, len(it.Frame.Raw)-1)
		return []Step{{Bytes: it.Frame.Raw[:n], Close: true}}
	case Split:
		return split(steps, r.N)
	case Corrupt:
		f.corrupt(steps, r.N, it.Frame)
	case Cancel:
		id := it.Message.ID.Text
		if it.Message.ID.IsZero() {
			id = it.Message.Ref.Text
		}
		return append(steps, Step{Cancel: bytes.Clone(id)})
	case Close:
		return append(steps, Step{Close: true})
	}
	return steps
}

// maxPieces bounds the pieces of a frame; the rest is the last piece.
const maxPieces = 1000

// split cuts what is sent into pieces.
func split(steps []Step, n int) (pieces []Step) {
	for _, s := range steps {
		for len(s.Bytes) > n && len(pieces) < maxPieces {
			pieces = append(pieces, Step{Wait: s.Wait, Bytes: s.Bytes[:n]})
			s.Wait, s.Bytes = pause, s.Bytes[n:]
		}
		pieces = append(pieces, s)
	}
	return pieces
}

// corrupt flips a bit of the payload in the first step that sends it all.
func (f *Filter) corrupt(steps []Step, at int, fr *frame.Frame) {
	n := fr.End - fr.Start
	if at < 0 && n > 0 {
		at = f.rand.IntN(n)
	}
	if at < 0 || at >= n {
		return
	}
	for i := range steps {
		if len(steps[i].Bytes) == len(fr.Raw) {
			steps[i].Bytes = bytes.Clone(steps[i].Bytes)
			steps[i].Bytes[fr.Start+at] ^= 1 << f.rand.IntN(8)
			return
		}
	}
}
