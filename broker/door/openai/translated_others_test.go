package openai_test

import (
	"fmt"
	"maps"
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

// responseSamples are members of requests for responses, like messageSamples.
var responseSamples = map[string]string{
	"`input`":                             `"input":«[{"role":"user","content":"well?"}]»`,
	"of text":                             content(`{"type":"input_text","text":"well?"}`),
	"`instructions`":                      input + `,"instructions":"s"`,
	"`max_output_tokens`":                 input + `,"max_output_tokens":7`,
	"`temperature` of a response":         input + `,"temperature":0.5`,
	"`top_p` of a response":               input + `,"top_p":0.5`,
	"`reasoning` with an effort":          input + `,"reasoning":{"effort":"low"}`,
	"`reasoning` with a summary":          input + `,"reasoning":{"summary":"auto"}`,
	"`text` with a format":                input + `,"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}}}`,
	"`text` with a verbosity":             input + `,"text":{"verbosity":"low"}`,
	"`tools` of functions or custom ones": input + `,"tools":[{"type":"function","name":"f"},{"type":"custom","name":"c","format":{"type":"grammar","syntax":"lark","definition":"x"}}]`,
	"`tools` of a namespace":              input + `,"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}]`,
	"`tools` of OpenAI's own":             input + `,"tools":[{"type":"web_search"}]`,
	"`tool_choice` of a response":         input + "," + function + `«,"tool_choice":"required"»`,
	"`parallel_tool_calls` of a response": input + "," + function + `«,"parallel_tool_calls":false»`,
	"`user`":                              input + `,"user":"u"`,
	"`safety_identifier`":                 input + `,"user":"u","safety_identifier":"u"`,
	"`service_tier`":                      input + `,"user":"u","service_tier":"flex"`,
	"`prompt_cache_key`":                  input + `,"user":"u","prompt_cache_key":"k"`,
	"members that OpenAI lacks":           input + `,"user":"u","top_k":3`,
	"`store`":                             input + `,"store":true`,
	"`metadata`":                          input + `,"metadata":{"a":"b"}`,
	"`include`":                           input + `,"include":["reasoning.encrypted_content"]`,
	"`stream_options`":                    input + `,"stream_options":{"include_obfuscation":false}`,
	"`max_tool_calls`":                    input + `,"max_tool_calls":3`,
	"`client_metadata`":                   input + `,"client_metadata":{"a":"b"}`,
	"`include` of logprobs":               input + `,"include":["message.output_text.logprobs"]`,
	"`top_logprobs` of a response":        input + `,"top_logprobs":2`,
	"`truncation`":                        input + `,"truncation":"auto"`,
	"`background`":                        input + `,"background":true`,
	"`conversation`":                      input + `,"conversation":"c"`,
	"`prompt`":                            input + `,"prompt":{"id":"p"}`,
	"`context_management`":                input + `,"context_management":[{"type":"compaction"}]`,
	"a message":                           of(`{"type":"message","role":"developer","content":"s"}`),
	"function_call":                       of(`{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}`),
	"custom_tool_call":                    of(`{"type":"custom_tool_call","call_id":"c1","name":"f","input":"x"}`),
	"function_call_output":                of(`{"type":"function_call_output","call_id":"c1","output":"x"}`),
	"custom_tool_call_output":             of(`{"type":"custom_tool_call_output","call_id":"c1","output":[{"type":"input_text","text":"x"}]}`),
	"an image in an output":               of(`{"type":"function_call_output","call_id":"c1","output":[{"type":"input_image","image_url":"http://127.0.0.1/x"}]}`),
	"input_image":                         content(`{"type":"input_image","image_url":"data:image/png;base64,QQ=="}`),
	"input_file":                          content(`{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,QQ=="}`),
	"input_audio":                         content(`{"type":"input_audio","input_audio":{"data":"QQ==","format":"wav"}}`),
	"a file_id or a file_url":             content(`{"type":"input_file","file_id":"f"}`),
	"other items":                         of(`{"type":"computer_call_output","call_id":"c1","output":{}}`),
	"reasoning as an item":                `"input":[{"role":"user","content":"hi"}«,{"type":"reasoning","id":"r","summary":[]}»]`,
}

func TestResponseAsDocumented(t *testing.T) {
	sent := asking(t, "/v1/responses")
	_, answer := sent(input)
	id, _ := jsonscan.Get([]byte(answer), "id")
	samples := maps.Clone(responseSamples)
	samples["`previous_response_id`"] = input + `,"previous_response_id":` + string(id)
	asDocumented(t, sent, input, "| parameter, or item | chat completion |", samples)
}

// part wraps one in the contents of a request to Gemini.
func part(of string) string { return `"contents":[{"role":"user","parts":[` + of + `]}]` }

const say = `"contents":[{"parts":[{"text":"hi"}]}]`

func config(member string) string { return say + `,"generationConfig":{` + member + `}` }

// contentSamples are members of requests to Gemini.
var contentSamples = map[string]string{
	"`contents`":                         `"contents":[{"role":"model","parts":[{"text":"so"}]}]`,
	"of text":                            part(`{"text":"a"},{"text":"b"}`),
	"`systemInstruction`":                say + `,"systemInstruction":{"parts":[{"text":"s"}]}`,
	"`maxOutputTokens`":                  config(`"maxOutputTokens":7`),
	"`temperature` of Gemini's":          config(`"temperature":0.5`),
	"`topP`":                             config(`"topP":0.5`),
	"`topK`":                             config(`"topK":3`),
	"`stopSequences`":                    config(`"stopSequences":["x"]`),
	"`seed` of Gemini's":                 config(`"seed":7`),
	"`frequencyPenalty`":                 config(`"frequencyPenalty":0.5`),
	"`presencePenalty`":                  config(`"presencePenalty":0.5`),
	"`candidateCount`":                   config(`"candidateCount":2`),
	"`responseMimeType`":                 config(`"responseMimeType":"application/json"`),
	"`responseSchema`":                   config(`"responseSchema":{"type":"OBJECT"}`),
	"`responseJsonSchema`":               config(`"responseJsonSchema":{"type":"object"}`),
	"`thinkingConfig`":                   config(`"thinkingConfig":{"thinkingBudget":7}`),
	"`mediaResolution`":                  config(`"mediaResolution":"MEDIA_RESOLUTION_LOW"`),
	"`safetySettings`":                   say + `,"safetySettings":[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_NONE"}]`,
	"`labels`":                           say + `,"labels":{"a":"b"}`,
	"`responseLogprobs`":                 config(`"responseLogprobs":true`),
	"`logprobs` of Gemini's":             config(`"logprobs":2`),
	"`responseModalities`":               config(`"responseModalities":["TEXT","IMAGE"]`),
	"`speechConfig`":                     config(`"speechConfig":{"languageCode":"de-DE"}`),
	"`cachedContent`":                    say + `,"cachedContent":"cachedContents/x"`,
	"`tools` with functionDeclarations":  say + `,"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT"}}]}]`,
	"`tools` of Google's own":            say + `,"tools":[{"googleSearch":{}}]`,
	"`toolConfig` with a mode":           say + `,"tools":[{"functionDeclarations":[{"name":"f"}]}]«,"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}»`,
	"`toolConfig` with several names":    say + `,"tools":[{"functionDeclarations":[{"name":"f"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f","g"]}}`,
	"functionCall":                       `"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":{"a":1}}}]}]`,
	"functionResponse":                   part(`{"functionResponse":{"id":"c1","name":"f","response":{"result":"x"}}}`),
	"inlineData of an image":             part(`{"inlineData":{"mimeType":"image/png","data":"QQ=="}}`),
	"fileData of an image at an address": part(`{"fileData":{"mimeType":"image/png","fileUri":"https://127.0.0.1/x"}}`),
	"inlineData of a sound":              part(`{"inlineData":{"mimeType":"audio/wav","data":"QQ=="}}`),
	"inlineData of another type":         part(`{"inlineData":{"mimeType":"application/pdf","data":"QQ=="}}`),
	"other fileData":                     part(`{"fileData":{"mimeType":"video/mp4","fileUri":"gs://x"}}`),
	"executableCode":                     part(`{"executableCode":{"language":"PYTHON","code":"1"}}`),
	"a thought":                          `"contents":[{"parts":[{"text":"hi"}«,{"text":"hm","thought":true}»]}]`,
}

func TestContentsAsDocumented(t *testing.T) {
	asDocumented(t, asking(t, "/v1beta/models/mock:generateContent"), say, "| parameter, or part | of OpenAI's |", contentSamples)
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
