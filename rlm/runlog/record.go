// Package runlog writes and reads the logs of recursive language models: files of JSON
// lines. The first line is about the run, each other line about a turn.
//
// The schema is version 1 of one that other implementations and their viewers share. They
// read every line that is not of type metadata as a turn, so no other type is written.
// They ignore unknown keys, and so does the [Reader]. This implementation has added error,
// finish_reason, metadata of a call, tool_calls, and total_cost.
package runlog

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
)

// Version is the version of the schema.
const Version = 1

// Metadata is the first line of a log.
type Metadata struct {
	SchemaVersion     int            `json:"schema_version,omitempty"` // set by the Writer
	Type              string         `json:"type,omitempty"`           // set by the Writer
	Timestamp         string         `json:"timestamp,omitempty"`      // ISO 8601; "" is set by the Writer
	RootModel         string         `json:"root_model"`
	MaxDepth          int            `json:"max_depth"`
	MaxIterations     int            `json:"max_iterations"`
	Backend           string         `json:"backend"`
	BackendKwargs     map[string]any `json:"backend_kwargs"`
	EnvironmentType   string         `json:"environment_type"`
	EnvironmentKwargs map[string]any `json:"environment_kwargs"`
	OtherBackends     []string       `json:"other_backends"` // nil is null
	CorrelationID     string         `json:"correlation_id,omitempty"`
}

// An Iteration is the line of a turn.
type Iteration struct {
	SchemaVersion int         `json:"schema_version,omitempty"` // set by the Writer
	Type          string      `json:"type,omitempty"`           // set by the Writer
	Iteration     int         `json:"iteration"`                // from 1
	Timestamp     string      `json:"timestamp,omitempty"`      // ISO 8601; "" is set by the Writer
	Prompt        Messages    `json:"prompt"`
	Response      Text        `json:"response"`
	CodeBlocks    []CodeBlock `json:"code_blocks"`
	ToolCalls     []ToolCall  `json:"tool_calls,omitempty"` // of the model, or of the code
	FinalAnswer   *Text       `json:"final_answer"`
	Seconds       float64     `json:"iteration_time"`
	CorrelationID string      `json:"correlation_id,omitempty"`
	Usage         *Usage      `json:"iteration_usage_summary,omitempty"`
	Cumulative    *Usage      `json:"cumulative_usage_summary,omitempty"` // of the run so far, including sub-calls
	FinishReason  string      `json:"finish_reason,omitempty"`            // in the last line
}

// A ToolCall is a call of a tool, with its result.
type ToolCall struct {
	ID        string  `json:"id"`
	Name      string  `json:"name"`
	Arguments Raw     `json:"arguments"`
	Result    Raw     `json:"result,omitempty"`
	Error     string  `json:"error,omitempty"`
	Seconds   float64 `json:"execution_time"`
}

// A CodeBlock is a block of code, with its result.
type CodeBlock struct {
	Code   string `json:"code"`
	Result Result `json:"result"`
}

// A Result is the result of a block of code.
type Result struct {
	Stdout        string           `json:"stdout"`
	Stderr        string           `json:"stderr"` // includes the error of the code, for which viewers have no other place
	Locals        map[string]Text  `json:"locals"`
	Seconds       float64          `json:"execution_time"`
	CorrelationID string           `json:"correlation_id,omitempty"`
	Calls         []ChatCompletion `json:"rlm_calls"`
}

// A ChatCompletion is a call of a model, or a child run.
type ChatCompletion struct {
	RootModel        string          `json:"root_model"`
	Prompt           json.RawMessage `json:"prompt"` // a string, an object or an array of messages
	Response         Text            `json:"response"`
	Usage            Usage           `json:"usage_summary"`
	PromptTokens     int64           `json:"prompt_tokens"`     // see SetTokens
	CompletionTokens int64           `json:"completion_tokens"` // see SetTokens
	Seconds          float64         `json:"execution_time"`
	ToolCalls        json.RawMessage `json:"tool_calls,omitempty"`
	FinishReason     string          `json:"finish_reason,omitempty"`
	Error            string          `json:"error,omitempty"`
	Run              *Run            `json:"metadata,omitempty"` // of a child run
}

