package again

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// A question is what a request asks, without what changes from run to run: ids, times, folders. Two requests
// with the same question get the same answer.
type question struct {
	kind kind
	// doc is the question as JSON, without what the agent has added to the messages by itself, such as reminders.
	doc []byte
	// sum identifies it with these, and loose without.
	sum, loose [sha256.Size]byte
	parts      [][sha256.Size]byte // what similar questions begin with: messages, or what is called
	label      string              // for people
	turn       int                 // of a model call: 1 and the answers before it; 0 if they are not in the request
	previous   string              // the id of the answer that it continues
	id, token  []byte              // of JSON-RPC, as JSON: of the request and of its progress
	model      string
}

// A kind says what may differ in a question.
type kind uint8

const (
	other  kind = iota
	model       // a call of a model
	rpc         // JSON-RPC, such as MCP
	answer      // or a notification of JSON-RPC: nothing is answered
)

// A member is one of a document.
type member = map[string]any

// A reader reads questions.
type reader struct {
	folders *strings.Replacer
	mask    func(body []byte) []byte

	mu   sync.Mutex
	seen map[string]string // stable texts: each request repeats those before
	size int               // of these, in bytes
}

// newReader returns a reader for texts of two runs, which were started in these folders.
func newReader(getenv func(string) string, folders ...string) *reader {
	var pairs []string
	slices.SortFunc(folders, func(a, b string) int { return len(b) - len(a) })
	for _, folder := range folders {
		for _, name := range []string{folder, resolved(folder)} {
			if len(name) > 1 {
				pairs = append(pairs, name, "‹here›")
			}
		}
	}
	for _, home := range []string{getenv("CODEX_HOME"), getenv("CLAUDE_CONFIG_DIR"), getenv("HOME"), getenv("USERPROFILE")} {
		if len(home) > 1 {
			pairs = append(pairs, home, "‹home›")
		}
	}
	return &reader{folders: strings.NewReplacer(pairs...), mask: masker()}
}

func resolved(folder string) string {
	if name, err := filepath.EvalSymlinks(folder); err == nil {
		return name
	}
	return folder
}

// masker returns a function that masks secrets in a body as they are masked in records.
func masker() func([]byte) []byte {
	return func(body []byte) []byte {
		out := body
		if json.Valid(body) {
			w := writer(func(r *capture.Record) { out = bytes.Clone(r.Payload()) })
			_ = capture.Redact(w, &capture.Session{}, capture.Secrets()).Write(&capture.Record{Kind: capture.Frame, Protocol: "json", Frame: frame.Frame{Raw: body, End: len(body)}}) // w cannot fail
		}
		return out
	}
}

type writer func(*capture.Record)

func (w writer) Write(r *capture.Record) error {
	w(r)
	return nil
}

// read reads the question of a request. The body is not compressed.
func (r *reader) read(method, target string, body []byte) question {
	body = r.mask(body)
	u, err := url.Parse(target)
	if err != nil {
		u = &url.URL{Path: target}
	}
	q := question{label: method + " " + u.Path}
	doc, context := member{"method": method, "path": r.stable(u.Path)}, []any(nil)
	if keys := queryOf(u); len(keys) > 0 {
		doc["query"] = keys
	}
	var object member
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	isObject := decoder.Decode(&object) == nil && object != nil && !decoder.More()
	var given llm.Given
	if isObject {
		given.Read(body)
	}
	asks := slices.ContainsFunc(given.Blocks, func(b llm.Block) bool { return b.Part == llm.MessagePart })
	switch {
	case isObject && object["jsonrpc"] != nil:
		q.readRPC(r, object, doc)
	case isObject && (asks || given.Held):
		q.kind, q.model = model, given.Model
		doc["model"] = given.Model
		if object["stream"] == true { // the answer has another form
			doc["stream"] = true
		}
		if given.Held { // else it is only told, for diagnostics
			q.previous = given.Previous
			doc["previous"] = given.Previous
		}
		if kind, ok := object["type"].(string); ok && object["generate"] == false {
			doc["type"] = kind + " without an answer"
		}
		var messages []any
		messages, context, q.turn = r.messages(&given)
		doc["messages"] = messages
		for _, m := range messages {
			q.addPart(m)
		}
		if given.Held {
			q.turn = 0
		}
		if q.model == "" { // Gemini names it in the path
			q.model, _, _ = strings.Cut(path.Base(u.Path), ":")
		}
		q.label = "the call of " + q.model
	case isObject:
		doc["body"] = r.value(object)
	case len(body) > 0:
		doc["body"] = r.stable(string(body))
	}
	if q.kind == other && len(q.parts) == 0 {
		q.addPart(doc["path"])
	}
	q.doc, _ = json.Marshal(doc)
	q.loose = sha256.Sum256(q.doc)
	more, _ := json.Marshal(context)
	q.sum = sha256.Sum256(slices.Concat(q.doc, more))
	return q
}

