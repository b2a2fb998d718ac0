// Package protocol gives payloads a meaning: it says of what kind a message
// is, which exchange it belongs to and what it does to it.
//
// Parsing is stateless and borrows: a [Message] points into the payload it was
// parsed from. What the messages of a session mean together (who answered what,
// which cancel came too late) is the business of package session.
//
// Each protocol has a sub-package; protocol/all lists them and detects which
// one a stream speaks.
package protocol

import (
	"slices"

	"github.com/wirectl/wirectl/frame"
)

// A Protocol is the grammar of the payloads of one stream. Implementations
// hold no state, so one value serves any number of goroutines.
type Protocol interface {
	// Name is the protocol's name, as flags and records spell it.
	Name() string
	// Encoding says how a payload spells a message.
	Encoding() Encoding
	// Parse reads one payload into m, overwriting all of it. The message
	// borrows from payload and is valid as long as payload is. Parse returns
	// an error, and leaves in m what it had understood, when the payload is
	// not a well-formed message; a message that is well-formed but breaks a
	// rule is reported in m.Faults instead. It does not allocate for a
	// message without faults.
	Parse(payload []byte, m *Message) error
}

// Encoding is how a payload spells a message.
type Encoding uint8

const (
	// Opaque payloads are bytes without structure.
	Opaque Encoding = iota
	// JSON payloads are one JSON text (RFC 8259) in UTF-8.
	JSON
	// Protobuf payloads are one message in the protobuf wire format.
	Protobuf
)

var encodingNames = [...]string{Opaque: "bytes", JSON: "JSON", Protobuf: "protobuf"}

// String returns the encoding's name.
func (e Encoding) String() string {
	if int(e) < len(encodingNames) {
		return encodingNames[e]
	}
	return "encoding(?)"
}

// A Transcoder is a Protocol whose payloads are not JSON but have a JSON form.
type Transcoder interface {
	Protocol
	// AppendJSON appends the JSON form of payload to dst, on one line. It
	// reports whether AppendPayload gives back payload, byte for byte, from
	// that form. On error dst is returned as it came.
	AppendJSON(dst, payload []byte) (_ []byte, exact bool, err error)
	// AppendPayload appends the payload that the JSON form describes.
	AppendPayload(dst, json []byte) ([]byte, error)
}

// A Message is what a payload means in its protocol. Its byte slices borrow
// from the payload, or are constants: never write to them.
type Message struct {
	// Kind is the kind of message in the protocol's own spelling: a JSON-RPC
	// method, "result" or "error"; PROMPT_SEND; WireRequest. [Unknown] when
	// the protocol has no such kind.
	Kind []byte
	// Phase says what the message does to the exchange it belongs to.
	Phase Phase
	// From is the direction in which alone this kind may travel, or
	// frame.DirUnknown where either side may send it.
	From frame.Dir
	// ID names the exchange that the message opens or answers. For an answer
	// without an id of its own it is the token by which it is matched.
	ID Token
	// Ref names the exchange that the message acts on, where that is not its
	// own: the target of a cancel, a progress token, a session. An answer that
	// has an id of its own, as in DAP, answers Ref.
	Ref Token
	// Bind is a second name that an opener gives its exchange, by which later
	// messages refer to it: a progress token, a session id.
	Bind Token
	// Within is the part of a connection in which ID means something, such as a session
	// that is attached to it, and Gone one that has ended: what was asked in it and is open
	// gets no answer.
	Within, Gone Token
	// Seq is the sequence number of a part, or -1 where parts have none.
	Seq int
	// Count is how many things a message asks for or carries: prompts,
	// results, the messages of a batch. It is 0 where that means nothing.
	Count int
	// Stops says of an answer that closes its exchange that what it is about was
	// cancelled: that exchange, unless it answers a cancel.
	Stops bool
	// ToolError says of an answer that closes its exchange well that the tool which was
	// called reports an error.
	ToolError bool
	// Reason is why a cancel was sent, in the words of its sender, escapes as written;
	// nil if it does not say.
	Reason []byte
	// Multiline says that a JSON payload has line breaks between its tokens, so
	// that it does not fit on a line as it is.
	Multiline bool
	// Faults are the rules that the message breaks by itself.
	Faults Faults
	// Version is the version of the protocol that the message states, without quotes: a
	// request that of itself and its answer, the answer that begins a session that of the
	// session. It is nil if the message states none.
	Version []byte
	// Operation is what the message does to an operation besides what Phase says of its
	// exchange.
	Operation Effect
	// GoesOn says of an answer that ends its exchange well that the operation goes on,
	// under the name Bind or with a retry.
	GoesOn bool
	// Continues says of a request that it continues an operation that went on after the
	// answer to an equal request. Equal are kind, Label, Arguments and State.
	Continues bool
	// Failing says of a part that its operation will end as failed, unless it is cancelled.
	Failing bool
	// Settles names a question that was asked by a message which nobody answers, such as an
	// event: this message is the answer to it, or says that none is wanted any more.
	Settles Token
	// Arguments are those of a request that can be continued, and State what the answer
	// wants to have back with the retry, both as written.
	Arguments, State []byte
	// Inputs is an object: what the answer asks for by its keys, or the retry answers under
	// the same; nil if there is none.
	Inputs []byte
	// Context names the conversation that an event of a stream belongs to, and Piece is
	// what the event brings of a product that comes in pieces.
	Context Token
	Piece   Piece
	// Step is what the message does to a step of an operation: an item, a tool call.
	Step Step
	// Model is the model that is asked or answers, and StopReason why it stopped, which may
	// be the code of an error, both in the words of its provider, escapes as written; nil if
	// the message does not say.
	Model, StopReason []byte
	// Empty says of a part that it brings nothing of what was asked for: it is an
	// announcement or a ping.
	Empty bool
	// Usage is what a model was given and gave.
	Usage Usage
	// Spent is what the session or the thread that the message is about has used so far. If
	// it counts tokens, those of the message are what it has grown by, and Usage only where
	// nothing was counted before.
	Spent Spent
	// Label and Text tell a reader what the message says: a short word (a
	// tool's name, an error code) and a longer text (the prompt, the params as
	// written). Either may be nil. They are for summaries only.
	Label, Text []byte
}

