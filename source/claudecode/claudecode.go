// Package claudecode reads the transcripts of Claude Code: a file for each session, one record per line,
// and files of its sub-agents beside it. The form is not documented; it was tried with version 2.1.197.
package claudecode

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
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

// Form is that of transcripts.
var Form = &source.Form{
	Name: "claude-code", About: "a transcript of Claude Code",
	Lines: []string{"sessionId uuid parentUuid version type=user|assistant|system|attachment message.role=user|assistant message.content"},
	Open:  open, Instead: "check that the file was not changed",
	Place: &source.Place{
		Agent: "claude", Env: "CLAUDE_CONFIG_DIR", Home: ".claude",
		Files: []string{"projects/*/*" + extension}, ID: regexp.MustCompile(`([^/]+)\.jsonl$`), Beside: subagents,
	},
	Beside: func(folder fs.FS, name string) bool {
		if path.Base(path.Dir(name)) != subagents || !strings.HasPrefix(path.Base(name), agentPrefix) {
			return false
		}
		_, err := fs.Stat(folder, path.Dir(path.Dir(name))+extension)
		return err == nil
	},
}

// Where the transcripts of sub-agents are, below a folder with the name of the session.
const (
	subagents   = "subagents"
	agentPrefix = "agent-"
	extension   = ".jsonl"
)

// A record is a line. Records of other types are remarks, or say nothing about the session.
type record struct {
	Type       string    `json:"type"`
	Subtype    string    `json:"subtype"`
	UUID       string    `json:"uuid"`
	Timestamp  time.Time `json:"timestamp"`
	Version    string    `json:"version"`
	Session    string    `json:"sessionId"`
	Folder     string    `json:"cwd"`
	Agent      string    `json:"agentId"`
	Sidechain  bool      `json:"isSidechain"`
	Meta       bool      `json:"isMeta"`
	Summary    bool      `json:"isCompactSummary"`
	APIError   bool      `json:"isApiErrorMessage"`
	Server     string    `json:"attributionMcpServer"`
	Compaction *struct {
		Trigger string `json:"trigger"`
		Before  int64  `json:"preTokens"`
	} `json:"compactMetadata"`
	Attempt  int             `json:"retryAttempt"`
	Attempts int             `json:"maxRetries"`
	Error    json.RawMessage `json:"error"`
	Result   json.RawMessage `json:"toolUseResult"`
	Message  *message        `json:"message"`
}

type message struct {
	ID         string          `json:"id"`
	Model      string          `json:"model"`
	StopReason string          `json:"stop_reason"`
	Content    json.RawMessage `json:"content"`
	Usage      *struct {
		Input   int64 `json:"input_tokens"`
		Written int64 `json:"cache_creation_input_tokens"`
		Kept    struct {
			Hour int64 `json:"ephemeral_1h_input_tokens"`
		} `json:"cache_creation"`
		Cached int64 `json:"cache_read_input_tokens"`
		Output int64 `json:"output_tokens"`

		Tier  string `json:"service_tier"`
		Speed string `json:"speed"`
		Geo   string `json:"inference_geo"`
	} `json:"usage"`
}

type block struct {
	Type    string          `json:"type"`
	Text    json.RawMessage `json:"text"`
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Input   json.RawMessage `json:"input"`
	Of      string          `json:"tool_use_id"`
	Error   bool            `json:"is_error"`
	Content json.RawMessage `json:"content"`
}

const synthetic = "<synthetic>" // the model of messages that Claude Code writes itself

// A reader merges the transcript with those of sub-agents, in the order of their times.
type reader struct {
	file    *source.File
	about   source.About
	session string
	main    *feeder
	agents  []*feeder // that may have more records
	parser  source.Parser
	known   map[string]bool
	lanes   map[string]*lane
	calls   map[string]string // open and ended calls: their turns
	queue   source.Queue
	now     time.Time
	lower   int // answers whose usage is a lower bound
}

// maxAgents bounds the sub-agents of a session, and maxCalls the calls that are remembered for them.
const (
	maxAgents = 10_000
	maxCalls  = 1 << 17
	// maxFollowed bounds the sub-agents whose files may still grow, and maxMeta a file about one.
	maxFollowed = 100
	maxMeta     = 64 << 10
)

