package provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/test/kit/page"
)

// A translation is what becomes of a parameter or a message at each kind of backend, as a table of
// docs/broker.md has it. The sample is members of a request or whole messages; what is marked is left
// out for the comparison.
type translation struct{ of, anthropic, gemini, sample string }

var parameters = []translation{
	{"`max_tokens`", "`max_tokens`, by default 4096", "`maxOutputTokens`", `"max_tokens":7`},
	{"`max_completion_tokens`", "`max_tokens`, by default 4096", "`maxOutputTokens`", `"max_completion_tokens":7`},
	{"`temperature`", "`temperature`", "`temperature`", `"temperature":0.5`},
	{"`top_p`", "`top_p`", "`topP`", `"top_p":0.5`},
	{"`stop`", "`stop_sequences`", "`stopSequences`", `"stop":["x"]`},
	{"`seed`", "left out", "`seed`", `"seed":7`},
	{"`frequency_penalty`", "refused", "`frequencyPenalty`", `"frequency_penalty":0.5`},
	{"`presence_penalty`", "refused", "`presencePenalty`", `"presence_penalty":0.5`},
	{"`n`", "refused", "refused", `"n":2`},
	{"`logprobs`", "refused", "refused", `"logprobs":true`},
	{"`top_logprobs`", "refused", "refused", `"top_logprobs":2`},
	{"`logit_bias`", "refused", "refused", `"logit_bias":{"50256":-100}`},
	{"`response_format` of json_schema", "`output_config.format`", "`responseJsonSchema`", `"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object"}}}`},
	{"`response_format` of json_object", "refused", "`responseMimeType`", `"response_format":{"type":"json_object"}`},
	{"`tools` of functions", "`tools.input_schema`", "`tools.functionDeclarations.parametersJsonSchema`", `"tools":[` + function + `}}]`},
	{"`tools` with strict", "`strict`", "left out", `"tools":[` + function + `«,"strict":true»}}]`},
	{"`tools` of other types", "refused", "refused", `"tools":[{"type":"custom","custom":{"name":"f"}}]`},
	{"`tool_choice`", "`tool_choice`", "`functionCallingConfig`", `"tools":[` + function + `}}],"tool_choice":"required"`},
	{"`parallel_tool_calls`", "`tool_choice.disable_parallel_tool_use`", "refused", `"tools":[` + function + `}}],"parallel_tool_calls":false`},
	{"`modalities`", "refused", "refused", `"modalities":["text","audio"]`},
	{"`audio`", "refused", "refused", `"audio":{"voice":"alloy","format":"mp3"}`},
	{"`web_search_options`", "refused", "refused", `"web_search_options":{}`},
	{"`functions`", "refused", "refused", `"functions":[{"name":"f"}]`},
	{"`function_call`", "refused", "refused", `"function_call":"auto"`},
	{"`reasoning_effort`", "left out", "left out", `"reasoning_effort":"high"`},
	{"`verbosity`", "left out", "left out", `"verbosity":"low"`},
	{"`prediction`", "left out", "left out", `"prediction":{"type":"content","content":"x"}`},
	{"`service_tier`", "left out", "left out", `"service_tier":"flex"`},
	{"`prompt_cache_key`", "left out", "left out", `"prompt_cache_key":"k"`},
	{"`prompt_cache_retention`", "left out", "left out", `"prompt_cache_retention":"24h"`},
	{"`user`", "left out", "left out", `"user":"u"`},
	{"`safety_identifier`", "left out", "left out", `"safety_identifier":"u"`},
	{"`metadata`", "left out", "left out", `"metadata":{"a":"b"}`},
	{"`store`", "left out", "left out", `"store":true`},
	{"`thinking`", "`thinking`", "`thinking`", `"thinking":{"type":"enabled"}`},
	{"members that OpenAI lacks", "`thinking`", "`thinking`", `"thinking":{"type":"enabled"}`},
	{"`top_k`", "`top_k`", "`topK`", `"top_k":3`},
}

