package openai_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// of adds an item to the input of a response.
func of(item string) string { return `"input":[{"role":"user","content":"hi"},` + item + `]` }

// content wraps a part in a user message.
func content(part string) string { return `"input":[{"role":"user","content":[` + part + `]}]` }

const (
	input    = `"input":"hi"`
	function = `"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]`
)

// responseSamples are members of requests for responses, as in messageSamples.
var responseSamples = []translation{
	{"`input`", "`messages`", `"input":«[{"role":"user","content":"well?"}]»`},
	{"of text", "`messages`", content(`{"type":"input_text","text":"well?"}`)},
	{"`instructions`", "`messages`, with the role system, before all others", input + `,"instructions":"s"`},
	{"`previous_response_id`", "`messages`, as they were", input + `,"previous_response_id":PREVIOUS`},
	{"`max_output_tokens`", "`max_tokens`; OpenAI itself gets it as max_completion_tokens", input + `,"max_output_tokens":7`},
	{"`temperature` of a response", "`temperature`", input + `,"temperature":0.5`},
	{"`top_p` of a response", "`top_p`", input + `,"top_p":0.5`},
	{"`reasoning` with an effort", "`reasoning_effort`", input + `,"reasoning":{"effort":"low"}`},
	{"`reasoning` with a summary", "left out", input + `,"reasoning":{"summary":"auto"}`},
	{"`text` with a format", "`response_format.json_schema`", input + `,"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}}}`},
	{"`text` with a verbosity", "`verbosity`", input + `,"text":{"verbosity":"low"}`},
	{"`tools` of functions or custom ones", "`tools`", input + `,"tools":[{"type":"function","name":"f"},{"type":"custom","name":"c","format":{"type":"grammar","syntax":"lark","definition":"x"}}]`},
	{"`tools` of a namespace", "`tools`, prefixed with its name", input + `,"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}]`},
	{"`tools` of OpenAI's own", "refused", input + `,"tools":[{"type":"web_search"}]`},
	{"`tool_choice` of a response", "`tool_choice`", input + "," + function + `«,"tool_choice":"required"»`},
	{"`parallel_tool_calls` of a response", "`parallel_tool_calls`", input + "," + function + `«,"parallel_tool_calls":false»`},
	{"`user`", "`user`, or its own name", input + `,"user":"u"`},
	{"`safety_identifier`", "`user`, or its own name", input + `,"user":"u","safety_identifier":"u"`},
	{"`service_tier`", "`user`, or its own name", input + `,"user":"u","service_tier":"flex"`},
	{"`prompt_cache_key`", "`user`, or its own name", input + `,"user":"u","prompt_cache_key":"k"`},
	{"members that OpenAI lacks", "`user`, or its own name", input + `,"user":"u","top_k":3`},
	{"`store`", "left out", input + `,"store":true`},
	{"`metadata`", "left out", input + `,"metadata":{"a":"b"}`},
	{"`include`", "left out", input + `,"include":["reasoning.encrypted_content"]`},
	{"`stream_options`", "left out", input + `,"stream_options":{"include_obfuscation":false}`},
	{"`max_tool_calls`", "left out", input + `,"max_tool_calls":3`},
	{"`client_metadata`", "left out", input + `,"client_metadata":{"a":"b"}`},
	{"`include` of logprobs", "refused", input + `,"include":["message.output_text.logprobs"]`},
	{"`top_logprobs` of a response", "refused", input + `,"top_logprobs":2`},
	{"`truncation`", "refused", input + `,"truncation":"auto"`},
	{"`background`", "refused", input + `,"background":true`},
	{"`conversation`", "refused", input + `,"conversation":"c"`},
	{"`prompt`", "refused", input + `,"prompt":{"id":"p"}`},
	{"`context_management`", "refused", input + `,"context_management":[{"type":"compaction"}]`},
	{"a message", "`role`", of(`{"type":"message","role":"developer","content":"s"}`)},
	{"function_call", "`tool_calls`", of(`{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}`)},
	{"custom_tool_call", "`tool_calls`", of(`{"type":"custom_tool_call","call_id":"c1","name":"f","input":"x"}`)},
	{"function_call_output", "`tool_call_id`", of(`{"type":"function_call_output","call_id":"c1","output":"x"}`)},
	{"custom_tool_call_output", "`tool_call_id`", of(`{"type":"custom_tool_call_output","call_id":"c1","output":[{"type":"input_text","text":"x"}]}`)},
	{"an image in an output", "`image_url.url`, in a message of the user", of(`{"type":"function_call_output","call_id":"c1","output":[{"type":"input_image","image_url":"http://127.0.0.1/x"}]}`)},
	{"input_image", "`image_url.url`", content(`{"type":"input_image","image_url":"data:image/png;base64,QQ=="}`)},
	{"input_file", "`file.file_data`", content(`{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,QQ=="}`)},
	{"input_audio", "`input_audio.format`", content(`{"type":"input_audio","input_audio":{"data":"QQ==","format":"wav"}}`)},
	{"a file_id or a file_url", "refused", content(`{"type":"input_file","file_id":"f"}`)},
	{"other items", "refused", of(`{"type":"computer_call_output","call_id":"c1","output":{}}`)},
	{"reasoning as an item", "left out", `"input":[{"role":"user","content":"hi"}«,{"type":"reasoning","id":"r","summary":[]}»]`},
}