// An Effect is what a message does to an operation: Open says that the exchange of the
// message belongs to it, and Part of a request that it brings more for it; the other phases
// are as for exchanges. The zero token names the
// operation of the message's own exchange.
type Effect struct {
	Does Phase
	Of   Token
}

// A Piece is one of the product Of, as its id is written. Appends says that others came
// before, and Last that none follows.
type Piece struct {
	Of            []byte
	Appends, Last bool
}

// A Step says that a step of an operation begins (Open), goes on (Part) or has ended (Close).
type Step struct {
	Does Phase
	ID   Token
}

// Usage is what a model was given and gave, in tokens, and what that cost, in millionths of
// a dollar. Cached are those of the input that were read from a cache.
type Usage struct{ Input, Cached, Output, Cost int64 }

// Plus returns the sum of both.
func (u Usage) Plus(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Cached + v.Cached, u.Output + v.Output, u.Cost + v.Cost}
}

// Minus returns what u is more than v, and 0 for what is less.
func (u Usage) Minus(v Usage) Usage {
	return Usage{max(0, u.Input-v.Input), max(0, u.Cached-v.Cached), max(0, u.Output-v.Output), max(0, u.Cost-v.Cost)}
}

// Spent is all that Of has used; what is zero was not said. Anew says that Of counts from
// the beginning again.
type Spent struct {
	Of    Token
	Usage Usage
	Anew  bool
}

// Reset makes m the message of which nothing is known.
func (m *Message) Reset() { *m = Message{Kind: Unknown, Phase: Note, Seq: -1} }

// Unknown is the kind of a message that its protocol does not have. A message
// has this kind if and only if its faults have [UnknownKind].
var Unknown = []byte("unknown")

// A Token is an id exactly as it is written on the wire, so that 1, 1.0 and
// "1" are three ids and large integers keep every digit. A token of a JSON
// protocol keeps its quotes. The zero Token means that there is none.
type Token struct {
	Space Space
	Text  []byte
}

// IsZero reports whether there is no token.
func (t Token) IsZero() bool { return t.Space == SpaceNone }

// Space is the name space of a token. Tokens of different spaces never name
// the same exchange.
type Space uint8

const (
	SpaceNone     Space = iota // no token
	SpaceID                    // request and correlation ids
	SpaceProgress              // progress tokens
	SpaceSession               // session ids
	SpaceRun                   // run ids
	SpaceTurn                  // turns of an agent
	SpaceTask                  // tasks
	SpaceRetry                 // what a request has in common with its retry
	SpaceStep                  // items and tool calls
	SpaceKind                  // requests that may have no id, by their kind
)

// Phase is what a message does to its exchange.
type Phase uint8

const (
	Note      Phase = iota // belongs to no exchange, or changes nothing
	Open                   // opens the exchange
	Part                   // carries part of the answer
	Close                  // ends the exchange well
	Fail                   // ends the exchange with an error
	Cancel                 // asks that the exchange Ref be ended
	Cancelled              // ends the exchange as cancelled
)

var phaseNames = [...]string{
	Note: "note", Open: "open", Part: "part", Close: "close",
	Fail: "fail", Cancel: "cancel", Cancelled: "cancelled",
}

// Phases returns the names of all phases.
func Phases() []string { return slices.Clone(phaseNames[:]) }

// String returns the phase's name as records and filters spell it.
func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return "phase(?)"
}

// Ends reports whether a message of the phase ends its exchange.
func (p Phase) Ends() bool { return p == Close || p == Fail || p == Cancelled }

// Faults is the set of rules that a message breaks by itself, whatever came
// before it.
type Faults uint32

const (
	UnknownKind   Faults = 1 << iota // the protocol has no such message
	DuplicateKey                     // an object has the same key twice
	UnsafeInteger                    // an id is an integer beyond 2^53-1, which doubles cannot hold
	BadID                            // the id is of a type that the protocol forbids
	BadVersion                       // the jsonrpc member is not "2.0"
	BadParams                        // params, or a prompt, are of a type that the protocol forbids
	BothAnswers                      // two members that exclude each other, such as a result and an error
	NoAnswer                         // an answer carries neither a result nor an error
	MissingField                     // a member that the protocol requires is absent
	UnknownField                     // a member that the protocol does not have, where it forbids others
)
