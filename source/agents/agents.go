// Package agents reads the sessions that Gemini CLI, Qwen Code, GitHub Copilot CLI, opencode and Cline
// keep or export. A table says what the records of each mean. The forms are not documented; they were
// tried with versions 0.61.0, 0.15.10, 1.0.102, 1.18.33 and 3.0.65.
package agents

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/agentlog"
	"github.com/wirectl/wirectl/source"
)

const (
	// maxKnown bounds the prompts and calls that are remembered, maxReason a reason, in bytes, and
	// maxValue a value of a document.
	maxKnown  = 1 << 17
	maxReason = 200
	maxValue  = 32 << 20
	// maxYear is that of the last time that is believed.
	maxYear = 9999
	// maxAgents bounds the sub-agents of a session.
	maxAgents = 10_000
)

type reader struct {
	*table
	file     *source.File
	about    source.About
	lines    *source.Lines
	document *document // instead of lines; nil for none
	first    []byte    // that was read ahead
	queue    source.Queue
	batch    []event // of a record
	now      time.Time

	turn    string // that is open; "" for none
	copied  bool   // the turn was read in another file
	ends    bool   // the turn has an answer that may be its last
	failing *event // the turn ends so, unless it goes on
	calls   []string
	known   map[string]*toolCall
	prompts map[string]bool
	held    *event // the usage of an answer
	counted bool   // answers have their usage
	endless int    // turns of which the end is not recorded

	session string
	agents  map[string]int // the sub-agents that were read: their connections
	outer   *reader        // of the session of a sub-agent, or nil
	of      string         // the turn that it belongs to
	role    string
	conn    int
}

type toolCall struct {
	begin time.Time
	done  bool
}

type event struct {
	agentlog.Event
	at   time.Time
	conn int
}

func (t *table) openFile(f *source.File) (source.Reader, error) {
	return t.read(&reader{table: t, file: f, conn: 1, agents: map[string]int{}}), nil
}

// read begins to read a file.
func (t *table) read(r *reader) *reader {
	f := r.file
	r.known, r.prompts = map[string]*toolCall{}, map[string]bool{}
	var head []byte
	if t.list != "" {
		r.document = &document{input: &bounded{r: f.Reader, left: maxValue}}
		r.document.json = json.NewDecoder(r.document.input)
		head, r.queue.Err = r.document.enter(t.list)
	} else {
		r.lines = source.NewLines(f.Reader, f.Live)
		head, r.queue.Err = r.lines.Next()
		r.first = bytes.Clone(head)
	}
	version := word(get(head, t.version))
	created := timeOf(get(head, t.created))
	r.about = source.About{
		Created: created, Controller: "user", Unit: t.program + " (as it tells)", Teller: strings.TrimSpace(t.program + " " + version),
		Folder: word(get(head, "cwd|data context cwd")),
	}
	if t.parent != "" && has(head, t.parent) {
		r.about.Controller, r.about.Unit = t.program, "sub-agent (as it tells)"
	}
	r.queue.Push(source.Record{Kind: source.Opened, Conn: 1, Time: created, Data: []byte(r.about.Controller + " → " + r.about.Unit)})
	r.session = word(get(head, t.session))
	if r.outer == nil {
		r.tell(created, agentlog.Event{Type: agentlog.Session, ID: r.session, Name: t.program, Version: version})
		r.flush()
	}
	return r
}

// readAgent reads the session of a sub-agent, whose file is in a folder with the id of the session, after its
// call has ended. Its events are among those of the record that tells of the call.
func (r *reader) readAgent(id, role string) {
	if r.outer != nil || id == "" || r.agents[id] != 0 || len(r.agents) >= maxAgents || r.file.Folder == nil || path.Base(r.session) != r.session || path.Base(id) != id {
		return
	}
	name := path.Join(r.session, id+".jsonl")
	info, err := fs.Lstat(r.file.Folder, name)
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	file, err := r.file.Folder.Open(name)
	if err != nil {
		r.addRemark("sub-agent " + id + " is not read: " + err.Error())
		return
	}
	defer file.Close()
	if info.Size() > maxValue {
		r.addRemark(fmt.Sprintf("of sub-agent %s, %d MiB are read", id, maxValue>>20))
	}
	r.agents[id] = len(r.agents) + 2
	r.queue.Push(source.Record{Kind: source.Opened, Conn: r.agents[id], Time: r.now, Data: []byte(r.program + " → " + cmp.Or(role, "sub-agent") + " (as it tells)")})
	inner := r.read(&reader{
		table: r.table, file: &source.File{Reader: io.LimitReader(file, maxValue), Seen: r.file.Seen, Notice: r.file.Notice},
		outer: r, of: short(r.turn), role: role, conn: r.agents[id],
	})
	for inner.queue.Err == nil {
		inner.advance()
	}
	r.endless += inner.endless
}