func TestResponseAsDocumented(t *testing.T) {
	sent := asking(t, "/v1/responses")
	_, answer := sent(input)
	id, _ := jsonscan.Get([]byte(answer), "id")
	asDocumented(t, func(members string) (body, answer string) {
		return sent(strings.Replace(members, "PREVIOUS", string(id), 1))
	}, input, "responses", []string{"parameter, or item", "chat completion"}, responseSamples)
}

// part wraps one in the contents of a request to Gemini.
func part(of string) string { return `"contents":[{"role":"user","parts":[` + of + `]}]` }

const say = `"contents":[{"parts":[{"text":"hi"}]}]`

func config(member string) string { return say + `,"generationConfig":{` + member + `}` }

// contentSamples are members of requests to Gemini.
var contentSamples = []translation{
	{"`contents`", "`messages`", `"contents":[{"role":"model","parts":[{"text":"so"}]}]`},
	{"of text", "`messages`", part(`{"text":"a"},{"text":"b"}`)},
	{"`systemInstruction`", "`system`", say + `,"systemInstruction":{"parts":[{"text":"s"}]}`},
	{"`maxOutputTokens`", "`max_tokens`; OpenAI itself gets it as max_completion_tokens", config(`"maxOutputTokens":7`)},
	{"`temperature` of Gemini's", "`temperature`", config(`"temperature":0.5`)},
	{"`topP`", "`top_p`", config(`"topP":0.5`)},
	{"`topK`", "`top_k`", config(`"topK":3`)},
	{"`stopSequences`", "`stop`", config(`"stopSequences":["x"]`)},
	{"`seed` of Gemini's", "`seed`", config(`"seed":7`)},
	{"`frequencyPenalty`", "`frequency_penalty`", config(`"frequencyPenalty":0.5`)},
	{"`presencePenalty`", "`presence_penalty`", config(`"presencePenalty":0.5`)},
	{"`candidateCount`", "`n`", config(`"candidateCount":2`)},
	{"`responseMimeType`", "`response_format`", config(`"responseMimeType":"application/json"`)},
	{"`responseSchema`", "`response_format.json_schema`", config(`"responseSchema":{"type":"OBJECT"}`)},
	{"`responseJsonSchema`", "`response_format.json_schema`", config(`"responseJsonSchema":{"type":"object"}`)},
	{"`thinkingConfig`", "left out", config(`"thinkingConfig":{"thinkingBudget":7}`)},
	{"`mediaResolution`", "left out", config(`"mediaResolution":"MEDIA_RESOLUTION_LOW"`)},
	{"`safetySettings`", "left out", say + `,"safetySettings":[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_NONE"}]`},
	{"`labels`", "left out", say + `,"labels":{"a":"b"}`},
	{"`responseLogprobs`", "refused", config(`"responseLogprobs":true`)},
	{"`logprobs` of Gemini's", "refused", config(`"logprobs":2`)},
	{"`responseModalities`", "refused", config(`"responseModalities":["TEXT","IMAGE"]`)},
	{"`speechConfig`", "refused", config(`"speechConfig":{"languageCode":"de-DE"}`)},
	{"`cachedContent`", "refused", say + `,"cachedContent":"cachedContents/x"`},
	{"`tools` with functionDeclarations", "`tools.function.parameters`", say + `,"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT"}}]}]`},
	{"`tools` of Google's own", "refused", say + `,"tools":[{"googleSearch":{}}]`},
	{"`toolConfig` with a mode", "`tool_choice`", say + `,"tools":[{"functionDeclarations":[{"name":"f"}]}]«,"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}»`},
	{"`toolConfig` with several names", "refused", say + `,"tools":[{"functionDeclarations":[{"name":"f"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f","g"]}}`},
	{"functionCall", "`tool_calls`", `"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":{"a":1}}}]}]`},
	{"functionResponse", "`tool_call_id`", part(`{"functionResponse":{"id":"c1","name":"f","response":{"result":"x"}}}`)},
	{"inlineData of an image", "`image_url.url`", part(`{"inlineData":{"mimeType":"image/png","data":"QQ=="}}`)},
	{"fileData of an image at an address", "`image_url.url`", part(`{"fileData":{"mimeType":"image/png","fileUri":"https://127.0.0.1/x"}}`)},
	{"inlineData of a sound", "`input_audio.format`", part(`{"inlineData":{"mimeType":"audio/wav","data":"QQ=="}}`)},
	{"inlineData of another type", "`file.file_data`", part(`{"inlineData":{"mimeType":"application/pdf","data":"QQ=="}}`)},
	{"other fileData", "refused", part(`{"fileData":{"mimeType":"video/mp4","fileUri":"gs://x"}}`)},
	{"executableCode", "refused", part(`{"executableCode":{"language":"PYTHON","code":"1"}}`)},
	{"a thought", "left out", `"contents":[{"parts":[{"text":"hi"}«,{"text":"hm","thought":true}»]}]`},
}

