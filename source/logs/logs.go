// Package logs reads files whose lines hold messages: traces of language clients, logs of MCP clients, and
// logs of programs that write messages of JSON-RPC into a field or after a prefix.
package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/source"
)

// The forms of logs.
var (
	LSP = &source.Form{
		Name: "lsp-json", Piped: true, About: "a JSON trace of a language client", Is: anyLine(func(line []byte) bool { _, ok := traced(line); return ok }),
		Open: func(f *source.File) (source.Reader, error) { return newReader(f, "lsp", readTraced), nil },
	}
	Desktop = &source.Form{
		Name: "mcp-log", Piped: true, About: "a log of an MCP server by Claude Desktop", Is: anyLine(desktopPattern.Match),
		Open: func(f *source.File) (source.Reader, error) { return newReader(f, "mcp", readDesktop), nil },
	}
	Wrapped = &source.Form{
		Name: "log", Piped: true, About: "a log whose lines wrap messages", Is: wrapsMessages,
		Open: func(f *source.File) (source.Reader, error) { return newReader(f, "", readWrapped), nil },
	}
)

func anyLine(match func([]byte) bool) func(*source.Head) bool {
	return func(h *source.Head) bool { return slices.ContainsFunc(h.Lines(), match) }
}

// An entry is what a line says.
type entry struct {
	message []byte // of JSON; nil if there is none
	at      time.Time
	dir     frame.Dir // DirUnknown if the line does not tell
	note    string
}

// A reader yields the messages of a log.
type reader struct {
	lines    *source.Lines
	protocol string
	field    string
	read     func(*reader, []byte) entry
	flush    func() (entry, error) // what the last lines make; nil for nothing
	failed   error
	conn     int
	began    bool // the connection has had an initialize
	queue    []source.Record
	pending  map[string]frame.Dir // requests, by side and id
	outward  frame.Dir            // the direction of what the program sends; DirUnknown as long as that is not known
	latest   time.Time
	messages int
}

// maxPending bounds the requests that are remembered for their answers.
const maxPending = 1 << 14

func newReader(f *source.File, protocol string, read func(*reader, []byte) entry) *reader {
	return &reader{
		lines: source.NewLines(f.Reader, f.Live), protocol: protocol, field: f.Field, read: read, conn: 1, pending: map[string]frame.Dir{},
		queue: []source.Record{{Kind: source.Lost}}, // a log need not have all messages
	}
}

// About describes the log.
func (r *reader) About() source.About { return source.About{} }

// Next reads the next record; see [source.Reader].
func (r *reader) Next(rec *source.Record) error {
	for len(r.queue) == 0 {
		if r.failed != nil {
			return r.failed
		}
		line, err := r.lines.Next()
		switch {
		case errors.Is(err, source.ErrIdle):
			*rec = source.Record{Kind: source.Idle}
			return nil
		case err == io.EOF && r.flush != nil:
			last, cut := r.flush()
			if r.failed = err; cut != nil {
				r.failed, last = source.ErrCut, entry{}
			}
			r.queueEntry(last)
			continue
		case err == io.EOF && r.messages == 0:
			return errors.New("it has no messages" + r.inField())
		case err != nil:
			return err
		}
		r.queueEntry(r.read(r, line))
	}
	*rec, r.queue = r.queue[0], r.queue[1:]
	return nil
}

func (r *reader) inField() string {
	if r.field == "" {
		return ""
	}
	return fmt.Sprintf(" in %q", r.field)
}

// queueEntry queues the records of an entry.
func (r *reader) queueEntry(e entry) {
	if e.at.Before(r.latest) {
		e.at = r.latest
	}
	r.latest = e.at
	rec := source.Record{Conn: r.conn, Time: e.at, Protocol: r.protocol, Data: e.message}
	if e.note != "" {
		r.queue = append(r.queue, source.Record{Kind: source.Note, Conn: r.conn, Time: e.at, Data: []byte(e.note)})
	}
	if e.message == nil {
		return
	}
	r.messages++
	method := stringOf(e.message, "method")
	rec.Dir = r.direction(e, method)
	if method == "initialize" && rec.Dir == frame.C2U { // a restart is appended to the log
		if r.began {
			for _, dir := range []frame.Dir{frame.C2U, frame.U2C} {
				r.queue = append(r.queue, source.Record{Kind: source.Ended, Conn: r.conn, Dir: dir, Time: e.at})
			}
			r.conn++
			clear(r.pending)
		}
		r.began, rec.Conn = true, r.conn
	}
	r.queue = append(r.queue, rec)
}

// fromServer are methods that only servers call.
var fromServer = []string{
	"sampling/createMessage", "roots/list", "elicitation/create", "notifications/message", "notifications/progress",
	"notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed",
	"notifications/resources/updated", "session/update", "session/request_permission", "fs/read_text_file", "fs/write_text_file",
}