// readAgents reads those whose calls are not recorded.
func (r *reader) readAgents() {
	if r.file.Folder == nil || r.document != nil || r.session == "" || path.Base(r.session) != r.session || r.outer != nil {
		return
	}
	entries, _ := fs.ReadDir(r.file.Folder, r.session)
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".jsonl"); ok {
			r.readAgent(id, "")
		}
	}
}

// About implements [source.Reader].
func (r *reader) About() source.About { return r.about }

// Next implements [source.Reader].
func (r *reader) Next(rec *source.Record) error { return r.queue.Next(rec, r.advance) }

// advance handles the next record.
func (r *reader) advance() {
	record, err := r.first, error(nil)
	switch {
	case record != nil:
		r.first = nil
	case r.document != nil:
		record, err = r.document.element()
	default:
		record, err = r.lines.Next()
	}
	switch {
	case errors.Is(err, source.ErrIdle):
		r.settle()
		r.flush()
		r.queue.Push(source.Record{Kind: source.Idle})
	case err != nil:
		r.readAgents()
		r.settle()
		if r.held != nil && !r.counted {
			r.count(r.held)
		}
		r.flush()
		if r.turn != "" {
			r.endless++
		}
		if r.silent && r.endless > 0 {
			r.addRemark(render.Count(int64(r.endless), "turn") + " without an end: " + r.program + " records no interrupts and no errors")
		}
		if r.lines != nil {
			if text := r.lines.Remark(); text != "" {
				r.addRemark(text)
			}
		}
		r.queue.Err = err
	case jsonscan.KindOf(record) != jsonscan.Object || jsonscan.WellFormed(record) != nil:
		if r.lines != nil {
			r.lines.Skip()
		}
	default:
		r.handle(record, true)
	}
}

// handle tells what a record says.
func (r *reader) handle(record []byte, outer bool) {
	at := timeOf(get(record, r.time))
	for _, rule := range r.rules[word(get(record, r.kind))] {
		if rule.does == totals {
			r.totals(&rule, record, at)
			continue
		}
		elements := [][]byte{record}
		if rule.in != "" {
			elements = itemsOf(get(record, rule.in))
		}
		for _, o := range elements {
			switch {
			case rule.when != "" && !has(o, rule.when):
			case rule.does != records:
				r.apply(&rule, o, at)
			case outer && jsonscan.KindOf(o) == jsonscan.Object:
				r.handle(o, false)
			}
		}
	}
	r.flush()
}

// apply tells what an object says by a rule.
func (r *reader) apply(rule *rule, o []byte, at time.Time) {
	if rule.time != "" {
		if own := timeOf(get(o, rule.time)); !own.IsZero() {
			at = own
		}
	}
	id, text, reason := word(get(o, rule.id)), get(o, rule.text), reasonIn(get(o, rule.reason))
	switch rule.does {
	case prompt:
		if text = textIn(text); text != nil && !strings.HasPrefix(plain(text), "<session_context>") {
			r.prompt(at, id, cmp.Or(word(get(o, rule.key)), id), text)
		}
	case answer:
		r.tellAnswer(at, rule, o, id, textIn(text))
	case held:
		if r.held != nil && !r.counted {
			r.count(r.held)
		}
		r.held = &event{agentlog.Event{Type: agentlog.Answer, ID: id, Model: word(get(o, rule.model)), Usage: rule.usage.of(o)}, at, r.conn}
	case call:
		if rule.late {
			at = r.now
		}
		r.tellCall(at, &agentlog.Event{ID: id, Name: word(get(o, rule.name)), Server: word(get(o, rule.server)), Arguments: text})
		if rule.agent != "" {
			r.readAgent(word(get(o, rule.agent)), word(get(o, rule.role)))
		}
	case result:
		r.result(at, rule, o, &agentlog.Event{ID: id, Reason: reason, Text: text})
	case failure:
		if r.failing = nil; r.turn != "" {
			r.failing = &event{agentlog.Event{Outcome: agentlog.Failed, Reason: reason}, at, r.conn}
		}
	case abort:
		r.endTurn(at, agentlog.Cancelled, "")
	case compaction:
		r.tell(at, agentlog.Event{Type: agentlog.Compaction, Turn: short(r.turn), Reason: "compacted"})
	case remark:
		r.tell(at, agentlog.Event{Type: agentlog.Remark, Turn: short(r.turn), Name: rule.name, Text: text})
	}
}

