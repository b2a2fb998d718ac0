package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wirectl/wirectl/internal/jsonscan"
	modelcontext "github.com/wirectl/wirectl/session/context"
	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/store"
)

// args are the arguments of all tools.
type args struct {
	Session  string   `json:"session,omitempty"`
	Other    string   `json:"other,omitempty"`
	Agent    string   `json:"agent,omitempty"`
	Where    string   `json:"where,omitempty"`
	Failed   bool     `json:"failed,omitempty"`
	Slowest  int      `json:"slowest,omitempty"`
	Call     string   `json:"call,omitempty"`
	At       string   `json:"at,omitempty"`
	Frame    int64    `json:"frame,omitempty"`
	Safety   bool     `json:"safety,omitempty"`
	Text     string   `json:"text,omitempty"`
	Fields   []string `json:"fields,omitempty"`
	Limit    int      `json:"limit,omitempty"`
	MaxBytes int      `json:"max_bytes,omitempty"`
	Cursor   string   `json:"cursor,omitempty"`
}

// check bounds what a question holds.
func (a *args) check() error {
	for _, text := range append([]string{a.Session, a.Other, a.Agent, a.Where, a.Call, a.At, a.Text}, a.Fields...) {
		if len(text) > maxText {
			return fmt.Errorf("an argument has %d bytes: %d are the most", len(text), maxText)
		}
	}
	if len(a.Fields) > 64 {
		return errors.New("there are more than 64 fields")
	}
	return nil
}

func (a *args) limit() int { return max(1, min(cmp.Or(a.Limit, usualRows), mostRows)) }

func (a *args) maxBytes() int {
	return max(leastBytes, min(cmp.Or(a.MaxBytes, usualBytes), mostBytes))
}

// names are the members of rows that are shown.
func (a *args) names(t *tool, full bool) []string {
	if len(a.Fields) > 0 {
		return a.Fields
	}
	if full {
		return append(slices.Clone(t.shown), t.texts...)
	}
	return t.shown
}

// checkFields refuses fields that a tool does not have, or not at the level.
func (a *args) checkFields(t *tool, full bool) error {
	for _, name := range a.Fields {
		switch {
		case slices.Contains(t.texts, name) && !full:
			return fmt.Errorf("%s is what was said on a wire: it needs wirectl mcp --level full", name)
		case !slices.Contains(slices.Concat(t.shown, t.others, t.texts), name):
			return fmt.Errorf("there is no field %.40q; there are %s", name, strings.Join(slices.Concat(t.shown, t.others, t.texts), ", "))
		}
	}
	return nil
}

// checkWhere refuses a condition on what was said, at the level that does not show it: whoever may ask whether a text
// begins so can spell it out.
func (a *args) checkWhere(t *tool, full bool) error {
	if a.Where == "" || full {
		return nil
	}
	names := slices.Concat(t.shown, t.others)
	where, err := query.Parse(a.Where, query.Fields{Names: names, Flags: []string{"guessed", "inferred", "failed", "cancelled"}})
	if err != nil {
		return fmt.Errorf("where, at the level metadata: %w", err)
	}
	for _, term := range where.Terms() {
		if name, _, _ := strings.Cut(term.Field, "."); !slices.Contains(names, name) {
			return fmt.Errorf("where: %s needs wirectl mcp --level full", name)
		}
	}
	return nil
}

// A tool is a question, and the command that answers it.
type tool struct {
	name, about string
	params      []string
	sessions    int // how many it takes
	// shown are the fields of rows, others those for who asks, and texts those with what was said on a wire.
	shown, others, texts []string
	list                 string // the member of an object that has the rows; "" if each line is one
	window               bool   // a long payload is shown in parts
	// exact commands see what was said at any level, because they compare it. At the level metadata, their rows have
	// only the fields that are not texts, and within those the members that are listed in within.
	exact   bool
	within  []string
	note    string // at the level metadata
	none    string // the note if there are no rows
	summary bool   // the last line on standard error sums up
	line    func(row) string
	words   func(a *args) []string                              // the command, without its sessions
	rows    func(ctx context.Context, s *Server, p *page) error // instead of a command
}