var messages = []translation{
	{"system", "`system`, before all others", "`systemInstruction`, before all others", `[{"role":"system","content":"s"},` + hi + `]`},
	{"developer", "`system`, before all others", "`systemInstruction`, before all others", `[` + hi + `,{"role":"developer","content":[{"type":"text","text":"s"}]}]`},
	{"an assistant at the end", "`assistant`, which some models continue", "`model`", `[` + hi + `,{"role":"assistant","content":"Well,"}]`},
	{"a refusal", "`text`", "`text`", `[` + hi + `,{"role":"assistant","content":null,"refusal":"I will not"},` + hi + `]`},
	{"tool_calls", "`tool_use`", "`functionCall`", `[` + hi + `,` + calling + `]`},
	{"the answer of a tool", "`tool_result`", "`functionResponse`", `[` + hi + `,` + calling + `,{"role":"tool","tool_call_id":"c1","content":"42"}]`},
	{"an image as the answer of a tool", "`tool_result.image`", "refused", `[` + hi + `,` + calling + `,{"role":"tool","tool_call_id":"c1","content":[` + image + `]}]`},
	{"image_url", "`image.source`", "`inlineData`, or `fileData` of an address", said(image)},
	{"detail of an image", "left out", "left out", said(`{"type":"image_url","image_url":{"url":"data:image/png;base64,QQ=="«,"detail":"low"»}}`)},
	{"input_audio", "refused", "`inlineData`", said(`{"type":"input_audio","input_audio":{"data":"QQ==","format":"wav"}}`)},
	{"a file of PDF", "`document.source`", "`inlineData`", said(`{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,QQ=="}}`)},
	{"a file of another type", "refused", "`inlineData`", said(`{"type":"file","file":{"filename":"a.csv","file_data":"data:text/csv;base64,QQ=="}}`)},
	{"a file_id", "refused", "refused", said(`{"type":"file","file":{"file_id":"f"}}`)},
	{"other parts", "refused", "refused", said(`{"type":"video_url","video_url":{"url":"u"}}`)},
	{"other roles", "refused", "refused", `[` + hi + `,{"role":"function","name":"f","content":"42"}]`},
	{"function_call", "refused", "refused", `[` + hi + `,{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}]`},
	{"the id of an audio", "refused", "refused", `[` + hi + `,{"role":"assistant","audio":{"id":"a"}}]`},
	{"a name", "left out", "left out", `[{"role":"user","content":"hi","name":"alice"}]`},
}

const (
	hi       = `{"role":"user","content":"hi"}`
	function = `{"type":"function","function":{"name":"f","parameters":{"type":"object"}`
	calling  = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
)

func said(part string) string { return `[{"role":"user","content":[` + part + `]}]` }

// request makes a request from a sample.
func request(sample string) []byte {
	if strings.HasPrefix(sample, "[") {
		return []byte(`{"messages":` + sample + `}`)
	}
	return []byte(`{"messages":[` + hi + `],` + sample + `}`)
}

// OpenAI's parameters are translated for other kinds of backends as docs/broker.md says.
// The error for a rejected one names it, a dropped one leaves no trace, and any other
// appears under its documented name. The tables have all parameters.
func TestTranslated(t *testing.T) {
	for i, name := range []string{"parameter", "message"} {
		var rows [][]string
		for _, row := range [][]translation{parameters, messages}[i] {
			rows = append(rows, []string{row.of, row.anthropic, row.gemini})
		}
		page.Check(t, "../../docs/broker.md", name+"s", page.Table([]string{name, "anthropic", "gemini"}, rows))
	}
	table := slices.Concat(parameters, messages)
	for _, d := range dialects[1:] {
		t.Run(d.name, func(t *testing.T) {
			bodies := make(chan string, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				bodies <- string(body)
				_, _ = io.WriteString(w, d.whole)
			}))
			defer server.Close()
			p := d.make(server.URL)
			defer p.(interface{ CloseIdleConnections() }).CloseIdleConnections()
			sent := func(chat []byte) (string, error) {
				if err := p.Complete(t.Context(), &provider.Request{Model: "big", Body: chat}, new(provider.Completion)); err != nil {
					return "", err
				}
				return <-bodies, nil
			}
			plain, err := sent([]byte(`{"messages":[` + hi + `]}`))
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range table {
				without := plain
				if strings.Contains(row.sample, "«") {
					without, _ = sent(request(marked.ReplaceAllString(row.sample, "")))
				}
				body, err := sent(request(marks.Replace(row.sample)))
				fate := map[string]string{"anthropic": row.anthropic, "gemini": row.gemini}[d.name]
				check(t, row.of, fate, body, without, err)
			}
		})
	}
	for _, name := range provider.Members() {
		told := slices.ContainsFunc(table, func(row translation) bool { return strings.HasPrefix(row.of, "`"+name+"`") })
		if !told && !slices.Contains([]string{"model", "messages", "stream", "stream_options"}, name) {
			t.Errorf("no table says what becomes of %s", name)
		}
	}
}

