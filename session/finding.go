package session

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/protocol"
)

// A Finding is a rule that a session broke.
type Finding struct {
	// Name is one of the names in [Findings].
	Name string
	// Severity is the severity of the rule, or lower if the protocol allows it.
	Severity Severity
	// Frames are the numbers of the frames it is about, the one that broke the
	// rule last.
	Frames []int64
	Conn   int
	// Rule is the rule that was broken and the protocol that has it.
	Rule string
	// Message says what was found. What it quotes from the wire is quoted as
	// Go does.
	Message string
}

// Severity is how bad a finding is.
type Severity uint8

const (
	Note    Severity = iota // worth knowing
	Warning                 // allowed or tolerated, but likely to hurt someone
	Error                   // breaks the protocol
)

var severityNames = [...]string{Note: "note", Warning: "warning", Error: "error"}

// String returns "error", "warning" or "note".
func (s Severity) String() string {
	if int(s) < len(severityNames) {
		return severityNames[s]
	}
	return "severity(?)"
}

// A Rule is what can be found wrong with a session.
type Rule struct {
	// Name is stable: flags, records and documents use it.
	Name     string
	Severity Severity
	// Rule is the sentence that is broken, unless the protocol has its own.
	Rule string
	// Do is advice for fixing it.
	Do string
}

// rule is an index in [Findings].
type rule uint8

const (
	orphan rule = iota
	afterEnd
	latePart
	duplicateID
	sequenceGap
	sequenceRepeat
	wrongSide
	unanswered
	noFinal
	missingRequest
	missingAck
	cancelUnknown
	cancelIgnored
	cancelSilent
	lateResult
	resultCount
	bothAnswers
	noAnswer
	unknownKind
	missingField
	unknownField
	badVersion
	badParams
	badID
	unsafeID
	duplicateKey
	invalidUTF8
	malformed
	strayOutput
	flawedFraming
	oversize
	truncated
	numRules
)

// Findings is everything that can be found, in the order of the document.
var Findings = [numRules]Rule{
	orphan: {
		"orphan", Error, "an answer belongs to a request",
		"Look for the request in what was not captured. If there was none, the answering side made up or changed the id.",
	},
	afterEnd: {
		"after-end", Error, "nothing answers an exchange that has ended",
		"Find the path on which the answering side ends a request twice, or goes on after its end.",
	},
	latePart: {
		"late-part", Warning, "progress ends with the request that it belongs to",
		"Stop reporting before the answer is written.",
	},
	duplicateID: {
		"duplicate-id", Error, "an id is not used again while its request is open",
		"Number requests from one counter for each connection and side.",
	},
	sequenceGap: {
		"sequence-gap", Error, "parts are numbered without gap",
		"A part was lost or dropped between the unit and here: text is missing.",
	},
	sequenceRepeat: {
		"sequence-repeat", Error, "no number is given to two parts",
		"A part was sent twice or its number was not counted up: text may be doubled.",
	},
	wrongSide: {
		"wrong-side", Error, "each kind of message is sent by its side",
		"Check which way the two streams were connected; if that is right, the sender takes the wrong role.",
	},
	unanswered: {
		"unanswered", Error, "a request is answered before its connection ends",
		"Look at what the answering side did last. The severity is note where a protocol lets a side leave with requests open.",
	},
	noFinal: {
		"no-final", Error, "a run ends with its final message",
		"Send the final message on every path, the failing ones included.",
	},
	missingRequest: {
		"missing-request", Error, "a connection begins with the request",
		"Send the request first; peers close the connection otherwise.",
	},
	missingAck: {
		"missing-ack", Error, "a request is acknowledged before it is answered",
		"Acknowledge before the work begins; clients give up waiting for it.",
	},
	cancelUnknown: {
		"cancel-unknown", Warning, "a cancel names a request that was made",
		"Compare the id with those of the requests: also its type counts, 1 is not \"1\".",
	},
	cancelIgnored: {
		"cancel-ignored", Warning, "a cancelled request ends as cancelled",
		"Check for the cancel while working, and say at the end that it was obeyed.",
	},
	cancelSilent: {
		"cancel-silent", Error, "a cancelled request is answered",
		"Answer the request when it is stopped: whoever cancelled it waits for that.",
	},
	lateResult: {
		"late-result", Warning, "a cancelled request gets no answer",
		"Drop the result of a request that was cancelled more than 250 ms ago.",
	},
	resultCount: {
		"result-count", Error, "there are as many results as prompts",
		"Answer each prompt, a failed one by an error of its own.",
	},
	bothAnswers: {
		"both-answers", Error, "of two members exactly one is given",
		"Leave out the other member, or write null where the protocol wants it written.",
	},
	noAnswer: {
		"no-answer", Error, "an answer has a result or an error",
		"Write the result even if it is empty or null.",
	},
	unknownKind: {
		"unknown-kind", Warning, "the protocol has this kind of message",
		"Check the spelling and the version of the protocol, and that the stream is of this protocol.",
	},
	missingField: {
		"missing-field", Error, "required members are there",
		"Add the member.",
	},
	unknownField: {
		"unknown-field", Error, "only the protocol's own members are there",
		"Remove the member: strict peers refuse the message.",
	},
	badVersion: {
		"bad-version", Error, "the jsonrpc member is \"2.0\"",
		"Write \"jsonrpc\":\"2.0\" into every message.",
	},
	badParams: {
		"bad-params", Error, "params and values are of the type that the protocol wants",
		"Send an object where arrays are refused, and check the types of its members.",
	},
	badID: {
		"bad-id", Error, "an id is of a type that the protocol allows",
		"Use a string or an integer, and the same id everywhere in a message.",
	},
	unsafeID: {
		"unsafe-id", Warning, "an integer id fits into a double",
		"Use smaller numbers or strings: beyond 2^53-1 many peers change the last digits.",
	},
	duplicateKey: {
		"duplicate-key", Warning, "an object has each key once",
		"Remove one: peers differ in which they take.",
	},
	invalidUTF8: {
		"invalid-utf8", Error, "text is UTF-8",
		"Look for text cut inside a character, or in another encoding.",
	},
	malformed: {
		"malformed", Error, "a payload is a message",
		"See the error: it says at which byte. Check the framing and the protocol.",
	},
	strayOutput: {
		"stray-output", Error, "there is nothing on the stream but frames",
		"Send logs and banners to the standard error.",
	},
	flawedFraming: {
		"flawed-framing", Warning, "frames are written as the framing says",
		"Strict peers refuse such a frame: see the error for what is wrong.",
	},
	oversize: {
		"oversize", Error, "a frame keeps to the limit",
		"Send less at once, or raise the limit if both sides agree on it.",
	},
	truncated: {
		"truncated", Error, "a stream ends between frames",
		"The writer was killed or did not flush; or the capture was cut.",
	},
}

