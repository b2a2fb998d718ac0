package agents

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/otlp"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/agentlog"
	"github.com/wirectl/wirectl/source"
)

// Telemetry is the form of spans and log records of OpenTelemetry as JSON: one text, or one on each line.
// It was tried with those of Claude Code 2.1.197, and by the conventions for generative AI. The types of
// go.opentelemetry.io/proto do not read it: OTLP writes ids in hexadecimal, against the mapping of protobuf.
var Telemetry = &source.Form{
	Name: "otlp", About: "telemetry (OTLP)",
	Lines:    []string{"resourceSpans.0.scopeSpans", "resourceLogs.0.scopeLogs", "resourceMetrics.0.scopeMetrics"},
	Document: []string{"resourceSpans.0.scopeSpans", "resourceLogs.0.scopeLogs", "resourceMetrics.0.scopeMetrics"},
	Open:     openTelemetry, Instead: "have the agent export traces or logs",
}

const (
	// maxSpans bounds the spans that wait for the one they are part of, and maxSpanText their texts, in bytes.
	maxSpans    = 1 << 17
	maxSpanText = 64 << 20
	maxDepth    = 64
)

type (
	batch struct {
		Spans []struct {
			Resource resource `json:"resource"`
			Scopes   []struct {
				Spans []spanRecord `json:"spans"`
			} `json:"scopeSpans"`
		} `json:"resourceSpans"`
		Logs []struct {
			Resource resource `json:"resource"`
			Scopes   []struct {
				Records []logRecord `json:"logRecords"`
			} `json:"scopeLogs"`
		} `json:"resourceLogs"`
	}
	resource struct {
		Attributes attributes `json:"attributes"`
	}
	spanRecord struct {
		Trace      string          `json:"traceId"`
		ID         string          `json:"spanId"`
		Parent     string          `json:"parentSpanId"`
		Name       string          `json:"name"`
		Start      json.RawMessage `json:"startTimeUnixNano"`
		End        json.RawMessage `json:"endTimeUnixNano"`
		Attributes attributes      `json:"attributes"`
		Status     struct {
			Code    json.RawMessage `json:"code"`
			Message string          `json:"message"`
		} `json:"status"`
	}
	logRecord struct {
		Time       json.RawMessage `json:"timeUnixNano"`
		Observed   json.RawMessage `json:"observedTimeUnixNano"`
		Name       string          `json:"eventName"`
		Attributes attributes      `json:"attributes"`
	}
	attributes []struct {
		Key   string `json:"key"`
		Value struct {
			String json.RawMessage `json:"stringValue"`
			Int    json.RawMessage `json:"intValue"`
			Double json.RawMessage `json:"doubleValue"`
			Bool   json.RawMessage `json:"boolValue"`
		} `json:"value"`
	}
)

// get returns the first of some attributes that there is, as JSON; nil for none.
func (a attributes) get(keys ...string) []byte {
	for _, key := range keys {
		for i := range a {
			if v := &a[i].Value; a[i].Key == key {
				if raw := slices.Concat(v.String, v.Int, v.Double, v.Bool); len(raw) > 0 {
					return raw
				}
			}
		}
	}
	return nil
}

func (a attributes) word(keys ...string) string { return word(a.get(keys...)) }

// number returns an attribute that may be written as a number or a text.
func (a attributes) number(keys ...string) int64 {
	raw := a.get(keys...)
	if text, ok := jsonscan.Unquote(raw); ok {
		raw = text
	}
	return count(raw)
}

// usage returns the tokens of an answer. Those of Claude Code leave the cache out of the input.
func (a attributes) usage() protocol.Usage {
	if a.get("input_tokens", "output_tokens") != nil {
		cached, written := a.number("cache_read_tokens"), a.number("cache_creation_tokens")
		return protocol.Usage{Input: a.number("input_tokens") + written + cached, Cached: cached, Written: written, Output: a.number("output_tokens")}
	}
	return protocol.Usage{
		Input:  a.number(string(otlp.InputTokens), "gen_ai.usage.prompt_tokens"),
		Output: a.number(string(otlp.OutputTokens), "gen_ai.usage.completion_tokens"),
		Cached: a.number(string(otlp.CacheReadTokens)), Written: a.number(string(otlp.CacheWriteTokens)),
	}
}