// prompt begins a turn. Files may repeat their own prompts, and those of other files.
func (r *reader) prompt(at time.Time, id, key string, text []byte) {
	if id == "" || r.prompts[key] {
		return
	}
	if r.settle(); r.turn != "" {
		r.endless++
	}
	if len(r.prompts) < maxKnown {
		r.prompts[key] = true
	}
	r.turn, r.ends, r.failing, r.calls = id, false, nil, nil
	r.copied = !r.file.Seen.Once([]byte(r.program + " prompt " + key))
	r.tell(at, agentlog.Event{Type: agentlog.Prompt, Turn: short(id), Of: r.of, Name: r.role, Text: text})
}

// tellAnswer tells an answer of a model, or a part of it.
func (r *reader) tellAnswer(at time.Time, rule *rule, o []byte, id string, text []byte) {
	e := &event{agentlog.Event{Type: agentlog.Answer, ID: id, Model: word(get(o, rule.model)), Text: text}, at, r.conn}
	key := cmp.Or(word(get(o, rule.key)), id)
	if rule.usage != nil {
		e.Usage = rule.usage.of(o)
	}
	if own := e.Usage != (protocol.Usage{}); own {
		r.counted, r.held = true, nil
	} else if r.held != nil && !r.counted {
		e.Usage, key, r.held = r.held.Usage, r.held.ID, nil
	}
	growth, first := r.file.Seen.Growth([]byte(r.program+" answer "+key), e.Usage)
	if !first && growth == (protocol.Usage{}) {
		return
	}
	r.goOn()
	e.Begins, e.Usage = first && e.Usage != (protocol.Usage{}), growth
	e.Turn = short(r.turn)
	hasText := plain(text) != ""
	if hasText || growth != (protocol.Usage{}) {
		r.tell(at, e.Event)
	}
	if hasText {
		r.ends = len(itemsOf(get(o, rule.more))) == 0
	}
}

// count tells an answer of which only the usage is known.
func (r *reader) count(e *event) {
	e.Usage, e.Begins = r.file.Seen.Growth([]byte(r.program+" answer "+e.ID), e.Usage)
	if e.Usage != (protocol.Usage{}) {
		e.Turn = short(r.turn)
		r.tell(e.at, e.Event)
	}
	r.held = nil
}

// totals tells what all answers before have used, by model, unless they have told it.
func (r *reader) totals(rule *rule, record []byte, at time.Time) {
	if r.settle(); !r.counted {
		var s jsonscan.Scanner
		s.Init(get(record, rule.in))
		for ok := s.Object(); ok && s.Next(); {
			model := string(s.Key())
			id := word(get(record, rule.key)) + " " + model
			r.count(&event{agentlog.Event{Type: agentlog.Answer, ID: id, Model: model, Usage: rule.usage.of(s.Value())}, at, r.conn})
		}
	}
	r.counted = false
}

// tellCall tells a call of a tool.
func (r *reader) tellCall(at time.Time, e *agentlog.Event) {
	if e.ID == "" || r.known[e.ID] != nil || len(r.known) >= maxKnown {
		return
	}
	r.goOn()
	r.ends = false
	r.known[e.ID] = &toolCall{begin: at}
	r.calls = append(r.calls, e.ID)
	if rest, ok := strings.CutPrefix(e.Name, "mcp__"); ok && e.Server == "" {
		e.Server, e.Name, _ = strings.Cut(rest, "__")
	}
	if e.Server != "" {
		e.Name = e.Server + "/" + e.Name
	}
	if arguments, ok := jsonscan.Unquote(e.Arguments); ok && jsonscan.WellFormed(arguments) == nil {
		e.Arguments = arguments
	}
	e.Type, e.Turn = agentlog.Call, short(r.turn)
	r.tell(at, *e)
}

// outcomes are those of the statuses of calls. Calls of other statuses have not ended.
var outcomes = map[string]string{
	"": "", "success": "", "completed": "", "true": "", "error": agentlog.ToolError, "failed": agentlog.ToolError, "false": agentlog.ToolError,
	"cancelled": agentlog.Cancelled, "canceled": agentlog.Cancelled, "aborted": agentlog.Cancelled, "rejected": agentlog.Cancelled,
}

