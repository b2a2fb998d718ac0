// Package codex reads the rollouts of Codex: a file for each thread, one record per line, which may be
// compressed with zstd. The form is not documented; it was tried with version 0.171.0.
package codex

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/agentlog"
	"github.com/wirectl/wirectl/source"
)

// Form is that of rollouts.
var Form = &source.Form{
	Name: "codex", About: "a rollout of Codex",
	Lines: []string{
		"timestamp type=session_meta payload.id",
		"timestamp payload type=response_item|event_msg|turn_context|compacted|world_state|token_usage_record",
	},
	Open: open, Instead: "check that the file was not changed",
	Place: &source.Place{
		Agent: "codex", Env: "CODEX_HOME", Home: ".codex",
		Files: []string{"sessions/*/*/*/rollout-*.jsonl", "sessions/*/*/*/rollout-*.jsonl.zst", "archived_sessions/rollout-*.jsonl", "archived_sessions/rollout-*.jsonl.zst"},
		ID:    regexp.MustCompile(`-([0-9a-f]{8}-[0-9a-f-]{27})\.jsonl(?:\.zst)?$`),
	},
}

// A record is a line.
type record struct {
	Timestamp time.Time `json:"timestamp"`
	Type      string    `json:"type"`
	Payload   payload   `json:"payload"`
}

// A payload has the members of all types.
type payload struct {
	Type    string          `json:"type"`
	ID      string          `json:"id"`
	Version string          `json:"cli_version"`
	Folder  string          `json:"cwd"`
	Parent  string          `json:"parent_thread_id"`
	Source  json.RawMessage `json:"source"`

	Turn   string          `json:"turn_id"`
	Root   string          `json:"root_turn_id"`
	Model  string          `json:"model"`
	Reason string          `json:"reason"`
	Error  json.RawMessage `json:"error"`

	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Call      string          `json:"call_id"`
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Arguments json.RawMessage `json:"arguments"`
	Input     json.RawMessage `json:"input"`
	Action    json.RawMessage `json:"action"`
	Output    json.RawMessage `json:"output"`

	Item      item  `json:"item"`
	Started   int64 `json:"started_at_ms"`
	Completed int64 `json:"completed_at_ms"`

	Response string `json:"response_id"`
	Usage    *usage `json:"usage"`
	Info     *struct {
		Total *usage `json:"total_token_usage"`
	} `json:"info"`
}

// An item says how a call ended, better than its output.
type item struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Content   json.RawMessage `json:"content"`
	Hint      json.RawMessage `json:"user_facing_hint"`
	Command   json.RawMessage `json:"command"`
	Changes   json.RawMessage `json:"changes"`
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Status    string          `json:"status"`
	Exit      int             `json:"exit_code"`
	Output    json.RawMessage `json:"aggregated_output"`
	Error     json.RawMessage `json:"error"`
}

// A usage counts tokens: the input has the cached ones, the output those of reasoning.
type usage struct {
	Input  int64 `json:"input_tokens"`
	Cached int64 `json:"cached_input_tokens"`
	Output int64 `json:"output_tokens"`
}

func (u *usage) tokens() protocol.Usage {
	return protocol.Usage{Input: max(0, u.Input), Cached: max(0, u.Cached), Output: max(0, u.Output)}
}

type reader struct {
	file   *source.File
	about  source.About
	thread string
	lines  *source.Lines
	parser source.Parser
	held   [][]byte
	queue  source.Queue
	now    time.Time

	turn    string // that is open; "" for none
	inner   string // the turn of a review, which its own file has, within that
	copied  bool   // the turn was read in another file
	begins  *agentlog.Event
	began   time.Time
	model   string
	text    []byte // of an answer whose usage was not read yet
	textAt  time.Time
	records bool // usage is told for each answer
	total   protocol.Usage
	open    []string // calls of the turn without a result
	calls   map[string]*outcome
}

// An outcome is how a call ended; done means that its result was told.
type outcome struct {
	outcome, reason string
	known, done     bool
}

// maxCalls bounds the calls that are remembered.
const maxCalls = 1 << 17