// nanos returns a time in nanoseconds since 1970, which may be written as a number or a text.
func nanos(raw []byte) time.Time {
	if text, ok := jsonscan.Unquote(raw); ok {
		raw = text
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// A span is a part of the work of an agent.
type span struct {
	id, parent string // with those of their traces
	does       step   // prompt, answer, call, result for how the call around it ended, or 0 for any other
	start, end time.Time
	agentlog.Event
	above *span // that it is a part of
	used  bool  // it has spans in it
}

type telemetry struct {
	file    *source.File
	next    func() ([]byte, error)
	parser  source.Parser
	about   source.About
	queue   source.Queue
	session string
	begun   bool // there is something to tell
	opened  bool
	now     time.Time
	spans   map[string]*span
	waiting []*span // in the order of the file
	events  []spanEvent
	held    int         // bytes of the texts of both
	ignored bool        // something that was told in another way
	turn    turn        // of log records
	early   []spanEvent // answers before the first turn
}

// A turn of log records goes on until the next one.
type turn struct {
	id       string    // "" for none
	answered time.Time // when the last answer came; zero if a call follows it
}

func openTelemetry(f *source.File) (source.Reader, error) {
	t := &telemetry{file: f, spans: map[string]*span{}}
	if f.Live {
		t.next = source.NewLines(f.Reader, true).Next
	} else {
		in := &bounded{r: f.Reader}
		decoder := json.NewDecoder(in)
		t.next = func() (raw []byte, err error) {
			in.left = maxValue
			var value json.RawMessage
			if err = decoder.Decode(&value); errors.Is(err, io.ErrUnexpectedEOF) {
				err = &source.CutError{Offset: decoder.InputOffset()}
			}
			return value, err
		}
	}
	for !t.begun && t.queue.Err == nil {
		t.advance()
	}
	if !t.begun {
		if t.queue.Err == io.EOF {
			return nil, errors.New("it has neither spans nor log records")
		}
		return nil, t.queue.Err
	}
	return t, nil
}

// About implements [source.Reader].
func (t *telemetry) About() source.About { return t.about }

// Next implements [source.Reader].
func (t *telemetry) Next(rec *source.Record) error { return t.queue.Next(rec, t.advance) }

// advance handles the next batch.
func (t *telemetry) advance() {
	text, err := t.next()
	switch {
	case errors.Is(err, source.ErrIdle):
		t.arrange(false) // a turn may go on
		t.queue.Push(source.Record{Kind: source.Idle})
		if !t.begun {
			t.queue.Err = errors.New("it has neither spans nor log records")
		}
	case err != nil:
		t.endTurn()
		if len(t.early) > 0 {
			t.enter(t.early[0].at, "other", agentlog.Event{Name: "outside of turns"})
			t.endTurn()
		}
		t.arrange(true)
		if t.begun {
			t.introduce(t.about.Created)
		}
		if t.ignored {
			t.queue.Push(source.Record{Kind: source.Note, Conn: 1, Time: t.now, Data: []byte("logs and traces of one session tell the same: only those that came first are read")})
		}
		t.queue.Err = err
	default:
		var b batch
		if t.parser.Parse(text, &b) == nil {
			t.takeBatch(&b)
		}
	}
}

func (t *telemetry) takeBatch(b *batch) {
	for _, r := range b.Spans {
		for _, scope := range r.Scopes {
			for i := range scope.Spans {
				if s := &scope.Spans[i]; t.admits(r.Resource.Attributes, s.Attributes, "spans", nanos(s.Start)) {
					t.takeSpan(s)
				}
			}
		}
	}
	for _, r := range b.Logs {
		for _, scope := range r.Scopes {
			slices.SortStableFunc(scope.Records, func(a, b logRecord) int {
				return cmp.Compare(a.Attributes.number("event.sequence"), b.Attributes.number("event.sequence"))
			})
			for i := range scope.Records {
				if l := &scope.Records[i]; t.admits(r.Resource.Attributes, l.Attributes, "logs", nanos(l.Time)) {
					t.takeLog(l)
				}
			}
		}
	}
}

// admits notes who tells, and reports whether the session was not told in the other way.
func (t *telemetry) admits(who, of attributes, way string, at time.Time) bool {
	session := of.word("session.id", string(otlp.ConversationID), "copilot_chat.chat_session_id")
	if !t.begun {
		program, version := cmp.Or(who.word("service.name"), "a program"), who.word("service.version")
		t.about = source.About{
			Created: at, Controller: "user", Unit: program + " (as it tells)", Teller: strings.TrimSpace(program + " " + version),
		}
		t.begun, t.session = true, session
	}
	other := "spans"
	if way == other {
		other = "logs"
	}
	if session != "" && t.file.Seen.Has([]byte("otlp "+other+" "+session)) {
		t.ignored = true
		return false
	}
	t.file.Seen.Once([]byte("otlp " + way + " " + session))
	return true
}

// add holds an event until the order is known.
func (t *telemetry) add(at time.Time, rank int, e agentlog.Event) {
	t.events = append(t.events, spanEvent{e, at, rank})
}

// pass passes an event on. Time does not go back.
func (t *telemetry) pass(at time.Time, e agentlog.Event) {
	t.introduce(at)
	if at.After(t.now) {
		t.now = at
	}
	t.queue.Push(source.Record{Conn: 1, Dir: agentlog.Dir(e.Type), Time: t.now, Protocol: agentlog.Spec.Name(), Data: e.Append(nil)})
}

// introduce tells who tells, once.
func (t *telemetry) introduce(at time.Time) {
	if !t.opened {
		t.opened = true
		t.queue.Push(source.Record{Kind: source.Opened, Conn: 1, Time: at, Data: []byte("user → " + t.about.Unit)})
		program, version, _ := strings.Cut(t.about.Teller, " ")
		t.pass(at, agentlog.Event{Type: agentlog.Session, ID: t.session, Name: program, Version: version})
	}
}

// steps are what spans are by their attributes; others are calls with the name of the span.
var steps = map[string]step{
	"interaction": prompt, "llm_request": answer, "tool": call, "tool.execution": result, "tool.blocked_on_user": remark, // of Claude Code
	"invoke_agent": prompt, "create_agent": prompt, "invoke_workflow": prompt, "execute_tool": call,
	"chat": answer, "text_completion": answer, "generate_content": answer,
}

// takeSpan holds a span until that which it is a part of is known.
func (t *telemetry) takeSpan(r *spanRecord) {
	a := r.Attributes
	s := &span{
		id: r.Trace + " " + r.ID, parent: r.Trace + " " + r.Parent, start: nanos(r.Start), end: nanos(r.End),
		does: steps[a.word("span.type", string(otlp.OperationName))],
	}
	if s.end.Before(s.start) {
		s.end = s.start
	}
	if r.Parent == "" || strings.Trim(r.Parent, "0A=") == "" {
		s.parent = ""
	}
	if r.ID == "" || t.spans[s.id] != nil || s.start.IsZero() {
		return
	}
	failed := string(r.Status.Code) == "2" || word(r.Status.Code) == "STATUS_CODE_ERROR" || string(a.get("success")) == "false" || a.get("error.type") != nil
	if failed {
		s.Outcome, s.Reason = agentlog.Failed, reasonIn(jsonscan.AppendQuote(nil, []byte(cmp.Or(r.Status.Message, a.word("error", "error.message", "error.type")))))
	}
	switch s.does {
	case prompt:
		s.ID, s.Name = r.ID, a.word("gen_ai.agent.name")
		s.Text = bytes.Clone(promptIn(a.get("user_prompt", "gen_ai.input.messages")))
	case answer:
		s.ID, s.Model = cmp.Or(a.word("request_id", string(otlp.ResponseID)), r.ID), a.word(string(otlp.ResponseModel), string(otlp.RequestModel), "model")
		s.Name, s.Usage, s.StopReason = r.Name, a.usage(), a.word("stop_reason")
	case remark:
		return
	default: // a call, or what is shown as one
		s.ID, s.Name = cmp.Or(a.word("tool_use_id", "gen_ai.tool.call.id"), r.ID), cmp.Or(a.word("tool_name", string(otlp.ToolName)), r.Name)
		s.Server = serverIn(&s.Name)
		s.Arguments = argumentsIn(a.get("tool_input", "full_command", "gen_ai.tool.call.arguments"))
		s.Text = bytes.Clone(a.get("gen_ai.tool.call.result"))
		if s.does == call && failed {
			s.Outcome = agentlog.ToolError
		}
	}
	t.spans[s.id] = s
	t.waiting = append(t.waiting, s)
	t.hold(&s.Event)
}

// hold counts what waits, and ends the waiting when it is too much.
func (t *telemetry) hold(e *agentlog.Event) {
	if t.held += len(e.Text) + len(e.Arguments); len(t.waiting)+len(t.events) > maxSpans || t.held > maxSpanText {
		t.arrange(true)
	}
}

// promptIn returns the prompt, as JSON, in a text or in messages by the conventions.
func promptIn(raw []byte) []byte {
	text, _ := jsonscan.Unquote(raw)
	if messages := itemsOf(text); len(messages) > 0 {
		for _, part := range itemsOf(get(messages[len(messages)-1], "parts")) {
			if has(part, "type=text") {
				return get(part, "content")
			}
		}
	}
	return raw
}

// argumentsIn returns the arguments of a call: JSON, which may be inside a text.
func argumentsIn(raw []byte) []byte {
	if text, ok := jsonscan.Unquote(raw); ok && jsonscan.WellFormed(text) == nil {
		return bytes.Clone(text)
	}
	return bytes.Clone(raw)
}

// serverIn returns the server of a tool of MCP, and shortens its name.
func serverIn(name *string) (server string) {
	rest, ok := strings.CutPrefix(*name, "mcp__")
	if !ok {
		return ""
	}
	server, tool, _ := strings.Cut(rest, "__")
	*name = server + "/" + tool
	return server
}

// arrange passes on the spans whose trees are complete, or all of them.
func (t *telemetry) arrange(everything bool) {
	lacking := map[string]bool{} // traces with a span whose parent did not come
	trace := func(s *span) string { id, _, _ := strings.Cut(s.id, " "); return id }
	for _, s := range t.waiting {
		if s.above = t.spans[s.parent]; s.above != nil {
			s.above.used = true
		} else if s.parent != "" {
			lacking[trace(s)] = true
		}
		if s.does == result && s.above != nil && s.above.does == call && s.above.Outcome == "" && s.Outcome != "" {
			s.above.Outcome, s.above.Reason = agentlog.ToolError, s.Reason
		}
	}
	var ready, rest []*span
	for _, s := range t.waiting {
		if everything || !lacking[trace(s)] {
			ready = append(ready, s)
		} else {
			rest = append(rest, s)
		}
	}
	for _, s := range ready {
		t.addSpan(s)
	}
	slices.SortStableFunc(t.events, func(a, b spanEvent) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.rank, b.rank))
	})
	for _, e := range t.events {
		if e.Type == agentlog.Answer {
			growth, first := t.file.Seen.Growth([]byte("otlp answer "+e.ID), e.Usage)
			if e.Begins, e.Usage = first && growth != (protocol.Usage{}), growth; !first && growth == (protocol.Usage{}) && e.Text == nil {
				continue
			}
		}
		t.pass(e.at, e.Event)
	}
	t.waiting, t.events = rest, t.events[:0]
	if len(rest) == 0 {
		t.held = 0
		clear(t.spans)
	}
}

