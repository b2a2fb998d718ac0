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
	otherOperation
	mixedVersions
	unstatedVersion
	openStream
	unknownStep
	wrongSide
	unanswered
	diedWithOpenRequests
	noFinal
	missingRequest
	missingAck
	cancelUnknown
	cancelIgnored
	cancelSilent
	lateResult
	requestTimeout
	resultCount
	totalFalls
	wrongUsage
	badArguments
	unknownToolCall
	repeatedRequest
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
	wrongFraming
	unknownVersion
	wrongVersion
	headerMismatch
	undeclared
	wrongResult
	wrongRetry
	cancelForbidden
	lineSeparator
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
	otherOperation: {
		"other-operation", Error, "the events of a stream are about one operation",
		"Look for streams that were mixed up on the answering side: text of one task is shown in another.",
	},
	mixedVersions: {
		"mixed-versions", Error, "an answer is of the version of its request",
		"Find out which version each side takes for agreed: peers of one version do not understand the other.",
	},
	unstatedVersion: {
		"unstated-version", Warning, "a request states the version of its protocol",
		"Send the header with each request, and have proxies pass it on: the peer takes the request for one of an older version.",
	},
	openStream: {
		"open-stream", Warning, "a stream ends with its last event",
		"End the answer after that event: clients that read to the end wait for ever.",
	},
	unknownStep: {
		"unknown-step", Warning, "what goes on of a step follows its beginning and comes before its end",
		"Say that the item or the tool call begins before its parts are sent, and send none after its end: clients drop what they cannot place.",
	},
	wrongSide: {
		"wrong-side", Error, "each kind of message is sent by its side",
		"Check which way the two streams were connected; if that is right, the sender takes the wrong role.",
	},
	unanswered: {
		"unanswered", Error, "a request is answered before its connection ends",
		"Look at what the answering side did last. The severity is note where a protocol lets a side leave with requests open.",
	},
	diedWithOpenRequests: {
		"died-with-open-requests", Error, "a unit stays until the requests of its controller are answered",
		"See how the process ended, and what it wrote last to standard error. If it ended on purpose, have it answer first.",
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
	requestTimeout: {
		"request-timeout", Warning, "a request is answered while its client waits",
		"Find out what the server did meanwhile. Report progress from long calls, or let the client wait longer.",
	},
	resultCount: {
		"result-count", Error, "there are as many results as prompts",
		"Answer each prompt, a failed one by an error of its own.",
	},
	totalFalls: {
		"total-falls", Warning, "what a session has used or cost in all never falls",
		"Find the counter that is set back: whoever bills or limits by it counts too little.",
	},
	wrongUsage: {
		"wrong-usage", Warning, "an answer of a model tells what was used, and that adds up",
		"Do not bill or limit by these numbers before it is clear what the provider counts.",
	},
	badArguments: {
		"bad-arguments", Warning, "the arguments of a tool call are JSON",
		"Tell the model what was wrong and let it call again. If it happens often, describe the parameters better or make the schema strict.",
	},
	unknownToolCall: {
		"unknown-tool-call", Error, "a tool result is for a call that the conversation has",
		"Keep the message with the call in the conversation, and give its result the same id.",
	},
	repeatedRequest: {
		"repeated-request", Warning, "a request that costs money is sent once",
		"Look for a retry that does not wait for the answer, or for two callers that could share one.",
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
	wrongFraming: {
		"wrong-framing", Error, "a stream has the framing of its protocol",
		"Write each message as the protocol wants it: the other side waits for a whole message and hangs.",
	},
	unknownVersion: {
		"unknown-version", Note, "the version of the protocol is one that is known",
		"Look for a newer wirectl. The session is judged by the rules of the newest version that this one knows.",
	},
	wrongVersion: {
		"wrong-version", Error, "the version of the protocol has this message",
		"Look up what replaces it in the version that the message states, or agree on an older version.",
	},
	headerMismatch: {
		"header-mismatch", Error, "the head of a request says what its body says",
		"Write the headers from the message that is sent: servers refuse a request whose headers differ.",
	},
	undeclared: {
		"undeclared", Error, "an answer has only what its request declares to take",
		"Declare the capability, log level or notification in the request, or do without it.",
	},
	wrongResult: {
		"wrong-result", Error, "a result is of a kind that its request can have",
		"Answer with a result of the request's own kind.",
	},
	wrongRetry: {
		"wrong-retry", Error, "a retry repeats its request and returns what the answer gave",
		"Send the same request under a new id, with the state byte for byte and answers to what was asked.",
	},
	cancelForbidden: {
		"cancel-forbidden", Error, "a request is cancelled only if it can be",
		"Wait for the answer, or cancel in the way that the protocol has for it.",
	},
	lineSeparator: {
		"line-separator", Note, "a line has no line separators inside",
		"Escape U+2028 and U+2029 as \\u2028 and \\u2029: the JSON is valid, but some readers of lines, such as those of newer Node versions, split there.",
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
	if first := strings.IndexAny(text, `"-0123456789`); first != 0 {
		return strconv.Quote(text)
	}
	return plain(text)
}

// plain returns text from the wire as it is, or quoted if it has what is not printed.
func plain(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
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