func open(f *source.File) (source.Reader, error) {
	r := &reader{file: f, lines: source.NewLines(f.Reader, f.Live), calls: map[string]*outcome{}}
	line, err := r.lines.Next()
	var first record
	switch {
	case err != nil:
		r.queue.Err = err
	default:
		_ = source.Parse(line, &first)
		r.held = append(r.held, bytes.Clone(line))
	}
	if first.Type != "session_meta" {
		first.Payload = payload{}
	}
	r.thread = first.Payload.ID
	r.about = source.About{
		Created: first.Timestamp, Controller: "user", Unit: "Codex (as it tells)", Teller: strings.TrimSpace("Codex " + first.Payload.Version),
		Folder: first.Payload.Folder,
	}
	if first.Payload.Parent != "" {
		r.about.Controller, r.about.Unit = "Codex", "sub-agent (as it tells)"
	}
	r.queue.Push(source.Record{Kind: source.Opened, Conn: 1, Time: first.Timestamp, Data: []byte(r.about.Controller + " → " + r.about.Unit)})
	r.emit(first.Timestamp, &agentlog.Event{Type: agentlog.Session, ID: r.thread, Name: "Codex", Version: first.Payload.Version})
	return r, nil
}

// About implements [source.Reader].
func (r *reader) About() source.About { return r.about }

// Next implements [source.Reader].
func (r *reader) Next(rec *source.Record) error { return r.queue.Next(rec, r.advance) }

// advance handles the next line.
func (r *reader) advance() {
	var line []byte
	var err error
	if len(r.held) > 0 {
		line, r.held = r.held[0], r.held[1:]
	} else {
		line, err = r.lines.Next()
	}
	switch {
	case errors.Is(err, source.ErrIdle):
		r.tellPrompt(nil)
		r.tellText()
		r.queue.Push(source.Record{Kind: source.Idle})
	case err != nil:
		r.tellPrompt(nil)
		r.tellText()
		if text := r.lines.Remark(); text != "" {
			r.queue.Push(source.Record{Kind: source.Note, Conn: 1, Time: r.now, Data: []byte(text)})
		}
		r.queue.Err = err
	default:
		var rec record
		if r.parser.Parse(line, &rec) != nil {
			r.lines.Skip()
			return
		}
		r.handle(&rec)
	}
}

// emit tells an event. Those of a turn that another file has are not told again.
func (r *reader) emit(at time.Time, e *agentlog.Event) {
	if r.copied {
		return
	}
	if at.Before(r.now) {
		at = r.now
	}
	r.now = at
	if r.file.Tally != nil {
		r.file.Tally.Add(e)
		return
	}
	r.queue.Push(source.Record{
		Conn: 1, Dir: agentlog.Dir(e.Type), Time: at, Protocol: agentlog.Spec.Name(), Data: e.Append(nil),
	})
}

func (r *reader) handle(rec *record) {
	p, at := &rec.Payload, rec.Timestamp
	switch rec.Type {
	case "turn_context":
		r.model = cmp.Or(p.Model, r.model)
	case "compacted":
		r.tellText()
		r.emit(at, &agentlog.Event{Type: agentlog.Compaction, Turn: short(r.turn), Reason: "compacted"})
	case "token_usage_record":
		if p.Usage != nil {
			r.records = true
			r.answer(at, p.Response, p.Usage.tokens())
		}
	case "response_item":
		r.response(p, at)
	case "event_msg":
		r.event(p, at)
	}
}

// event handles what Codex tells about its work.
func (r *reader) event(p *payload, at time.Time) {
	switch p.Type {
	case "task_started":
		switch {
		case p.Turn == "" || p.Turn == r.turn:
		case r.turn != "" && p.Root == r.turn:
			r.inner = p.Turn
		default:
			r.beginTurn(p.Turn, p.Root, at)
		}
	case "task_complete", "turn_aborted":
		if p.Turn == r.turn || p.Turn == "" {
			r.endTurn(p, at)
		}
	case "token_count":
		if !r.records && p.Info != nil && p.Info.Total != nil { // a total is repeated when nothing was used
			total := p.Info.Total.tokens()
			growth := total.Minus(r.total)
			if r.total = r.total.Plus(growth); growth != (protocol.Usage{}) {
				r.answer(at, fmt.Sprintf("%s/%d", r.thread, r.total.Input+r.total.Output), growth)
			}
		}
	case "item_completed":
		r.item(p, at)
	}
}