// with adds a flag of a command if it has a value.
func with(words []string, flag, value string) []string {
	if value == "" {
		return words
	}
	return append(words, "--"+flag+"="+value)
}

const unsaid = "what was said is left out at this level"

var ofFrame = []string{"seq", "time", "dir", "protocol", "kind", "id", "phase", "size"}

var tools = []tool{
	{
		name: "sessions", about: "List the recorded sessions of this project, the newest first, with their numbers of calls and failures. Their ids name them for the other tools.",
		params: []string{"agent"}, rows: sessionRows,
		shown:  []string{"id", "started", "agent", "server", "calls", "failures", "findings", "live", "lost"},
		others: []string{"ended", "client", "record", "protocols", "frames", "input_tokens", "output_tokens", "incomplete", "size"},
		texts:  []string{"prompt"},
	},
	{
		name: "why", about: "Say why a session stopped, hung, failed or took long, or why one call of it did, with the evidence.",
		params: []string{"call", "at"}, sessions: 1, list: "answers", line: whyLine, exact: true,
		shown: []string{"verdict", "call", "evidence"}, texts: []string{"text", "do"}, note: unsaid, none: "nothing here explains it; calls lists what happened",
		within: []string{"frame", "kind", "name", "id", "outcome", "code", "duration_ms", "time", "offset_ms"},
		words:  func(a *args) []string { return with(with([]string{"why", "-o", "ndjson"}, "call", a.Call), "at", a.At) },
	},
	{
		name: "calls", about: "List the calls of a session: tool, outcome, time, bytes, tokens.",
		params: []string{"where", "failed", "slowest"}, sessions: 1, summary: true, exact: true,
		shown: []string{"frame", "wire", "kind", "name", "id", "outcome", "duration_ms", "code", "status"},
		others: []string{
			"operation", "guessed", "exchanges", "conn", "stream", "parent", "edge", "own", "dir", "protocol", "version", "start", "first_part_ms", "parts", "bytes_out",
			"bytes_in", "inferred", "failed", "cancelled", "cancel", "input_tokens", "cached_tokens", "output_tokens", "input_tokens_max", "cached_tokens_max",
			"output_tokens_max", "cost_usd", "cost_by", "model", "stop_reason", "tokens_per_second", "tool_calls",
		},
		texts: []string{"error", "reason", "arguments"},
		words: func(a *args) []string {
			words := with([]string{"calls", "-o", "ndjson"}, "where", a.Where)
			if a.Failed {
				words = append(words, "--failed")
			}
			if a.Slowest > 0 {
				words = append(words, "--slowest="+strconv.Itoa(a.Slowest))
			}
			return words
		},
	},
	{
		name: "frame", about: "Show one frame of a session by its number.",
		params: []string{"frame"}, sessions: 1, window: true, none: "no frame has this number",
		shown: append(slices.Clone(ofFrame), "conn", "ref", "stream", "framing"),
		texts: []string{"payload", "error"},
		words: func(a *args) []string {
			return []string{"decode", "-o", "ndjson", "--head=1", "--where=seq==" + strconv.FormatInt(a.Frame, 10)}
		},
	},
	{
		name: "context", about: "List what models were given: sizes of prompts, tools, messages and results, what is new in each call, and why a cache missed.",
		params: []string{"call"}, sessions: 1, exact: true,
		within: append([]string{"count", "bytes", "tokens_estimate", "cause", "lost_tokens", "place", "kind", "name", "age", "first", "held"}, modelcontext.Kinds()...),
		shown:  []string{"call", "conversation", "frame", "model", "input_tokens", "cached_tokens", "output_tokens", "parts", "verdict"},
		others: []string{"turn", "start", "answer", "agent", "agent_type", "own", "transcript", "written_tokens", "bytes", "previous", "branch", "equal", "same", "new", "dropped", "idle_ms", "items"},
		texts:  []string{"changes", "compacted"},
		words:  func(a *args) []string { return with([]string{"context", "-q", "-o", "ndjson"}, "call", a.Call) },
	},
	{
		name: "diff", about: "Compare two sessions, call by call.",
		params: []string{"other"}, sessions: 2, summary: true,
		shown: []string{"difference", "kind", "path", "a", "b"}, others: []string{"breaking"}, texts: []string{"message"},
		within: []string{"id", "opened", "frames"}, note: "texts are not compared at this level",
		words: func(*args) []string { return []string{"diff", "-o", "ndjson"} },
	},
	{
		name: "lint", about: "List the protocol rules that a session broke, or with safety only what may mislead a model.",
		params: []string{"safety"}, sessions: 1, summary: true, exact: true,
		shown: []string{"finding", "severity", "frames", "rule", "do"}, others: []string{"conn"}, texts: []string{"message"},
		words: func(a *args) []string {
			words := []string{"lint", "-o", "ndjson"}
			if a.Safety {
				words = append(words, "--safety")
			}
			return words
		},
	},
	{
		name: "search", about: "List the frames that contain a text, of one session or of all; at the level metadata, the calls whose names, kinds or ids contain it.",
		params: []string{"text"}, rows: searchRows, exact: true,
		shown: append(slices.Clone(ofFrame), "frame", "wire", "name", "outcome"), texts: []string{"summary"}, note: "only names, kinds and ids are searched at this level",
	},
}