func TestContentsAsDocumented(t *testing.T) {
	asDocumented(t, asking(t, "/v1beta/models/mock:generateContent"), say, "gemini", []string{"parameter, or part", "of OpenAI's"}, contentSamples)
}

// A translated request has the same meaning in OpenAI's API.
func TestContentsInOtherWords(t *testing.T) {
	sent := asking(t, "/v1beta/models/mock:generateContent")
	for members, want := range map[string]string{
		`"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[{"text":"I'll "},{"text":"look"},{"functionCall":{"name":"f","args":{"a":1}}},{"functionCall":{"name":"f","args":{"a":2}}}]},` +
			`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"one"}}},{"functionResponse":{"name":"f","response":{"n":2}}},{"text":"well?"}]}]`: `{"messages":[{"role":"user","content":"hi"},` +
			`{"role":"assistant","content":"I'll look","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"call_2","type":"function","function":{"name":"f","arguments":"{\"a\":2}"}}]},` +
			`{"role":"tool","content":"one","tool_call_id":"call_1"},{"role":"tool","content":"{\"n\":2}","tool_call_id":"call_2"},{"role":"user","content":"well?"}],"model":"mock"}`,
		say + `,"system_instruction":{"parts":{"text":"s"}},"generation_config":{"responseSchema":{"type":"OBJECT","properties":{"a":{"type":"ARRAY","nullable":true,"items":{"type":"STRING"}}},"propertyOrdering":["a"]}}`: `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}],"model":"mock",` +
			`"response_format":{"json_schema":{"name":"output","schema":{"properties":{"a":{"items":{"type":"string"},"type":["array","null"]}},"type":"object"}},"type":"json_schema"}}`,
		say + `,"tools":[{"functionDeclarations":[{"name":"f"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}}`: `{"messages":[{"role":"user","content":"hi"}],"model":"mock",` +
			`"tool_choice":{"function":{"name":"f"},"type":"function"},"tools":[{"function":{"name":"f","description":"","parameters":{"type":"object"}},"type":"function"}]}`,
	} {
		if got, answer := sent(members); got != want {
			t.Errorf("%s:\n got %s %s\nwant %s", members, got, answer, want)
		}
	}
}

// So does a translated response.
func TestResponseInOtherWords(t *testing.T) {
	sent := asking(t, "/v1/responses")
	call := func(id string) string {
		return fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"f","arguments":"{}"}}`, id)
	}
	item := func(kind, id, rest string) string { return fmt.Sprintf(`{"type":%q,"call_id":%q,%s}`, kind, id, rest) }
	members := of(strings.Join([]string{
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I'll "},{"type":"output_text","text":"look"}]}`,
		item("function_call", "a", `"name":"f","arguments":"{}"`), item("function_call", "b", `"name":"f","arguments":"{}"`),
		item("function_call_output", "a", `"output":[{"type":"input_text","text":"so"},{"type":"input_image","image_url":"u","detail":"low"}]`),
		item("function_call_output", "b", `"output":"bad"`),
		item("custom_tool_call", "c", `"name":"g","input":"x"`), item("custom_tool_call_output", "c", `"output":"y"`),
	}, ","))
	want := `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"I'll look","tool_calls":[` + call("a") + "," + call("b") + `]},` +
		`{"role":"tool","content":"so","tool_call_id":"a"},{"role":"tool","content":"bad","tool_call_id":"b"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"u","detail":"low"}}]},` +
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"custom","custom":{"name":"g","input":"x"}}]},{"role":"tool","content":"y","tool_call_id":"c"}],"model":"mock"}`
	if got, answer := sent(members); got != want {
		t.Errorf("got %s %s\nwant %s", got, answer, want)
	}
	for members, want := range map[string]string{
		input + `,"tools":[{"type":"function","name":"f"},{"type":"file_search"}]`: "tools[1]",
		input + `,"tool_choice":{"type":"file_search"},` + function:                "tool_choice",
		of(`{"role":"user","content":[{"type":"input_file","file_url":"u"}]}`):     "input[1].content[0]",
		of(`{"role":"critic","content":"x"}`):                                      "input[1].role",
		input + `,"text":{"format":{"type":"regex"}}`:                              "text.format",
	} {
		if got, answer := sent(members); got != "" || !strings.Contains(answer, `"param":"`+want+`","code":"unsupported_`) {
			t.Errorf("%s: sent as %s, answered %s; want %s", members, got, answer, want)
		}
	}
}
