package logs

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/source"
)

// Trace is the form of the text traces of vscode-languageclient: of version 9, with the time of the day, and
// of 10 and 11, after the prefix of the editor's log. They have the bodies of messages if the trace is verbose.
var Trace = &source.Form{
	Name: "lsp-text", Piped: true, About: "a trace of a language client", Is: anyLine(headPattern.Match),
	Open: func(f *source.File) (source.Reader, error) {
		t := &trace{latest: time.Unix(0, 0).UTC(), asked: map[string]time.Time{}}
		r := newReader(f, "lsp", t.line)
		r.lines, r.flush = source.NewTextLines(f.Reader, f.Live), t.flush
		return r, nil
	},
}

var (
	prefixPattern = regexp.MustCompile(`^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+) \[\w+\] `)
	headPattern   = regexp.MustCompile(`^(?:\[Trace - ([^\]]+)\] |(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+) \[(?:info|trace)\] (?:\[Trace - [^\]]+\] )?)` +
		`(Sending|Received) (request|response|notification) '([^']+)'(.*)$`)
	idPattern     = regexp.MustCompile(`^(.+) - \((.*)\)$`)
	tookPattern   = regexp.MustCompile(`^(?: in |\. Processing request took )(\d{1,9})ms`)
	failedPattern = regexp.MustCompile(` Request failed: (.*) \((-?\d+)\)\.$`)
	wholePattern  = regexp.MustCompile(`^-?\d+$`)
)

// A trace puts the messages of a text trace together again.
type trace struct {
	head    bool // of a message was read, which is not complete
	now     entry
	kind    string // request, response or notification
	method  string
	id      string // as JSON
	failure string // an error, as JSON without its data; "" for none
	member  string // that the body is: params, result or data; "" for none
	body    []byte
	depth   int // of the body, by its lines
	verbose bool
	latest  time.Time
	asked   map[string]time.Time // requests, by direction and id
}

var bodies = []struct{ text, member, value string }{
	{"Params: ", "params", ""}, {"Result: ", "result", ""}, {"Error data: ", "data", ""}, {"No result returned.", "result", "null"},
}

// line takes the next line. It returns the message that is complete with it.
func (t *trace) line(_ *reader, line []byte) entry {
	if head := headPattern.FindSubmatch(line); head != nil {
		before, _ := t.flush()
		t.takeHead(head)
		return before
	}
	if !t.head {
		return entry{}
	}
	if t.depth == 0 {
		line = line[len(prefixPattern.Find(line)):]
		for _, m := range bodies {
			if rest, ok := bytes.CutPrefix(line, []byte(m.text)); ok && t.member == "" {
				t.member, t.verbose = m.member, true
				line = append([]byte(m.value), rest...)
				break
			}
		}
		if t.member == "" {
			return entry{} // something else in the log
		}
	}
	if len(line) > 0 && (line[0] == '}' || line[0] == ']') {
		t.depth--
	}
	if last := line[max(len(line)-1, 0):]; string(last) == "{" || string(last) == "[" {
		t.depth++
	}
	const most = 32 << 20
	if len(t.body)+len(line) <= most {
		t.body = append(append(t.body, line...), '\n')
	}
	if t.depth > 0 {
		return entry{}
	}
	done, _ := t.flush()
	return done
}

// takeHead begins the message of a line.
func (t *trace) takeHead(head [][]byte) {
	*t = trace{head: true, kind: string(head[4]), method: string(head[5]), verbose: t.verbose, latest: t.latest, asked: t.asked}
	if id := idPattern.FindStringSubmatch(t.method); id != nil && t.kind != "notification" {
		t.method, t.id = id[1], id[2]
		if !wholePattern.MatchString(t.id) {
			t.id = string(jsonscan.AppendQuote(nil, []byte(t.id)))
		}
	}
	t.now.dir = frame.U2C
	if string(head[3]) == "Sending" {
		t.now.dir = frame.C2U
	}
	if f := failedPattern.FindSubmatch(head[6]); f != nil {
		t.failure = fmt.Sprintf(`"code":%s,"message":%s`, f[2], jsonscan.AppendQuote(nil, f[1]))
	}
	if t.now.at = timeOf(head[2]); t.now.at.IsZero() {
		t.now.at = t.clock(string(head[1]))
	}
	t.latest = t.now.at
	if key := t.now.dir.String() + t.id; t.kind == "request" && len(t.asked) < maxPending {
		t.asked[key] = t.now.at
	} else if took := tookPattern.FindSubmatch(head[6]); t.kind == "response" && took != nil {
		key = t.now.dir.Opposite().String() + t.id
		ms, _ := strconv.Atoi(string(took[1]))
		if at, ok := t.asked[key]; ok { // which is more exact than a clock of seconds
			t.now.at = at.Add(time.Duration(ms) * time.Millisecond)
		}
		delete(t.asked, key)
	}
}

// clock returns a time of the day, which has no date: on the first day of 1970, or those after it.
func (t *trace) clock(text string) time.Time {
	const day = 24 * time.Hour
	text = string(bytes.ReplaceAll([]byte(text), []byte("\u202f"), []byte(" ")))
	for _, layout := range []string{"15:04:05", "3:04:05 PM", "3:04:05 pm", "15.04.05"} {
		at, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		at = t.latest.Truncate(day).Add(at.Sub(at.Truncate(day)))
		if t.latest.Sub(at) > day/2 {
			at = at.Add(day)
		}
		return at
	}
	return t.latest
}

var errCutBody = errors.New("the body of a message is cut")

// flush ends the message. The error says that it has only a part of its body.
func (t *trace) flush() (done entry, err error) {
	if !t.head {
		return entry{}, nil
	}
	t.head, done = false, t.now
	body := t.body
	if t.member != "" && jsonscan.WellFormed(body) != nil {
		if jsonscan.IsCut(body) {
			err = errCutBody
		}
		if body = nil; t.kind == "response" && t.member == "result" {
			body = []byte("null")
		}
		done.note = "the body of " + t.method + " is not whole in the trace"
	}
	m := []byte(`{"jsonrpc":"2.0"`)
	if t.id != "" {
		m = append(append(m, `,"id":`...), t.id...)
	}
	add := func(member string, value []byte) {
		if value != nil {
			m = fmt.Appendf(m, `,%q:`, member)
			m = jsonscan.AppendCompact(m, value)
		}
	}
	switch {
	case t.kind != "response":
		add("method", jsonscan.AppendQuote(nil, []byte(t.method)))
		if t.member == "params" {
			add("params", body)
		}
	case t.failure != "" || t.member == "data" || t.member == "" && t.verbose: // of a response that is sent, the trace has no error
		if t.failure == "" {
			t.failure = `"code":0,"message":"the trace does not have the error"`
		}
		m = append(append(append(m, `,"error":{`...), t.failure...), '}')
		if t.member == "data" && body != nil {
			m = m[:len(m)-1]
			add("data", body)
			m = append(m, '}')
		}
	case t.member == "result":
		add("result", body)
	default:
		add("result", []byte("null"))
	}
	done.message = append(m, '}')
	return done, err
}