// params are the schemas of arguments.
var params = map[string]*jsonschema.Schema{
	"session":   {Type: "string", Description: "id from the tool sessions (default: the newest session)"},
	"other":     {Type: "string", Description: "id of the session to compare with"},
	"agent":     {Type: "string", Description: "only sessions of this agent or client"},
	"where":     {Type: "string", Description: "condition such as name==search and duration_ms>1000"},
	"failed":    {Type: "boolean", Description: "only failed calls"},
	"slowest":   {Type: "integer", Description: "only the N slowest calls"},
	"call":      {Type: "string", Description: "only the call with this id, or #N for the one of frame N"},
	"at":        {Type: "string", Description: "what went on at this time: seconds from the beginning, or RFC 3339"},
	"frame":     {Type: "integer", Description: "number of the frame"},
	"safety":    {Type: "boolean", Description: "only hidden text, shadowed tools, tokens in URLs and such"},
	"text":      {Type: "string", Description: "text to search for"},
	"fields":    {Type: "array", Items: &jsonschema.Schema{Type: "string"}, Description: "fields of rows to show"},
	"limit":     {Type: "integer", Description: "rows at most (default 20, at most 200)"},
	"max_bytes": {Type: "integer", Description: "bytes of the answer at most (default 8192, at most 65536)"},
	"cursor":    {Type: "string", Description: "cursor of the last answer, for what follows it"},
}

// schema returns the schema of a tool's arguments.
func (t *tool) schema() *jsonschema.Schema {
	names := slices.Concat(t.params, []string{"fields", "limit", "max_bytes", "cursor"})
	if t.sessions > 0 || t.name == "search" {
		names = append([]string{"session"}, names...)
	}
	s := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}, PropertyOrder: names, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
	for _, name := range names {
		s.Properties[name] = params[name].CloneSchemas()
	}
	return s
}

func (s *Server) addTool(t *tool) {
	no := false
	about := &sdk.Tool{
		Name: t.name, Description: t.about, InputSchema: t.schema(),
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no},
	}
	sdk.AddTool(s.server, about, func(ctx context.Context, _ *sdk.CallToolRequest, a args) (*sdk.CallToolResult, any, error) {
		r, err := s.answerTo(ctx, t, &a)
		return r, nil, err
	})
}

