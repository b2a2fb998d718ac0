// Package agentlog defines the messages of a session that a program tells about itself: the turns of
// an agent, the answers of its models and its tool calls, as readers of package source find them in
// its files. No such message was on a wire.
package agentlog

import (
	"slices"
	"strconv"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// Spec is the grammar. The kind of a message is its type. A prompt opens a turn, which an end ends. The
// answers of models are parts of the turn. A call of a tool is an exchange in it, and so is the turn of
// a sub-agent. A turn or call without an end may go on while the file is written.
var Spec = protocol.Spec{
	Protocol: events{"agent-log"},
	About:    "what an agent tells about itself in a file",
	Rules: protocol.Rules{
		NoWire:    true,
		LooseRefs: true,
		MayLeave:  true,
		Outlined:  true,
		Endless:   []string{Prompt, Call},
		Shared:    []protocol.Space{protocol.SpaceRun},
		Judge:     judge,
		Sources:   [][2]string{{"unanswered", "a tool call has a result when its turn ends"}},
	},
	Recognize: own.Recognize,
	Kept:      []string{"turn", "of", "outcome", "unanswered", "program", "version"},
	Labels:    protocol.Tools,
}

// The types of events.
const (
	Session    = "session"    // the program and its version
	Prompt     = "prompt"     // opens a turn
	Answer     = "answer"     // of a model, or a part of one
	Call       = "call"       // of a tool
	Result     = "result"     // of a call
	End        = "end"        // of a turn
	Compaction = "compaction" // of the context
	Retry      = "retry"      // of a call of a model
	Remark     = "remark"     // anything else
)

// Outcomes of results and turns; "" is good.
const (
	Failed    = "failed"
	ToolError = "tool-error" // the tool says so
	Cancelled = "cancelled"
)

// An Event is a message. Its text and its arguments are JSON, as written by the program.
type Event struct {
	Type       string
	Turn       string // that it belongs to, begins or ends
	ID         string // of a call, or of the answer of a model
	Of         string // the turn that a turn of a sub-agent belongs to
	Name       string // of the tool, the agent, or the program
	Server     string // of a tool of MCP
	Version    string // of the program
	Outcome    string
	Reason     string // of a bad outcome, or of what happened otherwise
	Model      string
	StopReason string
	Begins     bool // it is the first about this answer of a model
	Usage      protocol.Usage
	FullSize   int64    // bytes of a result that is kept elsewhere
	Unanswered []string // calls without a result in a turn that ended
	Arguments  []byte
	Text       []byte
}

// Append appends the message.
func (e *Event) Append(dst []byte) []byte {
	dst = append(append(append(dst, `{"type":"`...), e.Type...), '"')
	text := func(key, value string) {
		if value != "" {
			dst = append(append(append(dst, `,"`...), key...), `":`...)
			dst = jsonscan.AppendQuote(dst, []byte(value))
		}
	}
	number := func(key string, n int64) {
		if n != 0 {
			dst = append(append(append(dst, `,"`...), key...), `":`...)
			dst = strconv.AppendInt(dst, n, 10)
		}
	}
	raw := func(key string, value []byte) {
		if len(value) > 0 && jsonscan.WellFormed(value) == nil {
			dst = append(append(append(dst, `,"`...), key...), `":`...)
			dst = jsonscan.AppendCompact(dst, value)
		}
	}
	text("turn", e.Turn)
	text("id", e.ID)
	text("of", e.Of)
	text("name", e.Name)
	text("server", e.Server)
	text("version", e.Version)
	text("outcome", e.Outcome)
	text("reason", e.Reason)
	text("model", e.Model)
	text("stop_reason", e.StopReason)
	if e.Begins {
		dst = append(dst, `,"begins":true`...)
	}
	number("input_tokens", e.Usage.Input)
	number("cached_tokens", e.Usage.Cached)
	number("written_tokens", e.Usage.Written)
	number("kept_tokens", e.Usage.Kept)
	number("output_tokens", e.Usage.Output)
	if e.Usage.Apart {
		dst = append(dst, `,"apart":true`...)
	}
	number("full_size", e.FullSize)
	for i, id := range e.Unanswered {
		if i == 0 {
			dst = append(dst, `,"unanswered":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = jsonscan.AppendQuote(dst, []byte(id))
	}
	if len(e.Unanswered) > 0 {
		dst = append(dst, ']')
	}
	raw("arguments", e.Arguments)
	raw("text", e.Text)
	return append(dst, '}')
}

// IsUsual reports whether a tier of service, a speed and a place have the usual price.
func IsUsual(words ...string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !llm.IsUsual([]byte(w)) })
}

// Dir returns the direction in which an event of a type goes. The controller is the user, or the agent
// that asks another.
func Dir(kind string) frame.Dir {
	switch kind {
	case Prompt, Result:
		return frame.C2U
	}
	return frame.U2C
}

type events struct{ jsonwalk.Named }

// A line holds the members of an event: words without quotes, the others as written.
type line struct {
	kind       []byte `at:"type,word"`
	turn       []byte `at:"turn"`
	id         []byte `at:"id"`
	of         []byte `at:"of"`
	name       []byte `at:"name,word"`
	version    []byte `at:"version,word"`
	outcome    []byte `at:"outcome,word"`
	reason     []byte `at:"reason,word"`
	model      []byte `at:"model,word"`
	stopReason []byte `at:"stop_reason,word"`
	begins     bool   `at:"begins,true"`
	input      int64  `at:"input_tokens"`
	cached     int64  `at:"cached_tokens"`
	written    int64  `at:"written_tokens"`
	kept       int64  `at:"kept_tokens"`
	output     int64  `at:"output_tokens"`
	apart      bool   `at:"apart,true"`
	text       []byte `at:"arguments text"`
}

var paths = jsonwalk.PathsOf[line]()

// Parse implements [protocol.Protocol].
func (events) Parse(payload []byte, m *protocol.Message) error {
	var l line
	return paths.Parse(payload, m, &l, func() { l.interpret(m) })
}

// Read reads a message, as far as it counts something: without how calls are named, or why they failed.
func Read(payload []byte) (e Event, ok bool) {
	var l line
	var m protocol.Message
	if paths.Parse(payload, &m, &l, func() {}) != nil {
		return e, false
	}
	return Event{
		Type: string(l.kind), Turn: string(l.turn), ID: string(l.id), Of: string(l.of), Outcome: string(l.outcome),
		Model: string(l.model), Begins: l.begins, Text: l.text,
		Usage: protocol.Usage{Input: l.input, Cached: l.cached, Written: l.written, Kept: l.kept, Output: l.output, Apart: l.apart},
	}, true
}

var kinds = []string{Session, Prompt, Answer, Call, Result, End, Compaction, Retry, Remark}

func (l *line) interpret(m *protocol.Message) {
	if !slices.Contains(kinds, string(l.kind)) {
		m.Faults |= protocol.UnknownKind
		return
	}
	m.Kind, m.Label, m.Text, m.From = l.kind, l.name, l.text, Dir(string(l.kind))
	turn := jsonwalk.Token(l.turn, protocol.SpaceRun)
	switch string(l.kind) {
	case Session:
		m.Version = l.version
	case Prompt:
		m.Phase, m.ID = protocol.Open, turn
		if of := jsonwalk.Token(l.of, protocol.SpaceRun); !of.IsZero() {
			m.Operation = protocol.Effect{Does: protocol.Open, Of: of}
		}
	case Answer:
		m.Phase, m.Ref, m.Empty = protocol.Part, turn, true
		m.Model, m.StopReason = l.model, l.stopReason
		m.Usage = protocol.Usage{Input: l.input, Cached: l.cached, Written: l.written, Kept: l.kept, Output: l.output, Apart: l.apart}
		if l.begins {
			m.Count = 1
		}
	case Call:
		m.Phase, m.ID = protocol.Open, jsonwalk.Token(l.id, protocol.SpaceID)
		m.Operation = protocol.Effect{Does: protocol.Open, Of: turn}
	case Result:
		m.Phase, m.ID = protocol.Close, jsonwalk.Token(l.id, protocol.SpaceID)
		l.ends(m)
	case End:
		m.Phase, m.Ref = protocol.Close, turn
		l.ends(m)
	default:
		m.Text = jsonwalk.First(l.text, l.reason)
	}
}

// ends adds how a call or a turn ended.
func (l *line) ends(m *protocol.Message) {
	m.Reason = l.reason
	switch string(l.outcome) {
	case Failed:
		m.Phase = protocol.Fail
	case ToolError:
		m.ToolError = true
	case Cancelled:
		m.Phase = protocol.Cancelled
	}
	if m.Label == nil {
		m.Label = l.outcome
	}
}

// own are the shapes of events that no other protocol has.
var own = jsonwalk.Shapes{
	Session: {{Has: `type" name" version"`, MayHave: "id"}},
	Prompt:  {{Has: `type" turn"`, MayHave: "of name text"}},
	Answer:  {{Has: `type" turn" id" model"`, MayHave: "*"}},
}

// judge reports calls without a result.
func judge(j *protocol.Judged) {
	if string(j.Message.Kind) != End {
		return
	}
	open, ok := jsonscan.Get(j.Payload, "unanswered")
	if !ok {
		return
	}
	for id := range protocol.Items(open) {
		j.Break("unanswered", "the call %s has no result", id)
	}
}