// A feeder reads one file. That of a sub-agent is opened when its time has come.
type feeder struct {
	name   string // of a sub-agent's file
	parser source.Parser
	lines  *source.Lines
	counts bool // only calls and tokens matter
	file   fs.File
	of     string  // the call that began the sub-agent
	agent  string  // its kind
	next   *record // nil if it was not read yet; or rec
	rec    record
	time   time.Time
	held   [][]byte // lines that were read ahead, and
	after  error    // what came after those
	idle   bool
	lane   *lane // of the last record
	err    error
}

func open(f *source.File) (source.Reader, error) {
	r := &reader{
		file: f, main: &feeder{lines: source.NewLines(f.Reader, f.Live), counts: f.Tally != nil}, known: map[string]bool{},
		lanes: map[string]*lane{}, calls: map[string]string{},
	}
	const ahead = 50
	var first record
	for len(r.main.held) < ahead && first.Version == "" && r.main.after == nil {
		var line []byte
		if line, r.main.after = r.main.lines.Next(); r.main.after == nil {
			first = record{}
			_ = r.parser.Parse(line, &first)
			r.main.held = append(r.main.held, bytes.Clone(line))
		}
	}
	r.session = first.Session
	r.about = source.About{
		Created: first.Timestamp, Controller: "user", Unit: "Claude Code (as it tells)",
		Teller: strings.TrimSpace("Claude Code " + first.Version), Folder: first.Folder,
	}
	if first.Agent != "" {
		r.about.Controller, r.about.Unit = "Claude Code", "sub-agent "+first.Agent+" (as it tells)"
	}
	r.emit(r.about.Created, 1, &agentlog.Event{Type: agentlog.Session, ID: r.session, Name: "Claude Code", Version: first.Version})
	return r, nil
}

// About implements [source.Reader].
func (r *reader) About() source.About { return r.about }

// Next implements [source.Reader].
func (r *reader) Next(rec *source.Record) error { return r.queue.Next(rec, r.advance) }

// Close closes the files of sub-agents.
func (r *reader) Close() error {
	for _, a := range r.agents {
		a.close()
	}
	return nil
}

// advance handles the next record of any file.
func (r *reader) advance() {
	if r.main.next == nil && !r.main.idle && r.main.err == nil {
		r.main.read()
		if r.main.idle || r.main.err != nil {
			r.findAgents() // those that have begun meanwhile
		}
	}
	first := r.main
	if r.main.next == nil {
		first = nil
	}
	for _, a := range r.agents {
		if a.next == nil && a.err == nil && a.lines != nil && !a.idle {
			a.read()
		}
		if a.idle && len(r.agents) > maxFollowed {
			a.err = io.EOF
		}
		if a.err == nil && !a.idle && (first == nil || a.time.Before(first.time)) {
			first = a
		}
	}
	r.agents = slices.DeleteFunc(r.agents, func(a *feeder) bool {
		if a.err != nil {
			a.close()
			r.endLane(a.lane)
		}
		return a.err != nil
	})
	if first != nil && first.lines == nil {
		if first.file, first.err = r.file.Folder.Open(first.name); first.err == nil {
			first.lines = source.NewLines(first.file, false)
			if r.file.Live {
				first.lines = source.NewLines(growing{first.file}, true)
			}
		}
		return
	}
	switch {
	case first != nil:
		rec := first.next
		first.next = nil
		r.handle(first, rec)
	case r.main.idle:
		r.endLanes()
		r.main.idle = false
		for _, a := range r.agents {
			a.idle = false
		}
		r.queue.Push(source.Record{Kind: source.Idle})
	default:
		r.endLanes()
		r.remarks()
		r.queue.Err = r.main.err
	}
}

// remarks says what is missing.
func (r *reader) remarks() {
	if r.lower > 0 {
		r.remark(render.Count(int64(r.lower), "answer") + " ended early, so the output tokens are a lower bound")
	}
	if text := r.main.lines.Remark(); text != "" {
		r.remark(text)
	}
}

func (r *reader) remark(text string) {
	r.queue.Push(source.Record{Kind: source.Note, Conn: 1, Time: r.now, Data: []byte(text)})
}

// read reads the next record of the session.
func (f *feeder) read() {
	for {
		var line []byte
		if len(f.held) > 0 {
			line, f.held = f.held[0], f.held[1:]
		} else if f.err, f.after = f.after, nil; f.err == nil {
			line, f.err = f.lines.Next()
		}
		if f.err != nil {
			if f.idle = errors.Is(f.err, source.ErrIdle); f.idle {
				f.err = nil
			}
			return
		}
		f.idle = false
		if f.counts && !bytes.Contains(line, messageKey) && !bytes.Contains(line, boundary) {
			continue
		}
		rec := &f.rec
		*rec = record{}
		if f.parser.Parse(line, rec) != nil {
			f.lines.Skip()
			continue
		}
		if rec.Timestamp.After(f.time) {
			f.time = rec.Timestamp
		}
		f.next = rec
		return
	}
}