// answerTo answers a question.
func (s *Server) answerTo(ctx context.Context, t *tool, a *args) (*sdk.CallToolResult, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	p := &page{of: t, args: a, full: s.options.Full}
	if a.Cursor != "" {
		var err error
		if p.skip, err = readCursor(a.Cursor, t.name, a); err != nil {
			return nil, err
		}
	}
	switch {
	case t.name == "frame" && a.Frame < 1:
		return nil, errors.New("name a frame by its number, from 1")
	case t.name == "search" && a.Text == "":
		return nil, errors.New("name a text to search for")
	case t.sessions > 1 && a.Other == "":
		return nil, errors.New("name the other session, to compare with")
	case a.Slowest < 0 || a.Limit < 0 || a.MaxBytes < 0:
		return nil, errors.New("limit, max_bytes and slowest are numbers from 1")
	}
	if err := a.checkFields(t, p.full); err != nil {
		return nil, err
	}
	if err := a.checkWhere(t, p.full); err != nil {
		return nil, err
	}
	if err := s.awaitPlace(ctx); err != nil {
		return nil, err
	}
	defer func() { <-s.busy }()
	said := answer{Level: s.options.level(), Recorded: recorded{Summary: strings.Repeat(" ", mostSummary)}, Note: strings.Repeat(" ", mostSummary)}
	var files []string
	for i, id := range []*string{&a.Session, &a.Other}[:t.sessions] {
		k, err := s.sessionOf(ctx, *id)
		if err != nil {
			return nil, err
		}
		*id = k.ID // of the cursor, too: the newest session may be another one by then
		*[]*string{&said.Session, &said.Other}[i] = k.ID
		files = append(files, k.Capture)
	}
	p.total = max(a.maxBytes()-p.frugal(said), leastBytes/4)
	p.room, p.toEnd = p.total, t.summary
	said.Recorded.Summary, said.Note = "", ""
	if !p.full {
		said.Note = t.note
	}
	if t.rows != nil {
		if err := t.rows(ctx, s, p); err != nil {
			return nil, err
		}
		return p.finish(said), nil
	}
	told, err := s.run(ctx, p, t.words(a), files)
	if err != nil {
		return nil, err
	}
	said.Recorded.Summary = told // faults quote the session
	if len(p.rows) == 0 && t.none != "" {
		said.Note = t.none
	}
	return p.finish(said), nil
}