// ofFault lists the rules that a message breaks by itself.
var ofFault = [...]struct {
	fault protocol.Faults
	rule  rule
}{
	{protocol.UnknownKind, unknownKind},
	{protocol.DuplicateKey, duplicateKey},
	{protocol.UnsafeInteger, unsafeID},
	{protocol.BadID, badID},
	{protocol.BadVersion, badVersion},
	{protocol.BadParams, badParams},
	{protocol.BothAnswers, bothAnswers},
	{protocol.NoAnswer, noAnswer},
	{protocol.MissingField, missingField},
	{protocol.UnknownField, unknownField},
}

// report adds a finding about some earlier frames and f.
func (t *Tracker) report(r rule, f *Frame, earlier []int64, format string, args ...any) {
	t.addFinding(r, Findings[r].Severity, f.Conn, append(earlier, f.Seq), fmt.Sprintf(format, args...))
}

// addFinding keeps a finding and takes ownership of frames. If the list is full, it
// replaces the oldest finding.
func (t *Tracker) addFinding(r rule, severity Severity, conn int, frames []int64, message string) {
	t.found[r]++
	source := t.rules.Source(Findings[r].Name)
	if source == "" {
		source = Findings[r].Rule
	}
	f := Finding{
		Name: Findings[r].Name, Severity: severity, Frames: frames, Conn: conn,
		Rule: t.protocol.Name() + ": " + source, Message: message,
	}
	t.findings.push(f)
	if t.watch != nil {
		t.watch.Found(f)
	}
}

// quote returns a token as messages show it: as it is written, unless that
// could be mistaken for something else.
func quote(token protocol.Token) string {
	if token.IsZero() {
		return "without an id"
	}
	text := string(clip(token.Text, 64))
	first := strings.IndexAny(text, `"-0123456789`)
	if first != 0 || strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// A ring keeps the newest values.
type ring[T any] struct {
	kept []T
	next int // where the next one goes, once the ring is full
	size int
}

func (r *ring[T]) push(v T) {
	if len(r.kept) < r.size {
		r.kept = append(r.kept, v)
		return
	}
	r.kept[r.next] = v
	r.next = (r.next + 1) % r.size
}

// all yields the values, oldest first.
func (r *ring[T]) all(yield func(T) bool) {
	for i := range r.kept {
		if !yield(r.kept[(r.next+i)%len(r.kept)]) {
			return
		}
	}
}