var (
	marked = regexp.MustCompile("«.*»")
	marks  = strings.NewReplacer("«", "", "»", "")
	names  = regexp.MustCompile("`[^`]+`")
)

// check compares the translated request with the one without the parameter.
func check(t *testing.T, of, fate, body, without string, err error) {
	t.Helper()
	var pe *provider.Error
	switch {
	case fate == "refused":
		if !errors.As(err, &pe) || pe.Cause != provider.Unsupported || pe.Param == "" {
			t.Errorf("%s: sent as %s, %v; it should be refused, and not sent", of, body, err)
		} else if name := strings.Split(of, "`"); len(name) > 1 && !strings.HasPrefix(pe.Param, name[1]) {
			t.Errorf("%s: %q is named as what is refused", of, pe.Param)
		}
	case err != nil:
		t.Errorf("%s: %v", of, err)
	case fate == "left out":
		if body != without {
			t.Errorf("%s: sent as %s; it should be left out", of, body)
		}
	default:
		for name := range strings.SplitSeq(strings.Trim(names.FindString(fate), "`"), ".") {
			if body == without || !strings.Contains(body, `"`+name+`"`) {
				t.Errorf("%s: sent as %s; it should be in %s", of, body, fate)
			}
		}
	}
}

// Values that have no effect do not cause a rejection. Invalid values do, and the error
// says where they are.
func TestReadTells(t *testing.T) {
	kind := provider.Kind{Name: "other"}
	for _, idle := range []string{
		`"n":1`, `"n":null`, `"logprobs":false,"top_logprobs":0`, `"logit_bias":{ }`, `"frequency_penalty":0,"presence_penalty":0.0`,
		`"parallel_tool_calls":true`, `"modalities":["text"]`, `"functions":[]`, `"response_format":{"type":"text"}`, `"response_format":null`,
		`"stop":null`, `"stop":"x"`, `"tools":[],"tool_choice":null`,
	} {
		if _, err := (&provider.Request{Body: request(idle)}).Read(kind); err != nil {
			t.Errorf("%s: %v", idle, err)
		}
	}
	for sample, want := range map[string]string{
		`"max_tokens":"7"`:                   "Invalid type for 'max_tokens': found string, expected a whole number.",
		`"max_tokens":7.5`:                   "Invalid type for 'max_tokens': found number 7.5, expected a whole number.",
		`"temperature":[]`:                   "Invalid type for 'temperature': found array, expected a number.",
		`"stop":7`:                           "Invalid type for 'stop': found number, expected an array.",
		`"stop":[7]`:                         "Invalid type for 'stop': found number, expected a string.",
		`"response_format":"json"`:           "Invalid type for 'response_format': found string, expected an object.",
		`"tools":[{"function":{"name":7}}]`:  "Invalid type for 'tools.function.name': found number, expected a string.",
		`["hi"]`:                             "Invalid type for 'messages': found something else in it, expected an array of objects.",
		`[{"role":"user","content":["hi"]}]`: "Invalid type for 'messages[0].content[0]': found something else, expected an object.",
		`[` + hi + `,{"role":"user","tool_calls":{}}]`:                                        "Invalid type for 'messages[1].tool_calls': found object, expected an array.",
		`[{"role":"critic","content":"x"}]`:                                                   "Unsupported parameter: 'messages[0].role' cannot be translated for this model's provider, of the kind other. Use system, user, assistant or tool, or ask a model of a provider of the kind openai.",
		`"tools":[{"type":"function","function":{}}]`:                                         "Unsupported parameter: 'tools[0]' cannot be translated for this model's provider, of the kind other. Give it as a function with a name, or ask a model of a provider of the kind openai.",
		`"tools":[{"type":"custom","function":{"name":"f"}}]`:                                 "Unsupported parameter: 'tools[0]' cannot be translated for this model's provider, of the kind other. Give it as a function with a name, or ask a model of a provider of the kind openai.",
		`[{"role":"user","content":[{"type":"text","text":7}]}]`:                              "Unsupported parameter: 'messages[0].content[0]' cannot be translated for this model's provider, of the kind other. Use parts of the types text, image_url, input_audio and file, with their members, or ask a model of a provider of the kind openai.",
		`[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"QQ=="}}]}]`:  "Unsupported parameter: 'messages[0].content[0]' cannot be translated for this model's provider, of the kind other. Use parts of the types text, image_url, input_audio and file, with their members, or ask a model of a provider of the kind openai.",
		`[{"role":"user","content":[{"type":"input_audio","input_audio":{"format":"wav"}}]}]`: "Unsupported parameter: 'messages[0].content[0]' cannot be translated for this model's provider, of the kind other. Use parts of the types text, image_url, input_audio and file, with their members, or ask a model of a provider of the kind openai.",
		`"tool_choice":"always"`:                                                              "Unsupported parameter: 'tool_choice' cannot be translated for this model's provider, of the kind other. Use auto, none, required, or a function, or ask a model of a provider of the kind openai.",
		`[{"role":"system","content":[` + image + `]}]`:                                       "Unsupported parameter: 'messages[0].content[0]' cannot be translated for this model's provider, of the kind other. Put it into a user message, or ask a model of a provider of the kind openai.",
	} {
		_, err := (&provider.Request{Body: request(sample)}).Read(kind)
		var pe *provider.Error
		if !errors.As(err, &pe) || pe.Err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", sample, err, want)
		}
	}
}