type spanEvent struct {
	agentlog.Event
	at   time.Time
	rank int // at one time: begins from the outside, then ends from the inside
}

// isTurn reports whether the span is a turn: what contains others, unless it is a call or an answer.
func (s *span) isTurn() bool {
	return s.does == prompt || s.does == 0 && s.used || s.does == answer && s.turnAbove() == nil
}

// turnAbove returns the turn that the span is in; nil for none.
func (s *span) turnAbove() *span {
	for above, n := s.above, 0; above != nil && n < maxDepth; above, n = above.above, n+1 {
		if above.does == prompt || above.does == 0 && above.used {
			return above
		}
	}
	return nil
}

func (s *span) turnID() string {
	_, id, _ := strings.Cut(s.id, " ")
	return id
}

// addSpan adds the events that a span makes.
func (t *telemetry) addSpan(s *span) {
	depth := 0
	for above := s.above; above != nil && depth < maxDepth; above = above.above {
		depth++
	}
	const middle, most = maxDepth, 3 * maxDepth
	turn := ""
	if above := s.turnAbove(); above != nil {
		turn = above.turnID()
	}
	if s.isTurn() {
		begin := agentlog.Event{Type: agentlog.Prompt, Turn: s.turnID(), Of: turn, Name: s.Name}
		if s.does == prompt {
			begin.Text = s.Text
		}
		t.add(s.start, depth, begin)
		t.add(s.end, most-depth, agentlog.Event{Type: agentlog.End, Turn: s.turnID(), Reason: s.Reason, Outcome: s.Outcome})
		turn = s.turnID()
	}
	switch {
	case s.does == answer && s.Outcome != "":
		t.add(s.end, middle, agentlog.Event{Type: agentlog.Retry, Turn: turn, Reason: "failed: " + s.Reason})
	case s.does == answer:
		s.Type, s.Turn, s.Name = agentlog.Answer, turn, ""
		t.add(s.end, middle, s.Event)
	case s.isTurn(), s.does == result && s.above != nil:
	default:
		t.add(s.start, depth, agentlog.Event{Type: agentlog.Call, Turn: turn, ID: s.ID, Name: s.Name, Server: s.Server, Arguments: s.Arguments})
		t.add(s.end, most-depth, agentlog.Event{Type: agentlog.Result, Turn: turn, ID: s.ID, Outcome: s.Outcome, Reason: s.Reason, Text: s.Text})
	}
}

