package runlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func text(s string) *Text { return (*Text)(&s) }

// noon is the time of all logs here.
func noon() time.Time {
	return time.Date(2026, 3, 1, 13, 0, 0, 250_000_000, time.FixedZone("", 3600))
}

// create creates a log in a temporary folder.
func create(t *testing.T, o Options) *Writer {
	t.Helper()
	o.Now = noon
	w, err := Create(filepath.Join(t.TempDir(), "logs", "new"), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// contents returns the current contents of the log.
func contents(t *testing.T, w *Writer) string {
	t.Helper()
	b, err := os.ReadFile(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// full returns a turn with everything that a log can contain.
func full() Iteration {
	used := Usage{Models: map[string]ModelUsage{"cheap": {Calls: 1, InputTokens: 7, OutputTokens: 2, TotalCost: 0.5}}, TotalCost: 0.5}
	call := ChatCompletion{
		RootModel: "cheap", Prompt: json.RawMessage(`[{"content":"Which?","role":"user"}]`), Response: "this", Usage: used,
		Seconds: 0.25, ToolCalls: json.RawMessage(`[{"id":"1"}]`), FinishReason: "stop",
		Run: &Run{
			Metadata:   Metadata{RootModel: "cheap", MaxIterations: 15, BackendKwargs: map[string]any{}, EnvironmentKwargs: map[string]any{}},
			Iterations: []Iteration{{Iteration: 1, Prompt: Messages{}, Response: "FINAL(this)", CodeBlocks: []CodeBlock{}, FinalAnswer: text("this")}},
		},
	}
	call.SetTokens()
	failed := ChatCompletion{RootModel: "cheap", Prompt: json.RawMessage(`"And?"`), Usage: Usage{Models: map[string]ModelUsage{}}, Error: "too many requests"}
	return Iteration{
		Iteration: 2, Prompt: Messages{{Role: "system", Content: "Be <good> & kind."}, {Role: "user", Content: "Schön, 世界?\u2028"}}, Response: "```repl\nx = 1\n```",
		CodeBlocks: []CodeBlock{{Code: "x = 1", Result: Result{
			Stdout: "1\n", Stderr: "oh\n", Locals: map[string]Text{"x": "1", "a": "'b'"}, Seconds: 0.5, CorrelationID: "c0ffee",
			Calls: []ChatCompletion{call, failed},
		}}},
		FinalAnswer: text(""), Seconds: 1.5, CorrelationID: "c0ffee", Usage: &used, Cumulative: &used, FinishReason: "stop",
	}
}

// Other programs read the lines of a log: keys are sorted, lists and objects are never
// null, and optional members are omitted.
func TestLines(t *testing.T) {
	w := create(t, Options{})
	for _, err := range []error{
		w.Metadata(Metadata{RootModel: "smart", MaxDepth: 1, MaxIterations: 30, Backend: "smart", EnvironmentType: "python", CorrelationID: "c0ffee"}),
		w.Iteration(Iteration{Iteration: 1, Prompt: Messages{{Role: "user", Content: "Why?"}}, Response: "Because."}),
		w.Iteration(full()),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	used := `{"model_usage_summaries":{"cheap":{"total_calls":1,"total_cost":0.5,"total_input_tokens":7,"total_output_tokens":2}},"total_cost":0.5}`
	want := `{"backend":"smart","backend_kwargs":{},"correlation_id":"c0ffee","environment_kwargs":{},"environment_type":"python",` +
		`"max_depth":1,"max_iterations":30,"other_backends":null,"root_model":"smart","schema_version":1,` +
		`"timestamp":"2026-03-01T12:00:00.250000+00:00","type":"metadata"}` + "\n" +

		`{"code_blocks":[],"final_answer":null,"iteration":1,"iteration_time":0,"prompt":[{"content":"Why?","role":"user"}],` +
		`"response":"Because.","schema_version":1,"timestamp":"2026-03-01T12:00:00.250000+00:00","type":"iteration"}` + "\n" +

		`{"code_blocks":[{"code":"x = 1","result":{"correlation_id":"c0ffee","execution_time":0.5,"locals":{"a":"'b'","x":"1"},"rlm_calls":[` +
		`{"completion_tokens":2,"execution_time":0.25,"finish_reason":"stop",` +
		`"metadata":{"iterations":[{"code_blocks":[],"final_answer":"this","iteration":1,"iteration_time":0,"prompt":[],"response":"FINAL(this)"}],` +
		`"run_metadata":{"backend":"","backend_kwargs":{},"environment_kwargs":{},"environment_type":"","max_depth":0,"max_iterations":15,` +
		`"other_backends":null,"root_model":"cheap"}},"prompt":[{"content":"Which?","role":"user"}],"prompt_tokens":7,"response":"this",` +
		`"root_model":"cheap","tool_calls":[{"id":"1"}],"usage_summary":` + used + `},` +
		`{"completion_tokens":0,"error":"too many requests","execution_time":0,"prompt":"And?","prompt_tokens":0,"response":"",` +
		`"root_model":"cheap","usage_summary":{"model_usage_summaries":{}}}],"stderr":"oh\n","stdout":"1\n"}}],"correlation_id":"c0ffee",` +
		`"cumulative_usage_summary":` + used + `,"final_answer":"","finish_reason":"stop","iteration":2,"iteration_time":1.5,` +
		`"iteration_usage_summary":` + used + `,"prompt":[{"content":"Be <good> & kind.","role":"system"},{"content":"Schön, 世界?` + "\u2028" + `","role":"user"}],` +
		"\"response\":\"```repl\\nx = 1\\n```\"," + `"schema_version":1,"timestamp":"2026-03-01T12:00:00.250000+00:00","type":"iteration"}` + "\n"
	if got := contents(t, w); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Unset lists and objects are written as empty ones for readers.
func TestNothingIsNull(t *testing.T) {
	line, err := encode(Iteration{CodeBlocks: []CodeBlock{{Result: Result{Calls: []ChatCompletion{{Run: &Run{}}}}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	nulls := regexp.MustCompile(`"(\w+)":null`).FindAllStringSubmatch(string(line), -1)
	for _, null := range nulls {
		if null[1] != "final_answer" && null[1] != "other_backends" {
			t.Errorf("%s is null in %s", null[1], line)
		}
	}
}

// Keys in other programs' JSON are sorted, too, and numbers keep their digits.
func TestForeignJSON(t *testing.T) {
	line, err := encode(ChatCompletion{Prompt: json.RawMessage(`{"b": null, "a": {"d": 12345678901234567890, "c": 1.50}}`)}, nil)
	if want := `"prompt":{"a":{"c":1.50,"d":12345678901234567890},"b":null}`; err != nil || !strings.Contains(string(line), want) {
		t.Errorf("%v: no %s in %s", err, want, line)
	}
}

func TestCharacters(t *testing.T) {
	for given, want := range map[string]string{
		"<&>äö世😀":       `"<&>äö世😀"`,
		"\u2028\u2029":  "\"\u2028\u2029\"",
		`\u2028`:        `"\\u2028"`,
		"\\\u2028":      `"\\` + "\u2028" + `"`,
		"\x00\x1f\t\"":  `"\u0000\u001f\t\""`,
		"bad \xff\\end": `"bad ` + "\ufffd" + `\\end"`,
	} {
		line, err := encode(given, nil)
		if got := strings.TrimSpace(string(line)); err != nil || got != want {
			t.Errorf("%q: got %s, want %s (%v)", given, got, want, err)
		}
	}
}

func TestFile(t *testing.T) {
	w := create(t, Options{})
	if name := filepath.Base(w.Path()); !regexp.MustCompile(`^rlm_2026-03-01_12-00-00_[0-9a-f]{8}\.jsonl$`).MatchString(name) {
		t.Errorf("the log is named %s", name)
	}
	info, err := os.Stat(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("the log has the mode %s", info.Mode())
	}
	other, err := Create(filepath.Dir(w.Path()), Options{Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if other.Path() == w.Path() {
		t.Error("two logs have one name")
	}
	if _, err := Create(w.Path(), Options{}); err == nil {
		t.Error("a log was made in a file")
	}
}

func TestRoundTrip(t *testing.T) {
	w := create(t, Options{})
	meta := Metadata{RootModel: "smart", BackendKwargs: map[string]any{"a": "b"}, EnvironmentKwargs: map[string]any{}, OtherBackends: []string{"cheap"}}
	it := full()
	if err := errors.Join(w.Metadata(meta), w.Iteration(it)); err != nil {
		t.Fatal(err)
	}
	meta.SchemaVersion, meta.Type, meta.Timestamp = 1, "metadata", Timestamp(noon())
	it.SchemaVersion, it.Type, it.Timestamp = 1, "iteration", Timestamp(noon())
	want := []Record{{Type: "metadata", Metadata: &meta}, {Type: "iteration", Iteration: &it}}
	got, err := readAll(NewReader(strings.NewReader(contents(t, w))))
	if err != io.EOF || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: got\n%s\nwant\n%s", err, show(got), show(want))
	}
}

func readAll(r *Reader) (records []Record, err error) {
	for {
		rec, err := r.Read()
		if err != nil {
			return records, err
		}
		records = append(records, rec)
	}
}

func show(v any) string {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// With NewPrompts, a turn has only the added messages, even after a summary has replaced
// earlier ones.
func TestNewPrompts(t *testing.T) {
	w := create(t, Options{NewPrompts: true})
	opening := Messages{{Role: "system", Content: "s"}, {Role: "user", Content: "q"}}
	second := append(slices.Clone(opening), Message{Role: "assistant", Content: "r1"}, Message{Role: "user", Content: "o1"})
	summary := append(slices.Clone(opening), Message{Role: "assistant", Content: "summary"}, Message{Role: "user", Content: "go on"})
	for _, prompt := range []Messages{opening, second, summary, summary} {
		if err := w.Iteration(Iteration{Prompt: prompt}); err != nil {
			t.Fatal(err)
		}
	}
	records, err := readAll(NewReader(strings.NewReader(contents(t, w))))
	if err != io.EOF {
		t.Fatal(err)
	}
	for i, want := range []Messages{opening, second[2:], summary[2:], {}} {
		if got := records[i].Iteration.Prompt; !slices.Equal(got, want) || got == nil {
			t.Errorf("turn %d has %q, want %q", i+1, got, want)
		}
	}
}

// A secret is never written, neither in a value nor in a name chosen by code. The names of
// the schema stay, even if a secret equals one.
func TestHide(t *testing.T) {
	const secret = `s3"cret`
	it := full()
	it.Prompt[0].Content += secret
	it.Response, it.FinalAnswer = secret, text("it is "+secret)
	result := &it.CodeBlocks[0].Result
	result.Stdout, result.Stderr = secret, secret
	result.Locals = map[string]Text{secret: secret}
	result.Calls[0].Prompt = json.RawMessage(`{"s3\"cret": ["s3\u0022cret"]}`)
	result.Calls[0].ToolCalls = json.RawMessage(`[{"arguments":"s3\"cret"}]`)
	result.Calls[0].Run.Iterations[0].Response = secret
	result.Calls[1].Error = secret
	w := create(t, Options{Hide: func(s string) string {
		return strings.NewReplacer(secret, "***", "prompt", "***", "locals", "***").Replace(s)
	}})
	if err := errors.Join(w.Metadata(Metadata{BackendKwargs: map[string]any{secret: secret}}), w.Iteration(it)); err != nil {
		t.Fatal(err)
	}
	log := contents(t, w)
	if strings.Contains(log, "cret") {
		t.Errorf("the secret is in the log:\n%s", log)
	}
	if strings.Count(log, "***") != 14 || !strings.Contains(log, `"locals":{"***":"***"}`) || !strings.Contains(log, `"prompt":[`) {
		t.Errorf("the log has %d times asterisks:\n%s", strings.Count(log, "***"), log)
	}
}

// fullDisk accepts a number of bytes, and then none until there is room again.
type fullDisk struct {
	file
	room int
}

func (d *fullDisk) WriteAt(b []byte, at int64) (int, error) {
	if len(b) <= d.room {
		d.room -= len(b)
		return d.file.WriteAt(b, at)
	}
	n, err := d.file.WriteAt(b[:d.room], at)
	d.room = 0
	return n, errors.Join(err, syscall.ENOSPC)
}

// A full disk loses only the records that do not fit.
func TestDiskFull(t *testing.T) {
	w := create(t, Options{NewPrompts: true})
	disk := &fullDisk{file: w.file, room: 300}
	w.file = disk
	prompt := Messages{{Role: "user", Content: "q"}}
	if err := w.Iteration(Iteration{Iteration: 1, Prompt: prompt}); err != nil {
		t.Fatal(err)
	}
	prompt = append(prompt, Message{Role: "user", Content: Text(strings.Repeat("x", 1000))})
	if err := w.Iteration(Iteration{Iteration: 2, Prompt: prompt}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk is the error %v", err)
	}
	disk.room = 1 << 20
	if err := w.Iteration(Iteration{Iteration: 3, Prompt: prompt}); err != nil {
		t.Fatal(err)
	}
	records, err := readAll(NewReader(strings.NewReader(contents(t, w))))
	if err != io.EOF || len(records) != 2 || records[1].Iteration.Iteration != 3 || len(records[1].Iteration.Prompt) != 1 {
		t.Errorf("%v after %s", err, show(records))
	}
}

// A record that is not JSON is an error, and nothing of it is written.
func TestUnwritable(t *testing.T) {
	w := create(t, Options{})
	for name, it := range map[string]Iteration{
		"a number": {Seconds: math.Inf(1)},
		"a prompt": {CodeBlocks: []CodeBlock{{Result: Result{Calls: []ChatCompletion{{Prompt: json.RawMessage(`{"a"`)}}}}}},
		"depth":    {CodeBlocks: []CodeBlock{{Result: Result{Calls: []ChatCompletion{{Prompt: json.RawMessage(strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000))}}}}}},
	} {
		if err := w.Iteration(it); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if log := contents(t, w); log != "" {
		t.Errorf("the log has %q", log)
	}
}

func TestLocals(t *testing.T) {
	long := strings.Repeat("ü", 1995) + "secret" + "more"
	got := Locals(map[string]string{
		"x": "1", "m": "<module 'm'>", "_": "2", "_hidden": "3", "context": "4", "FINAL_VAR": "5", "weather": "6",
		"exact": long[:2*1990], "long": long,
	}, func(s string) string { return strings.ReplaceAll(s, "secret", "******") }, "weather")
	want := map[string]Text{"x": "1", "m": "<module 'm'>", "exact": Text(long[:2*1990]), "long": Text(long[:2*1995] + "*****")}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
	if Locals(nil, nil) == nil {
		t.Error("no variables are null")
	}
}

// others are lines of other implementations.
var others = []struct {
	name, line string
	want       Record
}{
	{
		"a prompt that is one string, and a variable that is a list",
		`{"schema_version": 1, "type": "iteration", "iteration": 1, "timestamp": "2026-01-01T00:00:00+00:00", "prompt": "q", "response": "r", "final_answer": null, ` +
			`"iteration_time": 0.0, "code_blocks": [{"code": "x", "result": {"stdout": "", "stderr": "", "locals": {"a": [1, "b"], "n": null}, "execution_time": 0.1, "rlm_calls": []}}]}`,
		Record{Type: "iteration", Iteration: &Iteration{
			SchemaVersion: 1, Type: "iteration", Iteration: 1, Timestamp: "2026-01-01T00:00:00+00:00", Prompt: Messages{{Role: "user", Content: "q"}}, Response: "r",
			CodeBlocks: []CodeBlock{{Code: "x", Result: Result{Locals: map[string]Text{"a": `[1, "b"]`, "n": ""}, Seconds: 0.1, Calls: []ChatCompletion{}}}},
		}},
	},
	{
		"no version, no time, unknown keys, and contents that are no strings",
		`{"type": "iteration", "iteration": 1, "prompt": [{"role": "user", "content": [{"type": "text"}]}], "response": {"a": 1}, "code_blocks": [], "final_answer": "4", "iteration_time": null, "new": {}}`,
		Record{Type: "iteration", Iteration: &Iteration{
			Type: "iteration", Iteration: 1, Prompt: Messages{{Role: "user", Content: `[{"type": "text"}]`}}, Response: `{"a": 1}`, CodeBlocks: []CodeBlock{}, FinalAnswer: text("4"),
		}},
	},
	{
		"a prompt that is one object",
		`{"type":"iteration","prompt":{"role":"system","content":"s"}}`,
		Record{Type: "iteration", Iteration: &Iteration{Type: "iteration", Prompt: Messages{{Role: "system", Content: "s"}}}},
	},
	{
		"a prompt that is no message",
		`{"type":"iteration","prompt":{"question":"q"}}`,
		Record{Type: "iteration", Iteration: &Iteration{Type: "iteration", Prompt: Messages{{Role: "user", Content: `{"question":"q"}`}}}},
	},
	{
		"metadata",
		`{"type": "metadata", "timestamp": "2026-01-01T00:00:00", "root_model": null, "max_depth": 1, "max_iterations": 30, "backend": "openai", "backend_kwargs": {"model_name": "m"}, "environment_type": "local", "environment_kwargs": {}, "other_backends": null}`,
		Record{Type: "metadata", Metadata: &Metadata{
			Type: "metadata", Timestamp: "2026-01-01T00:00:00", MaxDepth: 1, MaxIterations: 30, Backend: "openai",
			BackendKwargs: map[string]any{"model_name": "m"}, EnvironmentType: "local", EnvironmentKwargs: map[string]any{},
		}},
	},
	{"a type of its own", `{"type":"run_context","prompt":3}`, Record{Type: "run_context"}},
}

func TestReadOthers(t *testing.T) {
	for _, row := range others {
		t.Run(row.name, func(t *testing.T) {
			got, err := readAll(NewReader(strings.NewReader("\n" + row.line + "\r\n")))
			if err != io.EOF || !reflect.DeepEqual(got, []Record{row.want}) {
				t.Errorf("%v: got\n%s\nwant\n%s", err, show(got), show(row.want))
			}
		})
	}
}

// The error for an invalid log names the line, and further reads return it again.
func TestReadErrors(t *testing.T) {
	good := `{"type":"iteration","iteration":1}` + "\n"
	for _, row := range []struct{ log, want string }{
		{good + "{\"type\":\"iteration\"", "line 2: cut inside of the record: unexpected EOF"},
		{good + "\n" + "hello", "line 3: invalid character 'h' looking for beginning of value"},
		{good + "{\"type\":\n}\n", "line 2: unexpected end of JSON input"},
		{good + "{}\n", "line 2: no type: this is not the log of a recursive language model"},
		{`{"schema_version":2,"type":"metadata"}`, "line 1: schema_version is 2, want at most 1"},
		{`{"type":"iteration","iteration":"one"}`, "line 1: json: cannot unmarshal string into Go struct field Iteration.iteration of type int"},
		{good + strings.Repeat(" ", 1000), "line 2: longer than 256 MiB"},
	} {
		r := NewReader(strings.NewReader(row.log))
		r.max = 900
		_, err := readAll(r)
		if err == nil || err.Error() != row.want {
			t.Errorf("%.60q: got %v, want %s", row.log, err, row.want)
		}
		if _, again := r.Read(); again != err {
			t.Errorf("%.60q: then %v", row.log, again)
		}
	}
	cut := fmt.Errorf("the pipe broke")
	if _, err := readAll(NewReader(io.MultiReader(strings.NewReader(good), failing{cut}))); !errors.Is(err, cut) {
		t.Errorf("a failed read is the error %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// FuzzReader checks that a log that was read can be written, and reads the same again.
func FuzzReader(f *testing.F) {
	for _, row := range others {
		f.Add([]byte(row.line))
	}
	line, err := encode(full(), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Fuzz(func(t *testing.T, log []byte) {
		for _, rec := range first(readAll(NewReader(bytes.NewReader(log)))) {
			line, err := write(rec)
			if err != nil {
				t.Fatalf("what was read is not written: %v", err)
			}
			again, err := parse(line)
			if err != nil {
				t.Fatalf("what was written is not read: %v\n%s", err, line)
			}
			if second, err := write(again); err != nil || !bytes.Equal(line, second) {
				t.Errorf("%v: written as\n%s\nand then as\n%s", err, line, second)
			}
		}
	})
}

func first(records []Record, _ error) []Record { return records }

func write(rec Record) ([]byte, error) {
	switch {
	case rec.Metadata != nil:
		return encode(rec.Metadata, nil)
	case rec.Iteration != nil:
		return encode(rec.Iteration, nil)
	}
	return encode(map[string]string{"type": rec.Type}, nil)
}