const image = `{"type":"image_url","image_url":{"url":"data:image/png;base64,QQ=="}}`

// Exactly the configured parameters are dropped.
func TestDropped(t *testing.T) {
	const chat = `{"messages":[` + hi + `],"n":2,"response_format":{"type":"json_object"},"logit_bias":{"1":2}`
	drop := []string{"n", "response_format", "logit_bias"}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no backend is called
	for want, p := range map[string]provider.Provider{
		`{"max_tokens":4096,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"model":"m"}`:              provider.NewAnthropic(provider.Config{Drop: drop}),
		`{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"generationConfig":{"responseMimeType":"application/json"}}`: provider.NewGemini(provider.Config{Drop: drop}),
	} {
		var sent overheard
		if err := p.Complete(ctx, &provider.Request{Model: "m", Body: []byte(chat + "}"), Exchange: &sent}, new(provider.Completion)); err == nil || string(sent) != want {
			t.Errorf("\n got %s, %v\nwant %s", sent, err, want)
		}
		var pe *provider.Error
		if err := p.Complete(ctx, &provider.Request{Model: "m", Body: []byte(chat + `,"logprobs":true}`)}, new(provider.Completion)); !errors.As(err, &pe) || pe.Param != "logprobs" {
			t.Errorf("logprobs: %v", err)
		}
	}
}