// Records that count have one of these: no quotation mark inside a text is without its backslash.
var messageKey, boundary = []byte(`"message":`), []byte("compact_boundary")

// A growing file has no end, but pauses.
type growing struct{ fs.File }

func (g growing) Read(p []byte) (int, error) {
	n, err := g.File.Read(p)
	if err == io.EOF {
		err = nil
	}
	return n, err
}

func (f *feeder) close() {
	if f.file != nil {
		f.file.Close()
		f.file = nil
	}
}

// findAgents opens the transcripts of sub-agents that were not read yet.
func (r *reader) findAgents() {
	if r.file.Folder == nil || r.session == "" || path.Base(r.session) != r.session || !strings.HasPrefix(r.file.Base, r.session) {
		return
	}
	dir := path.Join(r.session, subagents)
	entries, err := fs.ReadDir(r.file.Folder, dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if !strings.HasSuffix(name, extension) || !e.Type().IsRegular() || r.known[name] || len(r.known) >= maxAgents {
			continue
		}
		a := &feeder{name: name, counts: r.main.counts}
		if !r.starts(a) {
			continue
		}
		r.known[name] = true
		var meta struct {
			Kind string `json:"agentType"`
			Call string `json:"toolUseId"`
		}
		about := strings.TrimSuffix(name, extension) + ".meta.json"
		if info, err := fs.Lstat(r.file.Folder, about); err == nil && info.Mode().IsRegular() && info.Size() <= maxMeta {
			text, _ := fs.ReadFile(r.file.Folder, about)
			_ = source.Parse(text, &meta)
		}
		a.of, a.agent = meta.Call, meta.Kind
		r.agents = append(r.agents, a)
	}
}

// starts sets the time at which a sub-agent began, and reports whether it has a agentlog.
func (r *reader) starts(a *feeder) bool {
	f, err := r.file.Folder.Open(a.name)
	if err != nil {
		return false
	}
	defer f.Close()
	line, err := source.NewLines(f, false).Next()
	var first record
	if err != nil || source.Parse(line, &first) != nil {
		return false
	}
	a.time = first.Timestamp
	return true
}

// A lane is the conversation with the agent of the session, or with one sub-agent.
type lane struct {
	conn    int
	agent   string // the kind of a sub-agent
	of      string // the call that began it
	turn    string // that is open; "" for none
	last    time.Time
	ends    bool     // the turn has an answer that may be its last
	open    []string // calls of the turn without a result
	command string   // a slash command before the turn
}

func (r *reader) lane(f *feeder, rec *record) *lane {
	key := rec.Agent
	if key == "" && rec.Sidechain {
		key = "sidechain"
	}
	l := r.lanes[key]
	defer func() { f.lane = l }()
	if l == nil {
		l = &lane{conn: len(r.lanes) + 1, agent: f.agent, of: f.of}
		if key != "" && f == r.main && r.lanes[""] != nil { // older versions
			l.of = r.openAgent()
		}
		r.lanes[key] = l
		name := r.about.Controller + " → " + r.about.Unit
		if l.conn > 1 {
			name = "Claude Code → " + cmp.Or(l.agent, "sub-agent") + " " + rec.Agent + " (as it tells)"
		}
		r.queue.Push(source.Record{Kind: source.Opened, Conn: l.conn, Time: rec.Timestamp, Data: []byte(name)})
	}
	return l
}

// openAgent returns the last open call of the session, which a sub-agent in the same file belongs to.
func (r *reader) openAgent() string {
	if open := r.lanes[""].open; len(open) > 0 {
		return open[len(open)-1]
	}
	return ""
}

// emit tells an event. Records are not in the order of their times; events are.
func (r *reader) emit(at time.Time, conn int, e *agentlog.Event) {
	if at.Before(r.now) {
		at = r.now
	}
	r.now = at
	if r.file.Tally != nil {
		r.file.Tally.Add(e)
		return
	}
	r.queue.Push(source.Record{
		Conn: conn, Dir: agentlog.Dir(e.Type), Time: at, Protocol: agentlog.Spec.Name(), Data: e.Append(nil),
	})
}