// beginTurn begins a turn. Its prompt follows.
func (r *reader) beginTurn(id, root string, at time.Time) {
	r.tellPrompt(nil)
	r.tellText()
	r.turn, r.inner, r.open = id, "", nil
	r.copied = !r.file.Seen.Once([]byte(id))
	r.began, r.begins = at, &agentlog.Event{Type: agentlog.Prompt, Turn: short(id)}
	if root != id {
		r.begins.Of = short(root)
	}
}

// short returns the random end of an id, which is enough to read.
func short(id string) string { return id[strings.LastIndexByte(id, '-')+1:] }

// tellPrompt tells the prompt of the turn, if that was not told yet; text is nil if it has none.
func (r *reader) tellPrompt(text []byte) {
	if e := r.begins; e != nil {
		r.begins = nil
		e.Text = text
		r.emit(r.began, e)
	}
}

// endTurn ends the turn.
func (r *reader) endTurn(p *payload, at time.Time) {
	r.tellPrompt(nil)
	r.tellText()
	e := &agentlog.Event{Type: agentlog.End, Turn: short(r.turn)}
	switch {
	case p.Type == "turn_aborted" && p.Reason == "interrupted":
		e.Outcome = agentlog.Cancelled
	case p.Type == "turn_aborted":
		e.Outcome, e.Reason = agentlog.Failed, cmp.Or(p.Reason, "aborted")
	case jsonscan.KindOf(p.Error) == jsonscan.Object, jsonscan.KindOf(p.Error) == jsonscan.String:
		e.Outcome, e.Reason = agentlog.Failed, messageIn(p.Error)
	default:
		e.Unanswered = r.open
	}
	r.emit(at, e)
	r.turn, r.inner, r.open, r.copied = "", "", nil, false
}

// answer tells an answer of the model, by its usage.
func (r *reader) answer(at time.Time, id string, total protocol.Usage) {
	r.tellPrompt(nil)
	growth, first := r.file.Seen.Growth([]byte(id), total)
	r.emit(at, &agentlog.Event{Type: agentlog.Answer, Turn: short(r.turn), ID: id, Model: r.model, Begins: first, Usage: growth, Text: r.text})
	r.text = nil
}

// tellText tells an answer without usage.
func (r *reader) tellText() {
	if r.text != nil {
		r.emit(r.textAt, &agentlog.Event{Type: agentlog.Answer, Turn: short(r.turn), Model: r.model, Text: r.text})
		r.text = nil
	}
}

// response handles a message of the conversation with the model.
func (r *reader) response(p *payload, at time.Time) {
	switch p.Type {
	case "message":
		if p.Role == "assistant" {
			r.tellPrompt(nil)
			r.tellText()
			r.text, r.textAt = bytes.Clone(textIn(p.Content)), at
		}
	case "function_call", "custom_tool_call", "local_shell_call":
		e := &agentlog.Event{ID: p.Call, Name: cmp.Or(p.Name, p.Type), Arguments: p.Arguments}
		if arguments, ok := jsonscan.Unquote(p.Arguments); ok && jsonscan.WellFormed(arguments) == nil {
			e.Arguments = arguments
		}
		for _, other := range [][]byte{p.Input, p.Action} {
			if e.Arguments == nil {
				e.Arguments = other
			}
		}
		if server, ok := strings.CutPrefix(p.Namespace, "mcp__"); ok {
			e.Server, e.Name = server, server+"/"+p.Name
		}
		r.call(e, at)
	case "function_call_output", "custom_tool_call_output":
		r.result(p.Call, p.Output, at)
	}
}

// call tells a call of a tool.
func (r *reader) call(e *agentlog.Event, at time.Time) {
	if r.tellPrompt(nil); e.ID == "" || len(r.calls) >= maxCalls || r.calls[e.ID] != nil {
		return
	}
	r.calls[e.ID] = &outcome{}
	r.open = append(r.open, e.ID)
	e.Type, e.Turn = agentlog.Call, short(r.turn)
	r.emit(at, e)
}

var exitCode = regexp.MustCompile(`(?m)^(?:Process exited with code|Exit code:) (-?\d+)`)