// SetTokens sets PromptTokens and CompletionTokens to the usage of the root model.
func (c *ChatCompletion) SetTokens() {
	used := c.Usage.Models[c.RootModel]
	c.PromptTokens, c.CompletionTokens = used.InputTokens, used.OutputTokens
}

// A Run is the log of a child run, inside the record of its call.
type Run struct {
	Metadata   Metadata    `json:"run_metadata"`
	Iterations []Iteration `json:"iterations"`
}

// Usage is the usage of several models.
type Usage struct {
	Models    map[string]ModelUsage `json:"model_usage_summaries"`
	TotalCost float64               `json:"total_cost,omitempty"` // in dollars; 0 if not known
}

// ModelUsage is the usage of one model.
type ModelUsage struct {
	Calls        int64   `json:"total_calls"`
	InputTokens  int64   `json:"total_input_tokens"`
	OutputTokens int64   `json:"total_output_tokens"`
	TotalCost    float64 `json:"total_cost,omitempty"`
}

// A Text is written as a string. If another program has written something else, it is the
// JSON of that.
type Text string

// UnmarshalJSON reads any JSON.
func (t *Text) UnmarshalJSON(b []byte) error {
	*t = ""
	switch b[0] {
	case 'n':
		return nil
	case '"':
		return json.Unmarshal(b, (*string)(t))
	}
	*t = Text(b)
	return nil
}

// A Raw is JSON that is written as it is; "" is null.
type Raw string

// MarshalJSON implements [json.Marshaler].
func (r Raw) MarshalJSON() ([]byte, error) { return []byte(cmp.Or(string(r), "null")), nil }

// UnmarshalJSON implements [json.Unmarshaler].
func (r *Raw) UnmarshalJSON(b []byte) error {
	*r = Raw(b)
	return nil
}

// A Message is a message of a conversation.
type Message struct {
	Role       string `json:"role"`
	Content    Text   `json:"content"`
	ToolCalls  Raw    `json:"tool_calls,omitempty"` // of an assistant, as OpenAI writes them
	ToolCallID Text   `json:"tool_call_id,omitempty"`
}

// Messages are a conversation. Viewers expect an array with string contents. If another
// program has written a single prompt, it is read as one message of the user.
type Messages []Message

// UnmarshalJSON reads an array of messages, a message, or a string.
func (m *Messages) UnmarshalJSON(b []byte) error {
	switch b[0] {
	case 'n':
		*m = nil
		return nil
	case '[':
		return json.Unmarshal(b, (*[]Message)(m))
	}
	one := Message{Role: "user"}
	if b[0] != '{' {
		err := json.Unmarshal(b, &one.Content)
		*m = Messages{one}
		return err
	}
	err := json.Unmarshal(b, &one)
	if one.Content == "" {
		one.Content = Text(b)
	}
	*m = Messages{one}
	return err
}

// After returns the messages after the first ones that m has in common with earlier.
func (m Messages) After(earlier Messages) Messages {
	n := 0
	for n < min(len(m), len(earlier)) && m[n] == earlier[n] {
		n++
	}
	return m[n:]
}

// localChars bounds the representation of a variable, in characters.
const localChars = 2000

// reserved are the names of every run.
var reserved = []string{
	"context", "llm_query", "llm_query_batched", "rlm_query", "rlm_query_batched", "FINAL", "FINAL_VAR", "SHOW_VARS",
	"answer", "history", "RLM_CORRELATION_ID", "RLM_DEPTH",
}