// handle tells what a record says. Compaction and forks write records again.
func (r *reader) handle(f *feeder, rec *record) {
	if rec.UUID == "" || !r.file.Seen.Once([]byte(rec.UUID)) {
		return
	}
	at := rec.Timestamp
	switch rec.Type {
	case "user":
		if rec.Message != nil && !rec.Summary {
			r.user(r.lane(f, rec), rec, at)
		}
	case "assistant":
		if rec.Message != nil {
			r.assistant(r.lane(f, rec), rec, at)
		}
	case "system":
		r.system(r.lane(f, rec), rec, at)
	}
}

// blocks returns the content of a message; text alone is one block.
func (r *reader) blocks(m *message) (all []block) {
	if jsonscan.KindOf(m.Content) == jsonscan.String {
		return []block{{Type: "text", Text: m.Content}}
	}
	_ = r.parser.Parse(m.Content, &all)
	return all
}

// user handles a prompt, the results of tools, or what Claude Code writes in the name of the user.
func (r *reader) user(l *lane, rec *record, at time.Time) {
	for _, b := range r.blocks(rec.Message) {
		switch b.Type {
		case "tool_result":
			r.result(l, rec, &b, at)
		case "text":
			text := plain(b.Text)
			switch {
			case strings.HasPrefix(text, "[Request interrupted by user"):
				r.endTurn(l, at, agentlog.Cancelled, "")
			case strings.HasPrefix(text, "<command-name>"):
				l.command, _, _ = strings.Cut(strings.TrimPrefix(text, "<command-name>"), "<")
			case rec.Meta, strings.HasPrefix(text, "<local-command"), strings.HasPrefix(text, "<bash-"):
			default:
				r.beginTurn(l, rec.turn(), at, b.Text)
			}
		}
	}
}

// turn returns a name for the turn that a record begins, short enough to read.
func (rec *record) turn() string { return render.Clip(rec.UUID, 8) }

// beginTurn begins a turn.
func (r *reader) beginTurn(l *lane, id string, at time.Time, text []byte) {
	if l.ends {
		r.endTurn(l, l.last, "", "")
	}
	l.turn, l.ends, l.open, l.command = id, false, nil, ""
	l.last = at
	r.emit(at, l.conn, &agentlog.Event{Type: agentlog.Prompt, Turn: id, Of: r.calls[l.of], Name: l.agent, Text: text})
}

// endTurn ends the turn.
func (r *reader) endTurn(l *lane, at time.Time, outcome, reason string) {
	if l.turn != "" {
		e := &agentlog.Event{Type: agentlog.End, Turn: l.turn, Outcome: outcome, Reason: reason}
		if outcome == "" {
			e.Unanswered = l.open
		}
		r.emit(at, l.conn, e)
	}
	l.turn, l.ends, l.open = "", false, nil
}

// endLane ends the turn of a lane that has its last answer; the lane may be nil.
func (r *reader) endLane(l *lane) {
	if l != nil && l.ends {
		r.endTurn(l, r.now, "", "")
	}
}

// endLanes does that for all lanes, at the end of the file.
func (r *reader) endLanes() {
	for _, key := range slices.Sorted(maps.Keys(r.lanes)) {
		r.endLane(r.lanes[key])
	}
}

// result handles the result of a tool.
func (r *reader) result(l *lane, rec *record, b *block, at time.Time) {
	e := &agentlog.Event{Type: agentlog.Result, ID: b.Of, Turn: l.turn, Text: b.Content}
	if r.file.Tally == nil && bytes.Contains(rec.Result, []byte(`"persistedOutputSize"`)) {
		var kept struct {
			Size int64 `json:"persistedOutputSize"`
		}
		_ = source.Parse(rec.Result, &kept)
		e.FullSize = kept.Size
	}
	switch {
	case !b.Error:
	case string(rec.Result) == `"User rejected tool use"`:
		e.Outcome = agentlog.Cancelled
	default:
		if e.Outcome = agentlog.ToolError; r.file.Tally == nil {
			e.Reason = clip(plain(b.Content))
		}
	}
	l.last = at
	if i := slices.Index(l.open, b.Of); i >= 0 {
		l.open = slices.Delete(l.open, i, i+1)
	} else if _, known := r.calls[b.Of]; !known {
		return // its call is in a part that was compacted, or in another file
	}
	r.emit(at, l.conn, e)
}

