package protocol

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/frame"
)

// Rules describe how the sessions of a protocol differ from others: what its specification
// demands of messages taken together. They are a literal value beside each parser.
// [Message] and Rules are all that package session knows about a protocol. The zero Rules
// demand nothing.
type Rules struct {
	// UniqueIDs forbids opening an exchange under an id that is still open from the same
	// side. If it is false, equal ids are answered first in, first out.
	UniqueIDs bool
	// Sequenced parts are numbered from 0, without gap or repeat.
	Sequenced bool
	// Counted answers carry as many results as the request has prompts.
	Counted bool
	// Opening are the kinds that the controller's first message on a connection may have;
	// nil allows any. If Framing is set, this is judged only on plain streams: in a carrier
	// a session can have several connections.
	Opening []string
	// Ack is the kind of the first answer to every request, which is no part of the answer
	// proper; "" if there is none.
	Ack string
	// Final says that the end of an exchange is required even if the connection ends first:
	// a missing one is "no-final".
	Final bool
	// MayLeave allows a side to go away while its requests are open: that they
	// are unanswered then is worth a note, not an error.
	MayLeave bool
	// MayHangUp allows the side that asks to hang up while it waits: that its requests
	// are unanswered then is worth a note. It is an error if the side that was to answer
	// is known to have ended the connection first.
	MayHangUp bool
	// OneSided says that one side sends everything, both the messages that open an exchange
	// and those that end it.
	OneSided bool
	// LoneFailures says that a failure of no open exchange is an exchange of its own that failed: what
	// opens one comes only after the first answer.
	LoneFailures bool
	// LeavingCancels says that the side which ends its direction of a connection first
	// cancels its open requests by that.
	LeavingCancels bool
	// EndsWithInput says that the unit exits when its standard input ends.
	EndsWithInput bool
	// Dismiss are the kinds by which a controller tells its unit to leave, even if
	// exchanges are open.
	Dismiss []string
	// EndsOpen says that requests may be open when a session ends, and get no answer then: by
	// Dismiss, or on another connection, so that a unit that ends this one need not have failed.
	EndsOpen bool
	// Subscribe is the kind that opens an exchange without end. In it messages
	// of the kind Update are parts, though they close other exchanges, and any
	// other close ends all subscriptions of the connection.
	Subscribe, Update string
	// Endless are the kinds of requests that need not be answered before the connection
	// ends: subscriptions. Either side may end one by a cancel, and the answer may follow.
	Endless []string
	// EndlessAck is the kind of the first part of the answer to those; "" for any.
	EndlessAck string
	// LooseRefs allows references to things that no message of the session
	// has opened or that have ended: sessions, progress of the server's own.
	LooseRefs bool
	// Streamed says that an exchange is a stream in both directions: messages that its
	// opener sends under its id, without a phase, are more of the request. Nothing is
	// missed of an exchange that was open before the session began.
	Streamed bool
	// Reset is the kind by which a carrier breaks an exchange off. It may follow the end,
	// which it does not undo.
	Reset string
	// Shared are the spaces whose tokens name exchanges of all connections, so that one
	// connection can cancel or continue what another opened.
	Shared []Space
	// Accepted are the kinds of requests whose good answer only accepts them. The
	// operation goes on, under the second name of the request or the answer, until a
	// message ends it.
	Accepted []string
	// Queued says that a prompt waits for its turn, and that the unit also takes turns of
	// its own: see [Queue]. Prompts, and the messages of a turn, have the empty token of
	// SpaceTurn.
	Queued bool
	// Waits says that an accepted request which joins an operation waits there until the unit
	// takes it: see [Message.Waiting]. If it never does, it may be dropped.
	Waits bool
	// MayRetry says that the unit may go on with an operation after a message that it has
	// failed. The next message tells: by an effect that opens the operation again, or by
	// one that is a part of it and leaves that to a later message.
	MayRetry bool
	// Streams are the kinds of requests that are answered by the events of a stream: by any
	// number of parts, and of answers after which the operation goes on. Any other answer
	// ends the stream, and so does its carrier; the operation goes on after that.
	Streams []string
	// Announced streams that begin an operation name it in their first event, or end with
	// that.
	Announced bool
	// Elsewhere says that an answer may come in another HTTP response than that to its
	// request. Polls says that a response which has given ids to events may end before the
	// answer: the client asks for the rest.
	Elsewhere, Polls bool
	// StatesVersion says that the head of a request over HTTP states the version.
	StatesVersion bool
	// OneVersion says that an answer has the version of its request.
	OneVersion bool
	// Versions are the rules of the versions that differ from these, in the order of the
	// versions, and Newest is the newest version that is known; both are empty if all
	// versions have the same rules.
	Versions []VersionRules
	Newest   string
	// Asks is the only direction of requests; their answers travel in the other. It is
	// frame.DirUnknown if both sides ask.
	Asks frame.Dir
	// Handshake is how a session over a plain stream begins: with a request and, after its
	// answer, a notification. Requests of other kinds than Early wait for it.
	Handshake Handshake
	// Uncancellable are the kinds of requests that may not be cancelled.
	Uncancellable []string
	// Repeated is the code of an error after which a client may repeat its request, better
	// put; "" for none.
	Repeated string
	// IsProbe reports whether the failure of a request of the kind asked only says that the peer
	// does not have what a client may look for. The failure is of the kind answer, and has a
	// code. Declared are the features that the session has declared. It may be nil.
	IsProbe func(asked, answer, code string, declared Features) bool
	// Judge finds broken rules that [Message.Faults] do not cover, because only some
	// versions have the rule or because it is about more than the message. It may be nil.
	// Features names the features that requests declare.
	Judge    func(*Judged)
	Features []string
	// Session returns the id of the session that an answer to a request of the kind opened
	// has made, like the tokens of SpaceSession; nil for none. It may be nil.
	Session func(opened string, answer *Message, payload []byte) []byte
	// Options returns the choices that a request of the kind asked offers, or the choice of
	// its answer, as JSON; nil if there is none. It may be nil.
	Options func(asked string, m *Message, payload []byte) [][]byte
	// Steps says that a step of an operation begins before it goes on.
	Steps bool
	// Totals says that the total usage of a session or a thread never falls.
	Totals bool
	// Cancels say what must follow a cancel, by its kind; the entry without a kind is for
	// all other kinds.
	Cancels []CancelRule
	// Framing is the only framing that both sides use on a plain stream, such as a pipe;
	// nil if there are several.
	Framing frame.Framing
	// Varies are the members of messages that differ in each session, such as times. A diff ignores them.
	Varies []string
	// NoWire says that the messages were on no wire: a program tells them about itself. They have no
	// sizes, and their times do not show how fast an answer came.
	NoWire bool
	// NoOutput says that an answer tells only how the work ended, and not what came out of it.
	NoOutput bool
	// Outlined says that an outline of a session keeps what the rules need, such as ids; see
	// capture.Redaction.
	Outlined bool
	// Sources are pairs: a finding, and the sentence of this protocol that it breaks, if
	// that is not the sentence that all protocols share.
	Sources [][2]string
}