// Locals returns variables for the log: without the names of every run and those in also,
// such as tools, and without names that begin with an underscore. The values are passed
// through hide, unless it is nil, and cut to 2,000 characters.
func Locals(vars map[string]string, hide func(string) string, also ...string) map[string]Text {
	kept := make(map[string]Text, len(vars))
	for name, value := range vars {
		if strings.HasPrefix(name, "_") || slices.Contains(reserved, name) || slices.Contains(also, name) {
			continue
		}
		if hide != nil {
			value = hide(value)
		}
		short, _ := render.First(value, localChars)
		kept[name] = Text(short)
	}
	return kept
}

// MaxLine bounds a line that a [Reader] reads, in bytes.
const MaxLine = 256 << 20

// ErrTooLong says that a line is longer than [MaxLine].
var ErrTooLong = fmt.Errorf("longer than %d MiB", MaxLine>>20)

// A Record is a line of a log. Metadata or Iteration is set, unless the line has another
// type.
type Record struct {
	Type      string
	Metadata  *Metadata
	Iteration *Iteration
}

// A Reader reads a log line by line, also one of another implementation.
type Reader struct {
	r    *bufio.Reader
	max  int
	line int
	err  error
}

// NewReader returns a reader of the log in r.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 64<<10), max: MaxLine}
}

// Read returns the next record. At the end of the log, it returns io.EOF, unwrapped; if the
// last line was cut, the error wraps io.ErrUnexpectedEOF and has the number of the line.
// After an error, it returns that error again.
func (r *Reader) Read() (Record, error) {
	for r.err == nil {
		line, whole, err := r.next()
		if err != nil {
			r.err = err
			break
		}
		r.line++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		rec, err := parse(line)
		if err == nil {
			return rec, nil
		}
		var syntax *json.SyntaxError
		if !whole && errors.As(err, &syntax) && syntax.Offset >= int64(len(line)) {
			err = fmt.Errorf("cut inside of the record: %w", io.ErrUnexpectedEOF)
		}
		r.err = fmt.Errorf("line %d: %w", r.line, err)
	}
	return Record{}, r.err
}

// next returns the next line, and whether it has its line break.
func (r *Reader) next() (line []byte, whole bool, err error) {
	for {
		part, err := r.r.ReadSlice('\n')
		if len(line)+len(part) > r.max {
			return nil, false, fmt.Errorf("line %d: %w", r.line+1, ErrTooLong)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line, true, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && len(line) > 0:
			return line, false, nil
		default:
			return nil, false, err
		}
	}
}

