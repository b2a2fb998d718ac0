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
	"bytes"
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
	// Phase says what the message does to its exchange.
	Phase Phase
	// From is the only direction in which this kind may travel, or frame.DirUnknown if
	// either side may send it.
	From frame.Dir
	// ID names the exchange that the message opens or answers. For an answer
	// without an id of its own it is the token by which it is matched.
	ID Token
	// Ref names the exchange that the message acts on, if that is not its own: the target
	// of a cancel, a progress token, a session. An answer that has an id of its own, as in
	// DAP, answers Ref.
	Ref Token
	// Bind is a second name that an opener gives its exchange, by which later
	// messages refer to it: a progress token, a session id.
	Bind Token
	// Within is the part of a connection in which ID is valid, such as a session that is
	// attached to it. Gone is one that has ended: its open requests get no answer.
	Within, Gone Token
	// Seq is the sequence number of a part, or -1 if parts have none.
	Seq int
	// Count is how many things a message asks for or carries: prompts, results, the
	// messages of a batch. It is 0 if there is nothing to count.
	Count int
	// Stops says about an answer that closes its exchange that its subject was cancelled:
	// that exchange, unless it answers a cancel.
	Stops bool
	// ToolError says about an answer that closes its exchange well that the tool reports an
	// error.
	ToolError bool
	// Reason is why a cancel was sent, in the words of its sender, escapes as written, or
	// why an answer is missing; nil if unknown.
	Reason []byte
	// Multiline says that a JSON payload has line breaks between its tokens, so
	// that it does not fit on a line as it is.
	Multiline bool
	// Faults are the rules that the message breaks by itself.
	Faults Faults
	// Version is the version of the protocol that the message states, without quotes. A
	// request states that of itself and its answer; the answer that begins a session states
	// that of the session. It is nil if the message states none.
	Version []byte
	// Operation is the effect of the message on an operation, besides Phase for its
	// exchange.
	Operation Effect
	// GoesOn says about an answer that ends its exchange well that the operation goes on,
	// under the name Bind or with a retry.
	GoesOn bool
	// Continues says about a request that it continues an operation that went on after the
	// answer to an equal request. Requests are equal in kind, Label, Arguments and State.
	Continues bool
	// Failing says about a part that its operation will fail, unless it is cancelled, and about a
	// failure that a cancelled exchange ends in the same way.
	Failing bool
	// Settles names a question of a message that nobody answers, such as an event: this
	// message answers the question, or says that it no longer needs an answer.
	Settles Token
	// Arguments are those of a request that can be continued, and State is what the retry
	// must send back to the answer's sender, both as written.
	Arguments, State []byte
	// Inputs is an object: the requests of the answer by their keys, or the answers of the
	// retry under the same keys; nil if there are none.
	Inputs []byte
	// Context names the conversation that an event of a stream belongs to, and Piece is the
	// piece that the event brings of a product in pieces.
	Context Token
	Piece   Piece
	// Step is the effect of the message on a step of an operation: an item, a tool call.
	Step Step
	// Begins says about a part that the turn Ref begins in this session or thread: for the
	// request there that waits for a turn, as a part of the turn Bind, or for nobody.
	Begins Token
	// Waiting is what the message says about a request that waits in the operation Ref, by the
	// id that its answer has given to it: the id (Close), that it is taken (Part), or without an
	// id that all those that wait are dropped (Cancelled).
	Waiting Effect
	// Queue is what the message says about prompts that wait for their turn, where a
	// protocol has such a queue.
	Queue Queue
	// Model is the model that is asked or answers, and StopReason why it stopped, which may
	// be the code of an error, both in the words of its provider, with escapes as written;
	// nil if the message does not say.
	Model, StopReason []byte
	// Empty says about a part that it brings no content: it is an announcement or a ping.
	Empty bool
	// Usage is the usage of a model. Counts says what it counts, or what later messages of the
	// peer count.
	Usage  Usage
	Counts Counts
	// Spent is the usage so far of the session or the thread that the message is about. If
	// it counts tokens, those of the message are its growth, and Usage counts only if
	// nothing was counted before.
	Spent Spent
	// Label and Text are for readers: a short word (a tool's name, an error code) and a
	// longer text (the prompt, the params as written). Either may be nil. They are used
	// only in summaries.
	Label, Text []byte
}

// An Effect is the effect of a message on an operation. Open says that the exchange of the
// message belongs to the operation, and Part of a request that it brings more for it; the
// other phases are as for exchanges. The zero token names the operation of the message's
// own exchange.
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