// addPart adds a part.
func (q *question) addPart(part any) {
	text, _ := json.Marshal(part)
	q.parts = append(q.parts, sha256.Sum256(text))
}

// queryOf returns the values of a query, without credentials.
func queryOf(u *url.URL) member {
	query := member{}
	for name, values := range u.Query() {
		if !slices.Contains([]string{"key", "sig", "signature"}, strings.ToLower(name)) && !jsondiff.HoldsID(name) {
			query[name] = values
		}
	}
	return query
}

func (q *question) readRPC(r *reader, object, doc member) {
	name, isRequest := object["method"].(string)
	q.kind = rpc
	if object["id"] == nil || !isRequest {
		q.kind = answer
	}
	q.id, _ = json.Marshal(object["id"])
	params, _ := object["params"].(member)
	if meta, ok := params["_meta"].(member); ok {
		if token := meta["progressToken"]; token != nil {
			q.token, _ = json.Marshal(token)
		}
		delete(params, "_meta")
	}
	delete(params, "clientInfo")
	q.label = name
	if tool, ok := params["name"].(string); ok {
		q.label += " " + tool
	}
	q.addPart(name)
	q.addPart(params["name"])
	doc["call"] = name
	doc["params"] = r.value(params)
	if !isRequest {
		doc["result"] = r.value(object["result"])
	}
}

// roles are what the speakers are called.
var roles = map[llm.Role]string{llm.UserRole: "user", llm.AssistantRole: "model", llm.SystemRole: "system", llm.ToolRole: "tool"}

// messages returns what is said in a request, what the agent has added by itself, and the number of the turn.
func (r *reader) messages(given *llm.Given) (said, context []any, turn int) {
	turn = 1
	last := llm.NoRole
	for _, b := range given.Blocks {
		if b.Part != llm.MessagePart {
			continue
		}
		role := b.Role
		if b.Kind == llm.CallBlock || b.Kind == llm.ThoughtBlock {
			role = llm.AssistantRole // in Responses, items have no roles
		}
		if b.Kind == llm.ResultBlock {
			role = llm.ToolRole
		}
		if role == llm.AssistantRole && last != llm.AssistantRole {
			turn++
		}
		last = role
		if b.Kind == llm.ThoughtBlock {
			continue // some agents leave them out later
		}
		var value any
		raw := given.Body[b.Start:b.End]
		if text := b.Text.Of(given.Body); len(text) > 0 {
			raw = text
		}
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		if decoder.Decode(&value) != nil {
			value = string(raw)
		}
		value, added := r.split(r.value(value))
		if role == llm.SystemRole {
			added, value = append(added, value), nil
		}
		context = append(context, added...)
		if value != nil {
			said = append(said, member{roles[role]: value})
		}
	}
	return said, context, turn
}

// added are the tags of texts that agents add to messages by themselves.
var added = []string{"system-reminder", "system_reminder", "environment_context", "environment_details", "session_context", "user_instructions", "INSTRUCTIONS", "env"}

// split takes out of strings what the agent has added. The value is nil if nothing else was in it.
func (r *reader) split(value any) (rest any, more []any) {
	switch v := value.(type) {
	case string:
		for _, tag := range added {
			for {
				from := strings.Index(v, "<"+tag+">")
				to := strings.Index(v, "</"+tag+">")
				if from < 0 || to < from {
					break
				}
				to += len(tag) + len("</>")
				more = append(more, v[from:to])
				v = v[:from] + v[to:]
			}
		}
		if v = strings.TrimSpace(v); v == "" && len(more) > 0 {
			return nil, more
		}
		return v, more
	case member:
		for key, one := range v {
			rest, of := r.split(one)
			if more = append(more, of...); rest == nil && one != nil {
				rest = ""
			}
			v[key] = rest
		}
	case []any:
		for i, one := range v {
			rest, of := r.split(one)
			if more = append(more, of...); rest == nil && one != nil {
				rest = ""
			}
			v[i] = rest
		}
	}
	return value, more
}

