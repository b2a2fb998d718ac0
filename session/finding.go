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
	Name string `json:"finding"`
	// Severity is the severity of the rule, or a lower one if the protocol allows the
	// behavior.
	Severity Severity `json:"severity"`
	// Frames are the numbers of the frames concerned. The last one broke the rule.
	Frames []int64 `json:"frames"`
	Conn   int     `json:"-"`
	// Rule is the broken rule and the protocol that defines it.
	Rule string `json:"rule"`
	// Message describes the finding. Text from the wire is quoted as in Go.
	Message string `json:"message"`
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

// MarshalText returns the same.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A Rule is a rule that a session can break.
type Rule struct {
	// Name is stable, because flags, records and documents use it.
	Name     string
	Severity Severity
	// Rule is the text of the broken rule, unless the protocol has its own.
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
	openStep
	wrongSide
	unanswered
	notStarted
	diedWithOpenRequests
	ignoresEOF
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
	loneSurrogate
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
	wrongResponse
	endedSession
	cancelForbidden
	lineSeparator
	flawedFraming
	oversize
	truncated
	lostBetween
	changedBetween
	delayedBetween
	numRules
)

// IgnoresEOF is the name of the finding about a unit that keeps running after the end of its
// standard input. A relay tells it at once.
const IgnoresEOF = "ignores-eof"

// The names of findings about what happened between the two ends of a merged session.
const (
	LostBetween    = "lost-between"
	ChangedBetween = "changed-between"
	DelayedBetween = "delayed-between"
)