// result tells how a call ended.
func (r *reader) result(at time.Time, rule *rule, o []byte, e *agentlog.Event) {
	status := string(get(o, rule.status))
	if text, ok := jsonscan.Unquote([]byte(status)); ok {
		status = string(text)
	}
	outcome, ended := outcomes[status]
	c := r.known[e.ID]
	if c == nil || c.done || !ended {
		return
	}
	if strings.HasSuffix(rule.status, "is_error") && status != "" { // the other way round
		outcome = map[string]string{"true": agentlog.ToolError}[status]
	}
	exit := string(get(o, rule.exit))
	switch {
	case strings.HasPrefix(e.Reason, "Command cancelled by user"):
		outcome = agentlog.Cancelled
	case outcome == "" && exit != "" && exit != "0":
		outcome, e.Reason = agentlog.ToolError, "exit code "+render.Clip(exit, 16)
	}
	if e.Outcome = outcome; outcome != agentlog.ToolError {
		e.Reason = ""
	}
	if c.done = true; at.Before(c.begin) {
		at = c.begin
	}
	e.Type, e.Turn = agentlog.Result, short(r.turn)
	r.tell(at, *e)
}

// goOn says that the turn goes on after a failure.
func (r *reader) goOn() {
	if f := r.failing; f != nil {
		r.failing = nil
		r.tell(f.at, agentlog.Event{Type: agentlog.Retry, Turn: short(r.turn), Reason: f.Reason})
	}
}

// settle ends the turn if it has failed, or has its last answer.
func (r *reader) settle() {
	switch f := r.failing; {
	case f != nil:
		r.endTurn(f.at, f.Outcome, f.Reason)
	case r.ends:
		r.endTurn(time.Time{}, "", "")
	}
}

// endTurn ends the turn, and with it the calls that are open if it was cancelled.
func (r *reader) endTurn(at time.Time, outcome, reason string) {
	if r.turn != "" {
		e := agentlog.Event{Type: agentlog.End, Turn: short(r.turn), Outcome: outcome, Reason: reason}
		for _, id := range r.calls {
			switch c := r.known[id]; {
			case c.done:
			case outcome == agentlog.Cancelled:
				c.done = true
				r.tell(at, agentlog.Event{Type: agentlog.Result, Turn: e.Turn, ID: id, Outcome: outcome})
			case outcome == "":
				e.Unanswered = append(e.Unanswered, id)
			}
		}
		r.tell(at, e)
	}
	r.turn, r.ends, r.failing, r.calls, r.copied = "", false, nil, nil, false
}

// tell tells an event; without a time it happened after the one before. Those of a turn that another
// file has are not told again.
func (r *reader) tell(at time.Time, e agentlog.Event) {
	if !r.copied {
		r.batch = append(r.batch, event{e, at, r.conn})
	}
}

func (r *reader) addRemark(text string) {
	r.queue.Push(source.Record{Kind: source.Note, Conn: 1, Time: r.now, Data: []byte(text)})
}

// flush passes on the events of a record in the order of their times. Records are not in that order, so
// time does not go back.
func (r *reader) flush() {
	now := r.now
	for i := range r.batch {
		if r.batch[i].at.IsZero() {
			r.batch[i].at = now
		}
		now = r.batch[i].at
	}
	if r.outer != nil {
		r.now = now
		r.outer.batch = append(r.outer.batch, r.batch...)
		r.batch = r.batch[:0]
		return
	}
	slices.SortStableFunc(r.batch, func(a, b event) int { return a.at.Compare(b.at) })
	for i := range r.batch {
		e := &r.batch[i]
		if e.at.After(r.now) {
			r.now = e.at
		}
		if r.file.Tally != nil {
			r.file.Tally.Add(&e.Event)
			continue
		}
		r.queue.Push(source.Record{
			Conn: e.conn, Dir: agentlog.Dir(e.Type), Time: r.now, Protocol: agentlog.Spec.Name(), Data: e.Append(nil),
		})
	}
	r.batch = r.batch[:0]
}

// of returns the tokens that an object counts.
func (c *counts) of(o []byte) protocol.Usage {
	sum := func(paths ...string) (n int64) {
		for _, p := range paths {
			n += count(get(o, p))
		}
		return n
	}
	u := protocol.Usage{Input: sum(c.input...), Cached: sum(c.cached), Output: sum(c.output...)}
	u.Output = max(u.Output, sum(c.total)-u.Input)
	return u
}

// count returns a number of tokens; 0 for anything that cannot be one.
func count(raw []byte) int64 {
	const most = 1e12
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !(n >= 0 && n <= most) {
		return 0
	}
	return int64(n)
}