// direction returns the direction of a message: as its entry says or, without that, by its method or the
// request that it answers. What "out" means depends on which end has written the log: the first request
// of a client tells.
func (r *reader) direction(e entry, method string) frame.Dir {
	raw, hasID := jsonscan.Get(e.message, "id")
	id := string(raw)
	byMethod := frame.C2U
	if slices.Contains(fromServer, method) {
		byMethod = frame.U2C
	}
	if method == "" { // an answer
		dir, known := r.pending["c"+id]
		if !known {
			if dir, known = r.pending["u"+id]; !known {
				dir = frame.C2U
			}
		}
		byMethod = dir.Opposite()
	}
	dir := byMethod
	if r.protocol == "" && e.dir != frame.DirUnknown { // in relation to the program
		if r.outward == frame.DirUnknown && method != "" {
			if r.outward = byMethod; e.dir == frame.U2C {
				r.outward = byMethod.Opposite()
			}
		}
		if r.outward != frame.DirUnknown {
			if dir = r.outward; e.dir == frame.U2C {
				dir = dir.Opposite()
			}
		}
	} else if e.dir != frame.DirUnknown {
		dir = e.dir
	}
	switch side := map[frame.Dir]string{frame.C2U: "c", frame.U2C: "u"}; {
	case method != "" && hasID && len(r.pending) < maxPending:
		r.pending[side[dir]+id] = dir
	case method == "":
		delete(r.pending, side[dir.Opposite()]+id)
	}
	return dir
}

func stringOf(message []byte, key string) string {
	raw, _ := jsonscan.Get(message, key)
	text, _ := jsonscan.Unquote(raw)
	return string(text)
}

// traced returns the object of a line of a language client's trace.
func traced(line []byte) ([]byte, bool) {
	i := bytes.IndexByte(line, '{')
	if i < 0 || !source.Members(line[i:]).Has("isLSPMessage type message.jsonrpc timestamp") {
		return nil, false
	}
	return line[i:], true
}

func readTraced(_ *reader, line []byte) entry {
	object, ok := traced(line)
	if !ok || jsonscan.WellFormed(object) != nil {
		return entry{}
	}
	e := entry{dir: frame.U2C}
	if bytes.HasPrefix([]byte(stringOf(object, "type")), []byte("send-")) {
		e.dir = frame.C2U
	}
	e.message, _ = jsonscan.Get(object, "message")
	at, _ := jsonscan.Get(object, "timestamp")
	e.message, e.at = bytes.Clone(e.message), timeOf(at)
	return e
}

var (
	desktopPattern = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT[0-9:.]+Z) \[[^\]]+\] \[\w+\] Message from (client|server): \{`)
	desktopLine    = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT[0-9:.]+Z) \[[^\]]+\] \[(\w+)\] `)
)

func readDesktop(_ *reader, line []byte) entry {
	found := desktopPattern.FindSubmatchIndex(line)
	if found == nil {
		if head := desktopLine.FindSubmatch(line); head != nil && string(head[2]) != "error" {
			return entry{}
		}
		const most = 500
		return entry{note: string(line[:min(len(line), most)])} // standard error of the server, or an error
	}
	e := entry{dir: frame.U2C}
	if string(line[found[4]:found[5]]) == "client" {
		e.dir = frame.C2U
	}
	e.at, _ = time.Parse(time.RFC3339Nano, string(line[found[2]:found[3]]))
	var s jsonscan.Scanner
	s.Init(line[found[1]-1:]) // what follows the value is no part of it
	if e.message = bytes.Clone(s.Value()); len(e.message) == 0 || jsonscan.WellFormed(e.message) != nil {
		return entry{at: e.at, note: "a message that is cut in the log"}
	}
	return e
}

// readWrapped reads a line with a message in a field, or after a prefix.
func readWrapped(r *reader, line []byte) entry {
	start := 0
	if line[0] != '{' {
		if start = bytes.IndexByte(line, '{'); start < 0 {
			return entry{}
		}
	}
	object, prefix := line[start:], line[:start]
	if jsonscan.WellFormed(object) != nil {
		return entry{}
	}
	var e entry
	if len(prefix) > 0 && r.field == "" {
		if isMessage(object) {
			e.message = bytes.Clone(object)
			e.at, e.dir = timeOf(timePattern.Find(prefix)), directionIn(prefix)
		}
		return e
	}
	for key, value := range members(object) {
		text := value
		if plain, ok := jsonscan.Unquote(value); ok {
			text = plain
		}
		switch {
		case slices.Contains(timeKeys, key):
			e.at = timeOf(value)
		case key == r.field || r.field == "" && e.message == nil && isMessage(text):
			if jsonscan.WellFormed(text) == nil && len(text) > 0 && (text[0] == '{' || text[0] == '[') {
				e.message = bytes.Clone(text)
			}
		case e.dir == frame.DirUnknown && len(text) < 200 && len(value) > 0 && value[0] == '"':
			e.dir = directionIn(text)
		}
	}
	return e
}