// awaitPlace waits for a place.
func (s *Server) awaitPlace(ctx context.Context) error {
	select {
	case s.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// mostSummary bounds what a command says, in bytes.
const mostSummary = 300

// run runs a command on the files of sessions, and returns the last line that it says. It is an error if there are
// no rows.
func (s *Server) run(ctx context.Context, p *page, words, files []string) (string, error) {
	var said tail
	status := s.options.Run(ctx, !p.full && !p.of.exact, slices.Concat([]string{"wirectl"}, words, files), p, &said)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	const usage, differs = 2, 3 // differs or has findings
	if !p.full && p.of.exact && status != 0 && status != usage && status != differs && p.next == 0 {
		said = tail{} // which may quote the session: only what an outline makes it say is shown
		s.options.Run(ctx, true, slices.Concat([]string{"wirectl"}, words, files), io.Discard, &said)
	}
	last := said.last()
	for i, file := range files {
		last = strings.ReplaceAll(last, file, []string{p.args.Session, p.args.Other}[i])
	}
	last = member{value: clean(quote(last), !p.full, nil)}.unquoted()
	if status != 0 && status != differs && len(p.rows) == 0 && p.next == 0 {
		last = cutText(cmp.Or(last, "the session cannot be read"), mostSummary)
		if status != usage {
			last = fmt.Sprintf("<recorded_data about=%q>\n%s\n</recorded_data>", about, unmarked.Replace(last))
		}
		return "", errors.New(last)
	}
	if p.of.summary || status != 0 && p.next == 0 {
		return cutText(last, mostSummary), nil
	}
	return "", nil
}

// A tail keeps the end of what a command says.
type tail struct{ text []byte }

func (t *tail) Write(text []byte) (int, error) {
	const most = 4 << 10
	t.text = append(t.text, text...)
	t.text = t.text[max(0, len(t.text)-most):]
	return len(text), nil
}

// last returns the last line.
func (t *tail) last() string {
	text := strings.TrimSpace(string(t.text))
	return strings.TrimPrefix(text[strings.LastIndexByte(text, '\n')+1:], "wirectl: ")
}

// sessionRow is a session as a row of sessions.
type sessionRow struct {
	ID         string     `json:"id"`
	Started    time.Time  `json:"started,omitzero"`
	Ended      *time.Time `json:"ended,omitempty"`
	Agent      string     `json:"agent,omitempty"`
	Client     string     `json:"client,omitempty"`
	Server     string     `json:"server,omitempty"`
	Record     string     `json:"record,omitempty"`
	Protocols  []string   `json:"protocols,omitempty"`
	Frames     int64      `json:"frames,omitempty"`
	Calls      int64      `json:"calls"`
	Failures   int64      `json:"failures"`
	Findings   int64      `json:"findings,omitempty"`
	Input      int64      `json:"input_tokens,omitempty"`
	Output     int64      `json:"output_tokens,omitempty"`
	Live       bool       `json:"live,omitempty"`
	Lost       bool       `json:"lost,omitempty"`
	Incomplete bool       `json:"incomplete,omitempty"`
	Size       int64      `json:"size,omitempty"`
	Prompt     string     `json:"prompt,omitempty"`
}

func rowOf(k *store.Kept) row {
	r := sessionRow{
		ID: k.ID, Started: k.Started, Agent: k.Agent, Client: k.Client, Server: k.Server, Record: string(k.Level), Protocols: k.Protocols, Frames: k.Frames,
		Calls: k.Calls, Failures: k.Failures, Findings: k.Findings, Input: k.Usage.Input, Output: k.Usage.Output, Live: k.Live, Lost: k.Lost,
		Incomplete: k.Incomplete, Size: k.Size, Prompt: k.Prompt,
	}
	if !k.Ended.IsZero() {
		r.Ended = &k.Ended
	}
	found, _ := readRow(jsonscan.MustMarshal(r))
	return found
}

func sessionRows(ctx context.Context, s *Server, p *page) error {
	list, err := s.list(ctx, true)
	if err != nil {
		return cmp.Or(context.Cause(ctx), errors.New("the records cannot be listed"))
	}
	for i := range list {
		if agent := p.args.Agent; strings.Contains(strings.ToLower(list[i].Agent+" "+list[i].Client), strings.ToLower(agent)) {
			p.addRow(rowOf(&list[i]))
		}
	}
	return nil
}

func searchRows(ctx context.Context, s *Server, p *page) error {
	var list []store.Kept
	var err error
	if p.args.Session != "" {
		var k *store.Kept
		if k, err = s.sessionOf(ctx, p.args.Session); err == nil {
			p.args.Session, list = k.ID, []store.Kept{*k}
		}
	} else {
		list, err = s.list(ctx, false)
	}
	if err != nil {
		return err
	}
	words := []string{"decode", "-q", "-o", "ndjson", "--where=payload~" + string(jsonscan.AppendQuote(nil, []byte(p.args.Text)))}
	if !p.full {
		words = []string{"calls", "-q", "-o", "ndjson"}
		p.keep = func(r row) bool {
			return slices.ContainsFunc([]string{"wire", "kind", "name", "id", "model"}, func(name string) bool { return strings.Contains(member{value: r.value(name)}.unquoted(), p.args.Text) })
		}
	}
	for i := range list {
		p.first = row{{"session", quote(list[i].ID)}}
		// A session that cannot be read has no row, and one that is cut those before.
		if _, _ = s.run(ctx, p, words, []string{list[i].Capture}); ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if p.next > 0 {
			break
		}
	}
	return nil
}

// whyLine is an answer of why for people.
func whyLine(r row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:", member{value: r.value("verdict")}.unquoted())
	if c, ok := readRow(r.value("call")); ok {
		b.WriteString(" " + c.line())
	}
	for _, name := range []string{"text", "do"} {
		if text := r.value(name); text != nil {
			fmt.Fprintf(&b, "\n    %s", text)
		}
	}
	for at := range list(r.value("evidence")) {
		b.WriteString("\n    " + at.line())
	}
	return b.String()
}