func parse(line []byte) (Record, error) {
	var head struct {
		SchemaVersion int    `json:"schema_version"`
		Type          string `json:"type"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return Record{}, err
	}
	rec := Record{Type: head.Type}
	var into any
	switch head.Type {
	case "metadata":
		rec.Metadata = new(Metadata)
		into = rec.Metadata
	case "iteration":
		rec.Iteration = new(Iteration)
		into = rec.Iteration
	case "":
		return Record{}, errors.New("no type: this is not the log of a recursive language model")
	default:
		return rec, nil
	}
	if head.SchemaVersion > Version {
		return Record{}, fmt.Errorf("schema_version is %d, want at most %d", head.SchemaVersion, Version)
	}
	return rec, json.Unmarshal(line, into)
}

// Options are settings of a [Writer]. The zero value has none.
type Options struct {
	// Hide returns a text without its secrets. It is called with every string of a record,
	// except the names of the schema.
	Hide func(string) string
	// NewPrompts leaves out the messages of a prompt that were in the prompt before.
	// Otherwise, a log grows with the square of the number of turns.
	NewPrompts bool
	Now        func() time.Time // nil: time.Now
}

// A file is what a Writer needs of an [os.File].
type file interface {
	WriteAt(b []byte, at int64) (int, error)
	Truncate(size int64) error
	Close() error
}

// A Writer writes the log of one run. One goroutine may use it at a time.
//
// After an error, later records may succeed: the part of a record that was written is
// removed, so the log stays readable.
type Writer struct {
	o    Options
	path string
	file file
	size int64
	last Messages
}

// Create creates a log in a folder, which it creates if it does not exist. Only the owner may
// read the log. Its name consists of the time and a random number.
func Create(dir string, o Options) (*Writer, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var id [4]byte
	_, _ = rand.Read(id[:]) // it never fails
	path := filepath.Join(dir, "rlm_"+o.Now().UTC().Format("2006-01-02_15-04-05")+"_"+hex.EncodeToString(id[:])+".jsonl")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &Writer{o: o, path: path, file: f}, nil
}

// Path returns the path of the log.
func (w *Writer) Path() string { return w.path }

// Close closes the log.
func (w *Writer) Close() error { return w.file.Close() }

// Metadata writes the first line.
func (w *Writer) Metadata(m Metadata) error {
	m.SchemaVersion, m.Type, m.Timestamp = Version, "metadata", w.timestamp(m.Timestamp)
	return w.write(m)
}

// Iteration writes the line of a turn. It keeps the messages of the prompt, so they must not
// be changed.
func (w *Writer) Iteration(it Iteration) error {
	it.SchemaVersion, it.Type, it.Timestamp = Version, "iteration", w.timestamp(it.Timestamp)
	prompt := it.Prompt
	if w.o.NewPrompts {
		it.Prompt = prompt.After(w.last)
	}
	if err := w.write(it); err != nil {
		return err
	}
	w.last = prompt
	return nil
}

func (w *Writer) timestamp(given string) string {
	if given != "" {
		return given
	}
	return Timestamp(w.o.Now())
}

// Timestamp returns a time for a log.
func Timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000+00:00") }

func (w *Writer) write(record any) error {
	line, err := encode(record, w.o.Hide)
	if err == nil {
		_, err = w.file.WriteAt(line, w.size)
	}
	if err != nil {
		// Without the truncation, the next line would begin inside this one.
		_ = w.file.Truncate(w.size)
		return fmt.Errorf("log of the run: %w", err)
	}
	w.size += int64(len(line))
	return nil
}

// encode returns the line of a record: sorted keys at every depth, and no escapes that JSON
// does not need.
func encode(record any, hide func(string) string) ([]byte, error) {
	b, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	var tree any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	if hide == nil {
		hide = func(s string) string { return s }
	}
	return append(appendJSON(nil, tree, hide, false), '\n'), nil
}

// empty holds what is written for a null where readers expect a list or an object.
var empty = map[string]any{
	"backend_kwargs": map[string]any{}, "environment_kwargs": map[string]any{}, "locals": map[string]any{},
	"model_usage_summaries": map[string]any{}, "code_blocks": []any{}, "rlm_calls": []any{}, "iterations": []any{},
	"prompt": []any{},
}

// foreign are the keys below which names are not those of the schema.
var foreign = []string{"backend_kwargs", "environment_kwargs", "locals", "prompt", "tool_calls"}

// appendJSON appends a part of a record without its secrets. In data, names are hidden too,
// and null stays null.
func appendJSON(line []byte, tree any, hide func(string) string, data bool) []byte {
	switch v := tree.(type) {
	case string:
		return jsonscan.AppendQuote(line, []byte(hide(v)))
	case json.Number:
		return append(line, v...)
	case bool:
		return strconv.AppendBool(line, v)
	case []any:
		line = append(line, '[')
		for i := range v {
			if i > 0 {
				line = append(line, ',')
			}
			line = appendJSON(line, v[i], hide, data)
		}
		return append(line, ']')
	case map[string]any:
		if data {
			hidden := make(map[string]any, len(v))
			for name, value := range v {
				hidden[hide(name)] = value
			}
			v = hidden
		}
		line = append(line, '{')
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				line = append(line, ',')
			}
			line = append(jsonscan.AppendQuote(line, []byte(name)), ':')
			value := v[name]
			if value == nil && !data {
				value = empty[name]
			}
			line = appendJSON(line, value, hide, data || slices.Contains(foreign, name))
		}
		return append(line, '}')
	}
	return append(line, "null"...)
}