// volatile are members that say nothing about what is asked.
var volatile = regexp.MustCompile(`(?i)^(id|cache_control|status|_meta|metadata|client_metadata|user_id|.*(session|device|account|request|trace|span|thread|turn|installation|event|anonymous|message|call|use)_?-?id|timestamp|.*(_at|time|_ms|date)|nonce|uuid|thoughtSignature|thought_signature|signature|encrypted_content)$`)

// value returns a value without what changes from run to run.
func (r *reader) value(value any) any {
	switch v := value.(type) {
	case string:
		return r.stable(v)
	case json.Number:
		if text := r.stable(v.String()); text != v.String() {
			return text
		}
	case member:
		for name, one := range v {
			if volatile.MatchString(name) {
				delete(v, name)
			} else {
				v[name] = r.value(one)
			}
		}
	case []any:
		for i, one := range v {
			v[i] = r.value(one)
		}
	}
	return value
}

// A rule replaces what changes from run to run.
type rule struct {
	pattern *regexp.Regexp
	with    string
}

const months = `(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*`

var rules = []rule{
	{regexp.MustCompile(`\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b`), "‹id›"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|[+-]\d\d:?\d\d))?)?`), "‹time›"},
	{regexp.MustCompile(`\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? )?(?:\d{1,2} ` + months + `|` + months + ` \d{1,2}),? \d{4}\b`), "‹time›"},
	{regexp.MustCompile(`\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]* ` + months + ` +\d{1,2} \d\d:\d\d:\d\d\b[^\n]{0,20}`), "‹time›"},
	{regexp.MustCompile(`\b\d{1,2}/\d{1,2}/\d{4}\b`), "‹time›"},
	{regexp.MustCompile(`\b\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?[AP]M)?\b`), "‹time›"},
	{regexp.MustCompile(`\b1[6-9]\d{8}(?:\d{3}|\d{6}|\d{9})?\b`), "‹time›"},
	{regexp.MustCompile(`\b\d+(?:\.\d+)? ?(?:ns|µs|us|ms|s|secs?|seconds?|milliseconds?|minutes?)\b`), "‹duration›"},
	{regexp.MustCompile(`(?i)\b((?:chunk|process|session|request|task|thread|agent) ?id|p{1,2}g?ids?)(["']?[:=]? *["']?)[\w-]*\d[\w-]*`), "$1$2‹id›"},
	{regexp.MustCompile(`\b[a-z]{2,8}_[A-Za-z0-9]{12,}(?:_\d+)?\b`), "‹id›"},
	{regexp.MustCompile(`\b[0-9a-f]{16,39}\b`), "‹id›"},
	{regexp.MustCompile(`\b(127\.0\.0\.1|localhost|\[::1\]):\d{2,5}\b`), "$1:‹port›"},
	{regexp.MustCompile(`(?:/home|/Users)/[^/\s"'<>]+|/root\b|[A-Z]:\\Users\\[^\\\s"'<>]+`), "‹home›"},
}

// temporary matches the folders that programs make for themselves.
var temporary = regexp.MustCompile(`(?:` + regexp.QuoteMeta(strings.TrimSuffix(os.TempDir(), "/")) + `|/tmp|/private/tmp|/var/folders/[^/\s]+/[^/\s]+/T)/[^/\s"'<>]+`)

// stable returns a text without what changes from run to run.
func (r *reader) stable(text string) string {
	const short, most = 100, 64 << 20
	if len(text) > short {
		r.mu.Lock()
		known, ok := r.seen[text]
		r.mu.Unlock()
		if ok {
			return known
		}
	}
	result := temporary.ReplaceAllString(r.folders.Replace(text), "‹tmp›")
	for _, rule := range rules {
		result = rule.pattern.ReplaceAllString(result, rule.with)
	}
	if len(text) > short {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.size += len(text); r.seen == nil || r.size > most {
			r.seen, r.size = map[string]string{}, len(text)
		}
		r.seen[text] = result
	}
	return result
}