// members yields the members of an object.
func members(object []byte) func(func(string, []byte) bool) {
	return func(yield func(string, []byte) bool) {
		var s jsonscan.Scanner
		s.Init(object)
		for ok := s.Object(); ok && s.Next(); {
			if key := string(s.Key()); !yield(key, s.Value()) {
				return
			}
		}
	}
}

func isMessage(text []byte) bool {
	return len(text) > 0 && text[0] == '{' && source.Members(text).Has("jsonrpc=2.0")
}

var (
	timeKeys    = []string{"time", "ts", "timestamp", "@timestamp"}
	timePattern = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:?\d\d)?`)
	outPattern  = regexp.MustCompile(`(?i)(^|[^<])(->|=>|→|>>)|\b(send|sent|sending|out|outgoing|outbound|tx|writing|wrote)\b`)
	inPattern   = regexp.MustCompile(`(?i)(<-|<=|←|<<)|\b(recv|received?|receiving|in|incoming|inbound|rx|got)\b`)
)

// directionIn returns the direction that words tell, in relation to the program: C2U is out.
func directionIn(text []byte) frame.Dir {
	out, in := outPattern.Match(text), inPattern.Match(text)
	switch {
	case out && !in:
		return frame.C2U
	case in && !out:
		return frame.U2C
	}
	return frame.DirUnknown
}

// timeOf reads a time: seconds or milliseconds since 1970, or text.
func timeOf(value []byte) time.Time {
	text := value
	if plain, ok := jsonscan.Unquote(value); ok {
		text = plain
	}
	if n, err := strconv.ParseFloat(string(text), 64); err == nil {
		const isMillis, most = 1e11, 1e14
		switch {
		case n > most || n < 0:
			return time.Time{}
		case n > isMillis:
			return time.UnixMicro(int64(n * 1e3)).UTC()
		}
		return time.UnixMicro(int64(n * 1e6)).UTC()
	}
	clean := string(bytes.Replace(bytes.Replace(text, []byte(" "), []byte("T"), 1), []byte(","), []byte("."), 1))
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700", "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, clean); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

// wrapsMessages recognizes a log: at least two of its lines hold a message of JSON-RPC in a field, as an
// object or a string, or after a prefix, and a time; none is one itself, or a record of wirectl.
func wrapsMessages(h *source.Head) bool {
	found := 0
	for _, line := range h.Lines() {
		if line[0] == '{' {
			if o := source.Members(line); o["jsonrpc"] != nil || o.Has("seq time dir size") {
				return false
			}
		} else if !timePattern.Match(line[:max(bytes.IndexByte(line, '{'), 0)]) {
			continue
		}
		if e := readWrapped(&reader{}, line); e.message != nil && !e.at.IsZero() {
			found++
		}
	}
	return found >= 2
}

// Inspector is the form of the history of MCP Inspector.
var Inspector = &source.Form{
	Name: "mcp-inspector", About: "a history of MCP Inspector",
	Document: []string{"0.direction 0.timestamp 0.message.jsonrpc"}, Open: openHistory,
}

// maxHistory bounds a history, in bytes.
const maxHistory = 64 << 20

// openHistory reads a whole history, because answers come at the times of later items.
func openHistory(f *source.File) (source.Reader, error) {
	text, err := io.ReadAll(io.LimitReader(f.SoFar(), maxHistory+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxHistory:
		return nil, fmt.Errorf("it is over %d MiB", maxHistory>>20)
	case jsonscan.IsCut(text):
		return nil, source.ErrCut
	}
	var items []struct {
		Timestamp json.RawMessage
		Message   json.RawMessage
		Response  json.RawMessage
		Duration  float64
	}
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(text, &items); err != nil && !errors.As(err, &wrong) {
		return nil, err
	}
	var entries []entry
	for _, item := range items {
		if !isMessage(item.Message) {
			continue
		}
		at := timeOf(item.Timestamp)
		entries = append(entries, entry{message: item.Message, at: at})
		if isMessage(item.Response) {
			took := min(max(item.Duration, 0), float64(24*time.Hour/time.Millisecond))
			entries = append(entries, entry{message: item.Response, at: at.Add(time.Duration(took * float64(time.Millisecond)))})
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return a.at.Compare(b.at) })
	r := newReader(&source.File{Reader: bytes.NewReader(nil)}, "mcp", nil)
	for _, e := range entries {
		r.queueEntry(e)
	}
	return r, nil
}