// Findings lists all rules, in the order of the document.
var Findings = [numRules]Rule{
	orphan: {
		"orphan", Error, "an answer belongs to a request",
		"The request may not have been captured. If there was none, the answering side invented or changed the id.",
	},
	afterEnd: {
		"after-end", Error, "nothing answers an exchange that has ended",
		"Find the code path that ends a request twice, or continues after its end.",
	},
	latePart: {
		"late-part", Warning, "progress ends with its request",
		"Stop reporting progress before you write the answer.",
	},
	duplicateID: {
		"duplicate-id", Error, "an id is not used again while its request is open",
		"Use one counter per connection and side.",
	},
	sequenceGap: {
		"sequence-gap", Error, "parts are numbered without gaps",
		"A part was lost between the unit and here, so text is missing.",
	},
	sequenceRepeat: {
		"sequence-repeat", Error, "each part has its own number",
		"A part was sent twice, or the counter was not incremented. Text may be doubled.",
	},
	otherOperation: {
		"other-operation", Error, "the events of a stream are about one operation",
		"The answering side mixes up streams: text of one task appears in another.",
	},
	mixedVersions: {
		"mixed-versions", Error, "an answer has the version of its request",
		"Find out which version each side believes was agreed; the two do not understand each other.",
	},
	unstatedVersion: {
		"unstated-version", Warning, "a request states the version of its protocol",
		"Send the header with each request, and configure proxies to keep it. Without it, the peer assumes an older version.",
	},
	openStream: {
		"open-stream", Warning, "a stream ends with its last event",
		"Close the stream after that event: clients that read to the end wait forever.",
	},
	unknownStep: {
		"unknown-step", Warning, "updates of a step come between its start and its end",
		"Announce the item or tool call before its parts, and send none after its end: clients drop updates of unknown steps.",
	},
	openStep: {
		"open-step", Error, "the steps of an operation end before it does",
		"Write the end of each message, tool call and step before the end of the whole: strict clients refuse it.",
	},
	wrongSide: {
		"wrong-side", Error, "each kind of message comes from the right side",
		"Check that the two streams are not swapped. If they are right, the sender plays the wrong role.",
	},
	unanswered: {
		"unanswered", Error, "a request is answered before its connection, or its HTTP response, ends",
		"Look at the last thing the answering side did. The severity is note where the protocol lets a side leave with open requests.",
	},
	notStarted: {
		"not-started", Error, "the unit starts, or can be reached",
		"Run the same command, or connect to the same address, by hand from the same folder and with the same PATH.",
	},
	diedWithOpenRequests: {
		"died-with-open-requests", Error, "a unit keeps running until its open requests are answered",
		"See how the process ended, and its last lines on stderr. If it ended on purpose, answer first.",
	},
	ignoresEOF: {
		IgnoresEOF, Warning, "a unit exits when its stdin has ended",
		"End the process when reading stdin gives its end: close timers, watchers and connections that keep it alive, or exit explicitly. Otherwise it stays behind whenever its client does not kill it.",
	},
	noFinal: {
		"no-final", Error, "a run ends with a final message",
		"Send the final message on every code path, including failures.",
	},
	missingRequest: {
		"missing-request", Error, "a connection begins with its first request",
		"Send that request first; otherwise peers close the connection.",
	},
	missingAck: {
		"missing-ack", Error, "a request is acknowledged before it is answered",
		"Acknowledge before you start working; clients stop waiting otherwise.",
	},
	cancelUnknown: {
		"cancel-unknown", Warning, "a cancel names an existing request",
		"Compare the id with those of the requests, including its type: 1 is not \"1\".",
	},
	cancelIgnored: {
		"cancel-ignored", Warning, "a cancelled request ends as cancelled",
		"Check for cancellation while working, and end the request as cancelled.",
	},
	cancelSilent: {
		"cancel-silent", Error, "a cancelled request is answered",
		"Answer the request once it has stopped: the client waits for that.",
	},
	lateResult: {
		"late-result", Warning, "a cancelled request gets no answer",
		"Discard the result of a cancelled request. Here it came more than 250 ms after the cancel.",
	},
	requestTimeout: {
		"request-timeout", Warning, "a request is answered before its client gives up",
		"Find out what the server was doing. Report progress from long calls, or raise the client's timeout.",
	},
	resultCount: {
		"result-count", Error, "there are as many results as prompts",
		"Answer each prompt; a failed one gets its own error.",
	},
	totalFalls: {
		"total-falls", Warning, "a session's totals of usage and cost never fall",
		"Find the counter that is reset. Bills and limits based on it are too low.",
	},
	wrongUsage: {
		"wrong-usage", Warning, "a model's answer reports its usage, and the numbers add up",
		"Do not base bills or limits on these numbers until you know what the provider counts.",
	},
	badArguments: {
		"bad-arguments", Warning, "the arguments of a tool call are JSON that fits the schema of the tool",
		"Tell the model what was wrong and let it call again. If it happens often, describe the parameters better or make the schema strict.",
	},
	unknownToolCall: {
		"unknown-tool-call", Error, "a tool result belongs to a call in the conversation",
		"Keep the message that contains the call, and give the result the same id.",
	},
	repeatedRequest: {
		"repeated-request", Warning, "a paid request is sent once",
		"Look for a retry that does not wait for the answer, or for two callers that could share one result.",
	},
	bothAnswers: {
		"both-answers", Error, "exactly one of two members is present",
		"Omit the other member, or write null where the protocol requires it.",
	},
	noAnswer: {
		"no-answer", Error, "an answer has a result or an error",
		"Write the result even if it is empty or null.",
	},
	unknownKind: {
		"unknown-kind", Warning, "the protocol has this kind of message",
		"Check the spelling, the protocol's version, and that this is the right protocol.",
	},
	missingField: {
		"missing-field", Error, "required members are present",
		"Add the member.",
	},
	unknownField: {
		"unknown-field", Error, "only the protocol's own members are present",
		"Remove the member: strict peers reject the message.",
	},
	badVersion: {
		"bad-version", Error, "the jsonrpc member is \"2.0\"",
		"Write \"jsonrpc\":\"2.0\" into every message.",
	},
	badParams: {
		"bad-params", Error, "params and values have the right type",
		"Send an object where arrays are not allowed, and check the types of its members.",
	},
	badID: {
		"bad-id", Error, "an id has a type that the protocol allows",
		"Use a string or an integer, and the same id everywhere in a message.",
	},
	unsafeID: {
		"unsafe-id", Warning, "an integer id fits in a double",
		"Use smaller numbers or strings: many peers round integers over 2^53-1.",
	},
	duplicateKey: {
		"duplicate-key", Warning, "an object has no duplicate keys",
		"Remove one: peers differ in which one they use.",
	},
	loneSurrogate: {
		"lone-surrogate", Warning, "an escaped surrogate has its pair",
		"A text was cut inside a character, such as an emoji: cut between characters. Strict parsers reject the message.",
	},
	invalidUTF8: {
		"invalid-utf8", Error, "text is UTF-8",
		"Look for text that was split inside a character, or that has another encoding.",
	},
	malformed: {
		"malformed", Error, "a payload is a message",
		"The error names the byte. Check the framing and the protocol.",
	},
	strayOutput: {
		"stray-output", Error, "the stream contains only frames",
		"Write logs and banners to stderr.",
	},
	wrongFraming: {
		"wrong-framing", Error, "a stream has the framing of its protocol",
		"Use the protocol's framing: the other side waits for a complete message and hangs.",
	},
	unknownVersion: {
		"unknown-version", Note, "the protocol's version is known",
		"Look for a newer wirectl. This one judges the session by the newest version that it knows.",
	},
	wrongVersion: {
		"wrong-version", Error, "this version of the protocol has this message",
		"Look up its replacement in this version, or negotiate an older version.",
	},
	headerMismatch: {
		"header-mismatch", Error, "a request's headers match its body",
		"Derive the headers from the message: servers reject a request whose headers differ.",
	},
	undeclared: {
		"undeclared", Error, "a message uses only what its receiver has declared",
		"Declare the capability, log level or notification, or do not use it.",
	},
	wrongResult: {
		"wrong-result", Error, "a result has the right kind for its request",
		"Answer with the kind of result that the request defines.",
	},
	wrongRetry: {
		"wrong-retry", Error, "a retry repeats its request and returns the state that it was given",
		"Send the same request with a new id, the state unchanged, and answers to what was asked.",
	},
	wrongResponse: {
		"wrong-response", Error, "a response over HTTP has the status, the content type and the events of its protocol",
		"Correct the status or the content type where the server, its framework or a proxy sets it: strict clients give up.",
	},
	endedSession: {
		"ended-session", Error, "a session that was answered by 404 is not used again",
		"After a 404, initialize again without a session id, then repeat the request.",
	},
	cancelForbidden: {
		"cancel-forbidden", Error, "only requests that allow it are cancelled",
		"Wait for the answer, or use the protocol's own way to cancel it.",
	},
	lineSeparator: {
		"line-separator", Note, "a line contains no line separators",
		"Escape U+2028 and U+2029 as \\u2028 and \\u2029: the JSON is valid, but some line readers, such as newer versions of Node's, split there.",
	},
	flawedFraming: {
		"flawed-framing", Warning, "frames follow their framing exactly",
		"Strict peers reject such a frame; the error says what is wrong.",
	},
	oversize: {
		"oversize", Error, "a frame stays within the limit",
		"Send smaller messages, or raise the limit on both sides.",
	},
	truncated: {
		"truncated", Error, "a stream ends between frames",
		"The writer was killed or did not flush, or the capture was cut.",
	},
	lostBetween: {
		LostBetween, Error, "a frame that leaves one end reaches the other",
		"Look at what is between the two captures: a gateway, a filter, a full buffer.",
	},
	changedBetween: {
		ChangedBetween, Warning, "a frame reaches the other end once, as it was sent",
		"Find out what between the two captures changes, adds or repeats frames, and whether it should.",
	},
	delayedBetween: {
		DelayedBetween, Warning, "a frame is not held between the ends",
		"Look at what is between the two captures: a queue, a lock, a buffer that is not flushed.",
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
	{protocol.NullID, badID},
	{protocol.LoneSurrogate, loneSurrogate},
}

// report adds a finding about f and some earlier frames.
func (t *Tracker) report(r rule, f *Frame, earlier []int64, format string, args ...any) {
	t.addFinding(r, Findings[r].Severity, f.Conn, append(earlier, f.Seq), fmt.Sprintf(format, args...))
}

// addFinding keeps a finding and takes ownership of frames. If the list is full, it
// replaces the oldest finding.
func (t *Tracker) addFinding(r rule, severity Severity, conn int, frames []int64, message string) {
	if t.masked && !t.judgesMasked(r) {
		return
	}
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

// Between records what happened to the last frame of a connection between the two ends of a merged session, by
// the name of the finding.
func (t *Tracker) Between(name string, conn int, seq int64, message string) {
	for r := range Findings {
		if Findings[r].Name != name || rule(r) < lostBetween {
			continue
		}
		t.found[r]++
		f := Finding{Name: name, Severity: Findings[r].Severity, Conn: conn, Frames: []int64{seq}, Rule: "merge: " + Findings[r].Rule, Message: message}
		t.findings.push(f)
		if t.watch != nil {
			t.watch.Found(f)
		}
	}
}

// judgesMasked reports whether a rule can be judged where values are masked.
func (t *Tracker) judgesMasked(r rule) bool {
	switch r {
	case wrongFraming, flawedFraming, oversize, truncated, notStarted:
		return true
	case totalFalls, wrongUsage, badArguments, unknownToolCall, repeatedRequest, wrongRetry, duplicateKey:
		return false
	}
	return t.faithful || t.base.Outlined && !t.blank
}

// quote returns a token as written, or quoted if it could be mistaken for something else.
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

// plain returns text from the wire unchanged, or quoted if parts of it are not printable.
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
