// Package fault injects faults into a stream of frames, by rules: it delays, drops,
// duplicates and damages the frames that they match. A [Filter] only decides; the caller
// moves the bytes. The same rules and seed have the same effect on the same frames.
package fault

import (
	"strconv"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
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