// A Queue says what becomes of prompts that wait for their turn. Open says that the prompt Of
// waits, or without Of that a turn may begin now; Part that the turn of Of, or of some prompt, has
// begun; the phases of an end that Of has left the queue and gets no answer of its own.
type Queue struct {
	Does Phase
	Of   Token
	// Names are ids of prompts, as written: a list, or one. An answer that ends a turn answers
	// these. The answer to a request that empties the queue keeps them.
	Names []byte
	// Own is the origin of a turn for which the client's user has not asked: the agent
	// itself, or someone for whom the client speaks. It is nil for the user.
	Own []byte
	// Empties says about a request that it drops all prompts that wait.
	Empties bool
}

// Usage counts the tokens that a model read and wrote, and their cost in millionths of a
// dollar. Cached is the part of the input that was read from a cache. Perhaps are tokens that
// may belong to it, too: a peer does not say what it counts.
type Usage struct {
	Input, Cached, Output, Cost int64
	// Written is the part of the input that was written to a cache, and Kept the part of that which
	// the cache keeps for an hour.
	Written, Kept int64
	// Listed is the part of the cost by list prices, and Priced that by the user's. The rest is reported.
	Listed, Priced int64
	// Apart means that list prices do not hold: for another tier of service, speed or place, or for audio.
	Apart bool

	Perhaps Tokens
}

// Tokens are numbers of tokens, like those of [Usage].
type Tokens struct{ Input, Cached, Output int64 }

// IsZero reports whether nothing was counted.
func (u Usage) IsZero() bool { return u == (Usage{}) }

// IsUnclear reports whether more tokens may belong to it.
func (u Usage) IsUnclear() bool { return u.Perhaps != (Tokens{}) }

// Counts is what a usage counts: that of a turn or, in some peers, that of the session so far.
type Counts uint8

const (
	CountsTurn     Counts = iota
	CountsAsAgreed        // depends on the peer; unclear if it has not said who it is
	PeerCountsTurn        // in the messages that follow
	PeerCountsSession
)

// Plus returns the sum of both.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		u.Input + v.Input, u.Cached + v.Cached, u.Output + v.Output, u.Cost + v.Cost,
		u.Written + v.Written, u.Kept + v.Kept, u.Listed + v.Listed, u.Priced + v.Priced, u.Apart || v.Apart,
		Tokens{u.Perhaps.Input + v.Perhaps.Input, u.Perhaps.Cached + v.Perhaps.Cached, u.Perhaps.Output + v.Perhaps.Output},
	}
}

// Minus returns how much more u is than v, with 0 for less.
func (u Usage) Minus(v Usage) Usage {
	return Usage{
		Input: max(0, u.Input-v.Input), Cached: max(0, u.Cached-v.Cached), Output: max(0, u.Output-v.Output), Cost: max(0, u.Cost-v.Cost),
		Written: max(0, u.Written-v.Written), Kept: max(0, u.Kept-v.Kept), Listed: max(0, u.Listed-v.Listed), Priced: max(0, u.Priced-v.Priced), Apart: u.Apart,
	}
}

// Spent is the total usage of Of; members that were not given are zero. Anew says that the
// count begins again.
type Spent struct {
	Of    Token
	Usage Usage
	Anew  bool
}

// Reset makes m the message without a meaning.
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
	SpaceRetry                 // shared by a request and its retry
	SpaceStep                  // items and tool calls
	SpaceKind                  // requests that may have no id, by their kind
)

// Phase says what a message does to its exchange.
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
	UnknownField                     // a member that the protocol does not have and forbids
	NullID                           // an error without an id does not say that the request could not be read
	LoneSurrogate                    // a string has the escape of a surrogate without its pair
)

// impatience lists, in lower case, how SDKs word a timeout in the reason of a cancel.
var impatience = [][]byte{
	[]byte("timed out"),         // TypeScript, Python, C#: "Request timed out", "Timed out while waiting for response"
	[]byte("timeout"),           // TypeScript's "Maximum total timeout exceeded", Rust's "request timeout", Python's TimeoutError, Java's TimeoutException
	[]byte("deadline exceeded"), // Go: "context deadline exceeded"
}

// Impatience returns the words in the reason of a cancel which say that it is a timeout; nil if it
// is none. Records without texts keep them.
func Impatience(reason []byte) []byte {
	lower := bytes.ToLower(reason)
	if len(lower) != len(reason) {
		lower = reason // a letter changes its size
	}
	for _, words := range impatience {
		if at := bytes.Index(lower, words); at >= 0 {
			return reason[at : at+len(words)]
		}
	}
	return nil
}