// The arguments of a tool call return to the model, even if they are not an object.
func TestArguments(t *testing.T) {
	for text, want := range map[string]string{
		``: `{}`, ` `: `{}`, `{"a":1}`: `{"a":1}`, `7`: `{"arguments":7}`, `{"a":`: `{"arguments":"{\"a\":"}`,
	} {
		call := provider.ToolCall{Arguments: llm.Arguments(text)}
		if got := string(call.Input()); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// FuzzRead checks that every request is parsed, or gets an error.
func FuzzRead(f *testing.F) {
	for _, row := range slices.Concat(parameters, messages) {
		f.Add(request(marks.Replace(row.sample)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if jsonscan.KindOf(data) != jsonscan.Object || jsonscan.Valid(data) != nil || !json.Valid(data) {
			t.Skip() // the doors reject it earlier
		}
		_, err := (&provider.Request{Body: data}).Read(provider.Kind{Name: "other"})
		var pe *provider.Error
		if err != nil && (!errors.As(err, &pe) || pe.Cause != provider.Unsupported) {
			t.Fatalf("%q: %v", data, err)
		}
	})
}

// Each kind gets an OpenAI client's messages in its own format. The results of parallel
// calls belong in one turn, as both APIs insist. Empty content adds nothing.
func TestSaidElsewhere(t *testing.T) {
	const (
		tool   = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`
		calls  = `{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g","arguments":"{}"}}]}`
		answer = `{"role":"tool","tool_call_id":"a","content":"1"},{"role":"tool","tool_call_id":"b","content":"2"}`
	)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no backend is called
	for _, tt := range []struct{ chat, anthropic, gemini string }{
		{`{"messages":[` + hi + `],` + tool + `,"tool_choice":"auto"}`, `"tool_choice":{"type":"auto"}`, `"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}}`},
		{`{"messages":[` + hi + `],` + tool + `,"tool_choice":"none"}`, `"tool_choice":{"type":"none"}`, `"toolConfig":{"functionCallingConfig":{"mode":"NONE"}}`},
		{`{"messages":[` + hi + `],` + tool + `,"tool_choice":"required"}`, `"tool_choice":{"type":"any"}`, `"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}`},
		{
			`{"messages":[` + hi + `],` + tool + `,"tool_choice":{"type":"function","function":{"name":"f"}}}`,
			`"tool_choice":{"name":"f","type":"tool"}`, `"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}}`,
		},
		{
			`{"messages":[` + hi + `],"tools":[{"function":{"name":"f","parameters":null}}]}`,
			`"tools":[{"description":"","input_schema":{"type":"object"},"name":"f"}]`, `"tools":[{"functionDeclarations":[{"name":"f","description":""}]}]`,
		},
		{
			`{"messages":[` + hi + `,` + calls + `,` + answer + `,` + hi + `]}`,
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"1"},{"type":"tool_result","tool_use_id":"b","content":"2"},{"type":"text","text":"hi"}]}]`,
			`{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{"result":"1"}}},{"functionResponse":{"id":"b","name":"g","response":{"result":"2"}}}]},{"role":"user","parts":[{"text":"hi"}]}]`,
		},
		{
			`{"messages":[` + hi + `,{"role":"assistant","content":null},` + hi + `]}`,
			`"messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"text","text":"hi"}]}]`,
			`"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"user","parts":[{"text":"hi"}]}]`,
		},
		{
			`{"messages":[{"content":"hi"},{"role":"assistant","content":null,"refusal":"no"},{"role":"tool","tool_call_id":"c","name":"h","content":"3"}]}`,
			`[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[{"type":"text","text":"no"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"3"}]}]`,
			`[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[{"text":"no"}]},{"role":"user","parts":[{"functionResponse":{"id":"c","name":"h","response":{"result":"3"}}}]}]`,
		},
		{
			`{"messages":[{"role":"system","content":"a"},{"role":"developer","content":"b"},` + hi + `]}`,
			`"system":"a\n\nb"`, `"systemInstruction":{"parts":[{"text":"a\n\nb"}]}`,
		},
		{
			`{"messages":` + said(`{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}`) + `}`,
			`"content":[{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}]`, `"parts":[{"fileData":{"fileUri":"https://example.com/a.png"}}]`,
		},
	} {
		for want, p := range map[string]provider.Provider{tt.anthropic: provider.NewAnthropic(provider.Config{}), tt.gemini: provider.NewGemini(provider.Config{})} {
			var sent overheard
			if err := p.Complete(ctx, &provider.Request{Model: "m", Body: []byte(tt.chat), Exchange: &sent}, new(provider.Completion)); err == nil || !strings.Contains(string(sent), want) {
				t.Errorf("%s:\nsent %s (%v)\nwant %s in it", tt.chat, sent, err, want)
			}
		}
	}
}