// A Handshake is how a session begins. The zero Handshake demands nothing.
type Handshake struct {
	Request, Notification string
	Early                 []string
}

// VersionRules are the rules from a version on.
type VersionRules struct {
	From  string
	Rules *Rules
}

// At returns the rules of a version. A version newer than all that are known has the
// rules of the newest.
func (r *Rules) At(version string) *Rules {
	at := r
	for _, v := range r.Versions {
		if CompareVersions(version, v.From) >= 0 {
			at = v.Rules
		}
	}
	return at
}

// IsNewer reports whether a version is newer than all that are known.
func (r *Rules) IsNewer(version string) bool {
	return r.Newest != "" && CompareVersions(version, r.Newest) > 0
}

// CompareVersions compares two versions part by part. Dots and hyphens separate parts;
// numbers are compared by value, anything else as text, and a missing part is 0.
func CompareVersions(a, b string) int {
	for a != "" || b != "" {
		var x, y string
		x, a = cutPart(a)
		y, b = cutPart(b)
		byLength := 0
		if isNumber(x) && isNumber(y) {
			x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
			byLength = cmp.Compare(len(x), len(y))
		}
		if c := cmp.Or(byLength, strings.Compare(x, y)); c != 0 {
			return c
		}
	}
	return 0
}

// cutPart returns the first part of a version, and the rest.
func cutPart(version string) (part, rest string) {
	if i := strings.IndexAny(version, ".-"); i >= 0 {
		return version[:i], version[i+1:]
	}
	return version, ""
}