// takeLog takes a log record of Claude Code.
func (t *telemetry) takeLog(l *logRecord) {
	a := l.Attributes
	at := nanos(l.Time)
	if at.IsZero() {
		at = nanos(l.Observed)
	}
	id := short(a.word("prompt.id"))
	key := cmp.Or(a.word("request_id"), a.word("event.timestamp")+a.word("event.sequence"))
	e := agentlog.Event{Turn: id, ID: key}
	switch strings.TrimPrefix(a.word("event.name"), "claude_code.") {
	case "user_prompt":
		t.endTurn()
		t.enter(at, id, agentlog.Event{Text: bytes.Clone(a.get("prompt"))})
		return
	case "api_request", "assistant_response":
		e.Type, e.Model, e.Text, e.Usage = agentlog.Answer, a.word("model"), bytes.Clone(a.get("response")), a.usage()
		if id == "" && t.turn.id == "" && len(t.early) < maxSpans {
			t.early = append(t.early, spanEvent{e, at, 0})
			return
		}
	case "api_error":
		e.Type, e.Reason = agentlog.Retry, fmt.Sprintf("attempt %d failed: %s", a.number("attempt"), reasonIn(a.get("error")))
	case "tool_result":
		e.Type, e.ID, e.Name = agentlog.Call, cmp.Or(a.word("tool_use_id"), key), a.word("tool_name")
		e.Server, e.Arguments = serverIn(&e.Name), argumentsIn(a.get("tool_input", "tool_parameters"))
	default:
		return
	}
	if id != t.turn.id && id != "" { // its beginning is not in the file
		t.endTurn()
		t.enter(at, id, agentlog.Event{})
	}
	e.Turn = t.turn.id
	switch t.hold(&e); e.Type {
	case agentlog.Call:
		t.turn.answered = time.Time{}
		t.add(at.Add(-time.Duration(a.number("duration_ms"))*time.Millisecond), 0, e)
		end := agentlog.Event{Type: agentlog.Result, Turn: id, ID: e.ID}
		if success := a.get("success"); string(success) == "false" || word(success) == "false" {
			end.Outcome, end.Reason = agentlog.ToolError, reasonIn(a.get("error", "error_type"))
		}
		t.add(at, 0, end)
	default:
		if t.add(at, 0, e); e.Type == agentlog.Answer {
			t.turn.answered = at
		}
	}
}

// enter begins a turn of log records, with the answers before it, such as that with a title.
func (t *telemetry) enter(at time.Time, id string, e agentlog.Event) {
	e.Type, e.Turn = agentlog.Prompt, id
	t.turn = turn{id: id}
	t.hold(&e)
	t.add(at, 0, e)
	for _, e := range t.early {
		e.Turn = id
		t.add(at, 0, e.Event)
		t.turn.answered = at
	}
	t.early = nil
}

// endTurn ends the turn of log records, if it has its last answer.
func (t *telemetry) endTurn() {
	if t.turn.id != "" && !t.turn.answered.IsZero() {
		t.add(t.turn.answered, 0, agentlog.Event{Type: agentlog.End, Turn: t.turn.id})
	}
	t.turn = turn{}
}