// OpenAI itself gets a translated limit under the newer name, which its newer models
// require. The limit of an OpenAI client stays as it is, and so do requests to other
// backends.
func TestLimitOfOpenAIItself(t *testing.T) {
	const chat = `{"max_tokens":7,"messages":[{"role":"user","content":"\"max_tokens\":1"}],"model":"m","x":{"max_tokens":8}}`
	const renamed = `{"max_completion_tokens":7,"messages":[{"role":"user","content":"\"max_tokens\":1"}],"model":"m","x":{"max_tokens":8}}`
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no backend is called
	for _, tt := range []struct {
		base, message, want string
	}{
		{"", "{}", renamed},
		{"https://api.openai.com/v1", "{}", renamed},
		{"", "", chat},
		{"https://api.openai.com.example/v1", "{}", chat},
		{"http://127.0.0.1:1/v1", "{}", chat},
	} {
		var sent overheard
		r := &provider.Request{Model: "m", Body: []byte(chat), Exchange: &sent}
		if tt.message != "" {
			r.API = llm.Messages
		}
		if err := provider.NewOpenAI(provider.Config{BaseURL: tt.base}).Complete(ctx, r, new(provider.Completion)); err == nil || string(sent) != tt.want {
			t.Errorf("%q: sent %s (%v), want %s", tt.base, sent, err, tt.want)
		}
	}
}

// overheard is the request that would be sent.
type overheard []byte

func (o *overheard) Sent(_ string, body []byte) { *o = append(*o, body...) }
func (*overheard) Passed(string)                {}
func (*overheard) Received(int, []byte)         {}
func (*overheard) Event(int, []byte)            {}
func (*overheard) Ended(error)                  {}

// From its third generation on, Gemini rejects a tool call that returns without a
// signature, which OpenAI clients do not know. The first call of a turn has it.
func TestSignatures(t *testing.T) {
	const two = `{"role":"assistant","content":"so","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g","arguments":"{}"}}]}`
	const signed = `{"role":"model","parts":[{"text":"so"},{"functionCall":{"id":"a","name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"id":"b","name":"g","args":{}}}]}`
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no backend is called
	for model, want := range map[string]bool{"gemini-3-pro-preview": true, "gemini-3.1-flash": true, "gemini-flash-latest": true, "gemini-2.5-flash": false, "gemini-1.5-pro": false, "gemma-3-27b": false} {
		var sent overheard
		err := provider.NewGemini(provider.Config{}).Complete(ctx, &provider.Request{Model: model, Body: []byte(`{"messages":[` + hi + `,` + two + `]}`), Exchange: &sent}, new(provider.Completion))
		if err == nil || strings.Contains(string(sent), signed) != want || strings.Contains(string(sent), "thoughtSignature") != want {
			t.Errorf("%s: sent %s (%v)", model, sent, err)
		}
	}
}

// For a stream that is only observed, the beginning is kept, counting thoughts and text
// together.
func TestMostIsKept(t *testing.T) {
	c := provider.Completion{Answer: llm.Answer{Most: 40}}
	c.AppendThought([]byte(`"so \"it\" is"`))
	for range 100 {
		c.AppendText([]byte(`"0123456789"`))
	}
	if got, want := string(c.Text), `"0123456789…"`; got != want || string(c.Thoughts) != `"so \"it\" is"` || cap(c.Text) > 40 {
		t.Errorf("%s (%d bytes) after %s, want %s", got, cap(c.Text), c.Thoughts, want)
	}
}