// get returns the value at a path of an object; nil if there is none, or null.
func get(object []byte, path string) []byte {
	for path := range strings.SplitSeq(path, "|") {
		if raw, ok := jsonscan.Get(object, strings.Fields(path)...); ok && path != "" && jsonscan.KindOf(raw) != jsonscan.Null {
			return raw
		}
	}
	return nil
}

// has reports whether an object has a member, or has it with a value.
func has(object []byte, member string) bool {
	path, value, exact := strings.Cut(member, "=")
	raw := get(object, path)
	return raw != nil && (!exact || word(raw) == value)
}

// word returns a string or a number as text.
func word(raw []byte) string {
	if text, ok := jsonscan.Unquote(raw); ok {
		return string(render.Clip(text, maxReason))
	}
	if jsonscan.KindOf(raw) == jsonscan.Number {
		return string(raw)
	}
	return ""
}

// itemsOf returns the elements of a list; none for anything else.
func itemsOf(raw []byte) [][]byte {
	if jsonscan.KindOf(raw) != jsonscan.Array {
		return nil
	}
	return slices.Collect(protocol.Items(raw))
}

// textIn returns the first text of a content, as JSON: a string, or items with texts.
func textIn(content []byte) []byte {
	if jsonscan.KindOf(content) == jsonscan.String {
		return content
	}
	for _, item := range itemsOf(content) {
		if text := get(item, "text"); jsonscan.KindOf(text) == jsonscan.String && !has(item, "type=reasoning") && string(get(item, "thought")) != "true" {
			return text
		}
	}
	return nil
}

func plain(raw []byte) string {
	text, _ := jsonscan.Unquote(raw)
	return string(text)
}

// reasonIn returns a reason on one line.
func reasonIn(raw []byte) string {
	text, ok := jsonscan.Unquote(raw)
	if !ok {
		text, _ = jsonscan.Unquote(get(raw, "message"))
	}
	return render.Shorten(strings.Join(strings.Fields(string(render.Clip(text, 4*maxReason))), " "), maxReason)
}

// timeOf returns a time that is written as text, or as a number in milliseconds.
func timeOf(raw []byte) time.Time {
	const lastMilli = 253_402_300_799_999 // of the year 9999
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil && n > 0 && n <= lastMilli {
		return time.UnixMilli(n).UTC()
	}
	t, err := time.Parse(time.RFC3339Nano, plain(raw))
	if err != nil || t.Year() > maxYear {
		return time.Time{}
	}
	return t.UTC()
}

// short returns the end of an id, which is enough to read.
func short(id string) string { return id[strings.LastIndexByte(id, '-')+1:] }

// A document reads the elements of a list of an object, one at a time.
type document struct {
	json  *json.Decoder
	input *bounded
}

// A bounded reader fails when a value is too large.
type bounded struct {
	r    io.Reader
	left int
}

var errTooLarge = fmt.Errorf("a value is over %d MiB", maxValue>>20)

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// enter reads up to the elements of the list, and returns an object of the members before it.
func (d *document) enter(list string) (head []byte, err error) {
	head = append(head, '{')
	if _, err = d.json.Token(); err != nil {
		return nil, d.failure(err)
	}
	for d.json.More() {
		key, err := d.json.Token()
		if err != nil {
			return nil, d.failure(err)
		}
		if key == list {
			if t, err := d.json.Token(); err != nil || t != json.Delim('[') {
				return nil, cmp.Or(d.failure(err), fmt.Errorf("its %s are not a list", list))
			}
			d.input.left = maxValue
			return append(head, '}'), nil
		}
		var value json.RawMessage
		if err := d.json.Decode(&value); err != nil {
			return nil, d.failure(err)
		}
		if len(head) > 1 {
			head = append(head, ',')
		}
		text, _ := key.(string)
		head = append(append(jsonscan.AppendQuote(head, []byte(text)), ':'), value...)
	}
	return nil, d.failure(io.ErrUnexpectedEOF)
}

// element returns the next element.
func (d *document) element() ([]byte, error) {
	d.input.left = maxValue
	if !d.json.More() {
		if _, err := d.json.Token(); err != nil {
			return nil, d.failure(err)
		}
		return nil, io.EOF
	}
	var value json.RawMessage
	err := d.json.Decode(&value)
	return value, d.failure(err)
}

func (d *document) failure(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &source.CutError{Offset: d.json.InputOffset()}
	}
	return err
}
