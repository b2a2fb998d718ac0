// Package theory parses the messages of theory.run.v1, with which a client runs a tool. Four
// dialects share that name; see [Dialect].
package theory

import (
	"cmp"
	"fmt"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// Protocol is theory.run.v1 in all its dialects. The kind of a message is its kind member; its
// id is the run id, wherever the dialect puts it. The label is the state of the run: a mode,
// phase, status, error code or op. The text is JSON as written: inputs, outputs, a log line, a
// token.
var Protocol protocol.Protocol = theory{"theory"}

// Spec is all that makes theory.
var Spec = protocol.Spec{
	Protocol: Protocol,
	About:    "JSON between a client and a tool's runtime",
	// Rules are the rules of theory.run.v1 sessions. A preempted run also ends with a Response,
	// with the code ERR_PREEMPTED.
	Rules: protocol.Rules{
		UniqueIDs: true,
		Opening:   []string{"Request", "RunOpen"},
		Ack:       "Ack",
		Final:     true,
		Cancels:   []protocol.CancelRule{{Target: protocol.MustConfirm}},
		Sources: [][2]string{
			{"missing-request", "the client's first message is a Request; the runtime closes with 1002 otherwise"},
			{"missing-ack", "the runtime acknowledges a Request before anything else; clients wait 5 s for it"},
			{"no-final", "a run ends with one Response that is final"},
			{"after-end", "nothing follows the final Response of a run"},
			{"cancel-silent", "a preempted run ends with a Response whose code is ERR_PREEMPTED"},
			{"cancel-ignored", "a preempted run ends with a Response whose code is ERR_PREEMPTED"},
			{"missing-field", "a Request names its run, and a Response has a status"},
			{"bad-id", "run_id is a number, or a string that is not blank; the runtime closes with 1008 otherwise"},
		},
	},
	Cancel:    protocol.Cancelling{JSON: `{"kind":"control","content":{"run_id":%[1]s,"op":"preempt"}}`},
	Recognize: recognize,
}

type theory struct{ jsonwalk.Named }

// Parse implements [protocol.Protocol].
func (theory) Parse(payload []byte, m *protocol.Message) error {
	var r run
	return paths.Parse(payload, m, &r, func() {
		r.unwrap()
		r.interpret(m)
	})
}

// A run holds the members of a message, in whichever of the members control, content and data its
// dialect puts them. Words are without quotes; other values are as written.
type run struct {
	kind      []byte `at:"kind,word"`
	inControl bool   `at:"control"`
	inContent bool   `at:"content"`
	isOldest  bool   `at:"control|content|data.execution_id|role"` // so it is of dialect A
	runID     []byte `at:"control|content|data.run_id|execution_id"`
	mode      []byte `at:"control|content|data.mode,word"`
	op        []byte `at:"control|content|data.op,word"`
	phase     []byte `at:"control|content|data.phase,word"`
	status    []byte `at:"control|content|data.status,word"`
	msg       []byte `at:"control|content|data.msg"`  // of a Log
	token     []byte `at:"control|content|data.text"` // of a Token

	beside `at:"control|content|data"`
}

// The members beside the others in some dialects.
type beside struct {
	inputs  []byte `at:"inputs|payload"`
	outputs []byte `at:"outputs"`
	failure []byte `at:"error,set"`
	code    []byte `at:"error.code,word"`
	message []byte `at:"error.message"`

	// envelope is a payload that has an id. Otherwise it is the inputs.
	envelope struct {
		runID   []byte `at:"run_id|execution_id"`
		mode    []byte `at:"mode,word"`
		inputs  []byte `at:"inputs|payload"`
		outputs []byte `at:"outputs"`
	} `at:"payload"`
}

var paths = jsonwalk.PathsOf[run]()

// unwrap takes the members out of an envelope.
func (r *run) unwrap() {
	if e := &r.envelope; e.runID != nil {
		r.isOldest, r.inputs, r.outputs = true, jsonwalk.First(e.inputs, r.inputs), e.outputs
		r.runID, r.mode = jsonwalk.First(r.runID, e.runID), jsonwalk.First(r.mode, e.mode)
	}
}

// label returns the most informative word about the run.
func (r *run) label() []byte { return jsonwalk.First(r.code, r.status, r.phase, r.op, r.mode) }

// text returns the text of the message.
func (r *run) text() []byte {
	return jsonwalk.First(r.message, r.failure, r.token, r.msg, r.inputs, r.outputs)
}

// shape is that of a message of any dialect. Resources of other programs have kinds, too.
var shape = jsonwalk.Shape{Has: `kind"`, MayHave: "control content data inputs outputs payload error"}

// Messages name their run.
func recognize(payload []byte, m *protocol.Message) protocol.Evidence {
	e := protocol.Own((!m.ID.IsZero() || !m.Ref.IsZero()) && shape.Fits(payload))
	if e.Score != protocol.NoScore {
		e.Why = "in " + Seen(payload).String()
	}
	return e
}

// kind describes a kind of message.
type kind struct {
	from  frame.Dir
	phase protocol.Phase
	// terminal kinds end the run, successfully or not.
	terminal bool
	// named kinds must name their run; for others the connection may identify it.
	named bool
}

var kinds = map[string]kind{
	"Request":   {from: frame.C2U, phase: protocol.Open, named: true},
	"RunOpen":   {from: frame.C2U, phase: protocol.Open, named: true},
	"control":   {from: frame.C2U},
	"Ack":       {from: frame.U2C},
	"Event":     {from: frame.U2C, phase: protocol.Part},
	"Log":       {from: frame.U2C, phase: protocol.Part},
	"Token":     {from: frame.U2C, phase: protocol.Part},
	"Response":  {from: frame.U2C, terminal: true},
	"RunResult": {from: frame.U2C, terminal: true},
}

// IsRuntimes reports whether the messages of a kind are made by clients and runtimes, and not by
// tools.
func IsRuntimes(name string) bool {
	k, known := kinds[name]
	return known && k.phase != protocol.Part
}

// interpret fills in the message from its members.
func (r *run) interpret(m *protocol.Message) {
	k, ok := kinds[string(r.kind)]
	if !ok {
		m.Faults |= protocol.UnknownKind
		return
	}
	m.Kind, m.From, m.Phase = r.kind, k.from, k.phase
	m.Label, m.Text = r.label(), r.text()
	m.ID = jsonwalk.Token(r.runID, protocol.SpaceRun)
	m.Faults |= checkRunID(r.runID, k.named)
	if !r.inControl && !r.inContent {
		m.Faults |= protocol.MissingField
	}
	switch {
	case k.terminal:
		r.interpretEnd(m)
	case string(r.kind) == "control":
		// The op acts on a run that another message opened.
		m.ID, m.Ref = protocol.Token{}, m.ID
		if string(r.op) == "preempt" {
			m.Phase = protocol.Cancel
		}
	}
}

// interpretEnd records how a run ended. A preempted run ends with an error code of its own.
func (r *run) interpretEnd(m *protocol.Message) {
	switch {
	case string(r.code) == "ERR_PREEMPTED":
		m.Phase = protocol.Cancelled
	case string(r.status) == "error" || r.status == nil && r.failure != nil:
		m.Phase = protocol.Fail
	default:
		m.Phase = protocol.Close
	}
	if r.status == nil && string(r.kind) == "Response" {
		m.Faults |= protocol.MissingField
	}
}

// checkRunID returns the fault of a run id. A valid one is a number or a string that is not
// blank.
func checkRunID(raw []byte, required bool) protocol.Faults {
	if raw == nil {
		if required {
			return protocol.MissingField
		}
		return 0
	}
	if jsonscan.KindOf(raw) == jsonscan.Number {
		return 0
	}
	for _, c := range jsonwalk.Word(raw) {
		if c != ' ' {
			return 0
		}
	}
	return protocol.BadID
}

// Dialect is one of the four ways of writing theory.run.v1.
type Dialect string

const (
	// A is the oldest: RunOpen has the role of its sender, and a controller sends messages
	// of the kind control.
	A Dialect = "A"
	// B has RunOpen and RunResult, and puts everything in content.
	B Dialect = "B"
	// C is like D, except that Ack, Event, Log and Token carry content.
	C Dialect = "C"
	// D is the documented one: Request and Response, control and data.
	D Dialect = "D"
)

var descriptions = map[Dialect]string{
	A: "dialect A, the oldest",
	B: "dialect B, older than the document",
	C: "dialect C, with content in place of control and data",
	D: "dialect D, the documented one",
}

// String describes the dialect.
func (d Dialect) String() string { return cmp.Or(descriptions[d], "no dialect") }

// ParseDialect returns the dialect with that letter.
func ParseDialect(letter string) (Dialect, error) {
	if d := Dialect(letter); descriptions[d] != "" {
		return d, nil
	}
	return "", fmt.Errorf("%q: want A, B, C or D", letter)
}

// Opener is the kind of the message that opens a run in the dialect.
func (d Dialect) Opener() string {
	if d == A || d == B {
		return "RunOpen"
	}
	return "Request"
}

// Seen returns the dialect of payload, or "" if it is not a message. If several dialects write
// a message alike, it returns the one nearest to the document: D for Request and Response, C
// for a message that carries content.
func Seen(payload []byte) Dialect {
	var s jsonscan.Scanner
	s.Init(payload)
	var r run
	paths.Read(&s, &r)
	r.unwrap()
	if s.End() != nil {
		return ""
	}
	return r.dialect()
}

func (r *run) dialect() Dialect {
	oldestOr := func(other Dialect) Dialect {
		if r.isOldest {
			return A
		}
		return other
	}
	switch string(r.kind) {
	case "control":
		return A
	case "RunOpen", "RunResult":
		return oldestOr(B)
	case "Request", "Response":
		return D
	case "Ack", "Event", "Log", "Token":
		if r.inContent {
			return oldestOr(C)
		}
		return oldestOr(D)
	}
	return ""
}