// assistant handles a block of an answer. All records of an answer have its whole usage; so the most
// counts once.
func (r *reader) assistant(l *lane, rec *record, at time.Time) {
	m := rec.Message
	if rec.APIError {
		var text string
		for _, b := range r.blocks(m) {
			text = cmp.Or(text, plain(b.Text))
		}
		r.endTurn(l, at, agentlog.Failed, clip(text))
		return
	}
	e := &agentlog.Event{Type: agentlog.Answer, ID: cmp.Or(m.ID, rec.UUID), StopReason: m.StopReason}
	if m.Model != synthetic {
		e.Model = m.Model
	}
	if u := m.Usage; u != nil && m.Model != synthetic {
		total := protocol.Usage{Input: max(0, u.Input) + max(0, u.Written) + max(0, u.Cached), Cached: max(0, u.Cached), Written: max(0, u.Written), Kept: max(0, u.Kept.Hour), Output: max(0, u.Output)}
		total.Apart = !agentlog.IsUsual(u.Tier, u.Speed, u.Geo)
		e.Usage, e.Begins = r.file.Seen.Growth([]byte(e.ID), total)
		if e.Begins = e.Begins && total != (protocol.Usage{}); e.Begins && m.StopReason == "" {
			r.lower++
		}
	}
	blocks := r.blocks(m)
	if l.turn == "" {
		if e.Usage == (protocol.Usage{}) && !slices.ContainsFunc(blocks, func(b block) bool { return b.Type == "tool_use" }) {
			return // kept by a compaction
		}
		text := []byte(nil)
		if l.command != "" {
			text = jsonscan.AppendQuote(nil, []byte(l.command))
		}
		r.beginTurn(l, rec.turn(), at, text)
	}
	l.last = at
	l.ends = m.StopReason != "" && m.StopReason != "tool_use" && m.StopReason != "pause_turn"
	e.Turn = l.turn
	for _, b := range blocks {
		if e.Text == nil {
			e.Text = b.Text
		}
	}
	r.emit(at, l.conn, e)
	for _, b := range blocks {
		if b.Type == "tool_use" && b.ID != "" {
			r.call(l, &b, at)
		}
	}
}

// call handles a call of a tool.
func (r *reader) call(l *lane, b *block, at time.Time) {
	e := &agentlog.Event{Type: agentlog.Call, Turn: l.turn, ID: b.ID, Name: b.Name, Arguments: b.Input}
	if rest, ok := strings.CutPrefix(b.Name, "mcp__"); ok {
		e.Server, _, _ = strings.Cut(rest, "__")
	}
	l.open = append(l.open, b.ID)
	if len(r.calls) < maxCalls {
		r.calls[b.ID] = l.root(r)
	}
	r.emit(at, l.conn, e)
	if b.Name == "Agent" || b.Name == "Task" {
		r.findAgents()
	}
}

// root returns the turn of the session that a lane's turn belongs to.
func (l *lane) root(r *reader) string { return cmp.Or(r.calls[l.of], l.turn) }

// system handles what Claude Code says about the session.
func (r *reader) system(l *lane, rec *record, at time.Time) {
	switch rec.Subtype {
	case "compact_boundary":
		if l.ends {
			r.endTurn(l, l.last, "", "")
		}
		e := &agentlog.Event{Type: agentlog.Compaction, Reason: "compacted"}
		if c := rec.Compaction; c != nil {
			e.Reason = fmt.Sprintf("%s, after %d tokens", cmp.Or(c.Trigger, "automatic"), c.Before)
		}
		r.emit(at, l.conn, e)
	case "api_error":
		var why struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(rec.Error, &why)
		r.emit(at, l.conn, &agentlog.Event{
			Type: agentlog.Retry, Turn: l.turn, Reason: fmt.Sprintf("attempt %d of %d failed: %s", rec.Attempt, rec.Attempts, clip(why.Message)),
		})
	}
}

// plain returns the text of a content: a string, or blocks of text.
func plain(raw []byte) string {
	if text, ok := jsonscan.Unquote(raw); ok {
		return string(text)
	}
	var blocks []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(raw, &blocks)
	for _, b := range blocks {
		if b.Text != "" {
			return b.Text
		}
	}
	return ""
}

// maxReason bounds a reason, in bytes.
const maxReason = 200

// clip returns the beginning of a text on one line.
func clip(text string) string {
	return render.Shorten(strings.Join(strings.Fields(render.Clip(text, 4*maxReason)), " "), maxReason)
}