// result tells the result of a call: as its item said or, in older versions, as the output tells.
func (r *reader) result(id string, output []byte, at time.Time) {
	c := r.calls[id]
	if c == nil || c.done {
		return
	}
	text := string(textIn(output))
	if unquoted, ok := jsonscan.Unquote([]byte(text)); ok {
		text = string(unquoted)
	}
	var metadata struct {
		Metadata struct {
			Exit int `json:"exit_code"`
		} `json:"metadata"`
	}
	switch {
	case c.known:
	case strings.HasSuffix(strings.TrimSpace(text), "aborted by user"):
		c.outcome = agentlog.Cancelled
	case json.Unmarshal([]byte(text), &metadata) == nil && metadata.Metadata.Exit != 0:
		c.outcome, c.reason = agentlog.ToolError, fmt.Sprintf("exit code %d", metadata.Metadata.Exit)
	default:
		if m := exitCode.FindStringSubmatch(text); m != nil && m[1] != "0" {
			c.outcome, c.reason = agentlog.ToolError, "exit code "+m[1]
		}
	}
	c.done = true
	r.open = slices.DeleteFunc(r.open, func(open string) bool { return open == id })
	r.emit(at, &agentlog.Event{Type: agentlog.Result, Turn: short(r.turn), ID: id, Outcome: c.outcome, Reason: c.reason, Text: output})
}

// item handles a completed item: a prompt, or how a call ended. One call can have many items.
func (r *reader) item(p *payload, at time.Time) {
	i := &p.Item
	e := &agentlog.Event{ID: i.ID}
	var output []byte
	switch i.Type {
	case "UserMessage":
		switch {
		case r.inner != "" && p.Turn == r.inner:
		case r.begins != nil:
			r.tellPrompt(textIn(i.Content))
		default:
			r.emit(at, &agentlog.Event{Type: agentlog.Remark, Turn: short(r.turn), Name: "steer", Text: textIn(i.Content)})
		}
		return
	case "EnteredReviewMode":
		if p.Turn != r.turn {
			r.beginTurn(p.Turn, p.Turn, at)
			r.tellPrompt(i.Hint)
		}
		return
	case "CommandExecution":
		e.Name, e.Arguments, output = "exec", i.Command, i.Output
	case "FileChange":
		e.Name, e.Arguments = "apply_patch", i.Changes
	case "McpToolCall":
		e.Name, e.Server, e.Arguments = i.Server+"/"+i.Tool, i.Server, i.Arguments
	default:
		return
	}
	known := r.calls[i.ID] != nil
	if !known {
		started := at
		if p.Started > 0 {
			started = time.UnixMilli(p.Started).UTC()
		}
		r.call(e, started)
	}
	c := r.calls[i.ID]
	if c == nil || c.done {
		return
	}
	c.known = true
	switch why := messageIn(i.Error); {
	case i.Status == "declined":
		c.outcome, c.reason = agentlog.Failed, "declined"
	case why != "":
		c.outcome, c.reason = agentlog.Failed, why
	case i.Exit != 0:
		c.outcome, c.reason = agentlog.ToolError, fmt.Sprintf("exit code %d", i.Exit)
	case i.Status == "failed":
		c.outcome = agentlog.ToolError
	}
	if !known {
		r.result(i.ID, output, at)
	}
}

// textIn returns the first text of a content, as JSON: a string, or items with texts.
func textIn(content []byte) []byte {
	if jsonscan.KindOf(content) == jsonscan.String {
		return content
	}
	var items []struct {
		Text json.RawMessage `json:"text"`
	}
	_ = json.Unmarshal(content, &items)
	var last []byte
	for _, i := range items {
		if jsonscan.KindOf(i.Text) == jsonscan.String {
			last = i.Text
		}
	}
	return last
}

// maxReason bounds a reason, in bytes.
const maxReason = 200

// messageIn returns the message of an error: a string, or the member of an object, which may be JSON.
func messageIn(raw []byte) string {
	for range 4 {
		if text, ok := jsonscan.Unquote(raw); ok {
			if raw = text; jsonscan.KindOf(raw) != jsonscan.Object || jsonscan.WellFormed(raw) != nil {
				return render.Shorten(strings.Join(strings.Fields(string(render.Clip(raw, 4*maxReason))), " "), maxReason)
			}
		}
		inner, ok := jsonscan.Get(raw, "error")
		if !ok || jsonscan.KindOf(inner) == jsonscan.Null {
			if inner, ok = jsonscan.Get(raw, "message"); !ok {
				return ""
			}
		}
		raw = inner
	}
	return ""
}