// isNumber reports whether a part has digits alone, or none.
func isNumber(part string) bool { return strings.Trim(part, "0123456789") == "" }

// IsShared reports whether tokens of a space name exchanges of all connections.
func (r *Rules) IsShared(s Space) bool { return slices.Contains(r.Shared, s) }

// A CancelRule says what must follow a cancel.
type CancelRule struct {
	// Kind is the kind of the cancel, or "" for every other kind.
	Kind string
	// Target says how the cancelled exchange must be answered.
	Target Duty
	// Settles says that it is no more than the word that its target has ended: it cancels
	// a target that was not answered, and confirms that by itself.
	Settles bool
	// Own is how a cancel with an id of its own must be answered.
	Own Duty
}

// Cancel returns the rule for cancels of that kind.
func (r *Rules) Cancel(kind string) CancelRule {
	var other CancelRule
	for _, c := range r.Cancels {
		switch c.Kind {
		case kind:
			return c
		case "":
			other = c
		}
	}
	return other
}

// Duty is the answer that a protocol demands.
type Duty uint8

const (
	MayAnswer     Duty = iota // an answer may come or not
	MustAnswer                // an answer must come, whichever
	MustConfirm               // an answer must come, and say that it was cancelled
	MustNotAnswer             // no answer may come
)

// Source returns the sentence for a finding; "" if there is none of this protocol.
func (r *Rules) Source(finding string) string {
	for _, s := range r.Sources {
		if s[0] == finding {
			return s[1]
		}
	}
	return ""
}

// Judged is a message in its session, as [Rules.Judge] wants it. Judge fills in the last
// three fields.
type Judged struct {
	// Version is the version by which the message is judged; "" if it is not known.
	Version string
	Message *Message
	Payload []byte
	// Asked is the kind of the request that the message answers; "" if none is known.
	Asked string
	// Declared are the features that the requests and answers of the session have declared
	// so far.
	Declared Features
	// Stated is what the head of a request over HTTP says about the message; nil if there
	// is no head.
	Stated *Stated
	// Response is what is judged instead of a message; nil if it is a message.
	Response *Response

	// Broken are the rules that the message breaks.
	Broken []Broken
	// Declares are the features that a request, or the first answer to it, allows its
	// answers; those that other answers declare hold for the session. Needs are the
	// features that the message uses. They are Tolerated without if the version only
	// recommends to declare them.
	Declares, Needs Features
	Tolerated       bool
}

// Response is a successful response over HTTP, or an event of it.
type Response struct {
	Request int64  // the number of the frame with the request
	Verb    string // of the request
	Asks    bool   // the request contains requests of the protocol
	Session bool   // the head of the request names a session
	Status  string
	Media   string // the content type, without parameters
	Body    bool   // there is a body
	// Event means that an event of the response contains no message of the protocol.
	Event bool
}

// Stated is what the head of a request over HTTP says about its message; "" is a missing
// field.
type Stated struct {
	Verb                  string // of HTTP
	Version, Method, Name string
	Arguments             [][2]string // headers that repeat arguments of a tool, and their values
	// Sessionless says that a session was begun at the same address of the connection and
	// that the request names none.
	Sessionless bool
	// Older says that the request is of the transport before 2025-03-26, whose sessions are in the
	// query of the address. Versions since are spoken over it, too, without their headers.
	Older bool
}

// Broken is a broken rule: the name of the finding, and how it was broken. If it is
// Tolerated, it is a warning and not an error. Frames are the numbers of earlier frames
// that it is about, besides that of the request.
type Broken struct {
	Finding, How string
	Tolerated    bool
	Frames       []int64
}

// Features is a set of things that a request can allow its answers. The protocol knows
// their meaning: [Rules.Features] names them, the lowest bit first.
type Features uint32

// maxHow bounds how much is said of a rule that was broken.
const maxHow = 512

// Break notes that the message breaks a rule.
func (j *Judged) Break(finding, format string, args ...any) {
	how := fmt.Sprintf(format, args...)
	j.Broken = append(j.Broken, Broken{Finding: finding, How: strings.ToValidUTF8(how[:min(len(how), maxHow)], "\uFFFD")})
}

// Advise is Break for a rule that peers tolerate to be broken.
func (j *Judged) Advise(finding, format string, args ...any) {
	j.Break(finding, format, args...)
	j.Broken[len(j.Broken)-1].Tolerated = true
}
