package openai_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/test/kit/page"
)

// said is a user message with a block.
func said(block string) string { return `"messages":[{"role":"user","content":[` + block + `]}]` }

const (
	hi   = `"messages":[{"role":"user","content":"hi"}]`
	tool = `"tools":[{"name":"f","input_schema":{"type":"object"}}]`
)

// A translation is what becomes of a parameter or a block, as a table of docs/broker.md has it. The
// sample is members of a request; what is marked is left out for the comparison.
type translation struct{ of, fate, sample string }

var messageSamples = []translation{
	{"`max_tokens`", "`max_tokens`; OpenAI itself gets it as max_completion_tokens", hi + `,"max_tokens":7`},
	{"`temperature`", "`temperature`", hi + `,"temperature":0.5`},
	{"`top_p`", "`top_p`", hi + `,"top_p":0.5`},
	{"`stop_sequences`", "`stop`", hi + `,"stop_sequences":["x"]`},
	{"`system`", "`system`", hi + `,"system":"s"`},
	{"`top_k`", "`top_k`", hi + `,"top_k":3`},
	{"members that neither API has", "`top_k`", hi + `,"top_k":3`},
	{"`tools` with an input_schema", "`tools.function.parameters`", hi + "," + tool},
	{"`tools` that Anthropic defines", "refused", hi + `,"tools":[{"type":"web_search_20250305","name":"web_search"}]`},
	{"`tool_choice`", "`tool_choice`", hi + "," + tool + `«,"tool_choice":{"type":"auto"}»`},
	{"disable_parallel_tool_use", "`parallel_tool_calls`", hi + "," + tool + `,"tool_choice":{"type":"auto"«,"disable_parallel_tool_use":true»}`},
	{"`output_config` with a format", "`response_format.json_schema.strict`", hi + `,"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}`},
	{"`output_config` with an effort", "left out", hi + `,"output_config":{"effort":"high"}`},
	{"`thinking`", "left out", hi + `,"thinking":{"type":"adaptive"}`},
	{"`metadata`", "left out", hi + `,"metadata":{"user_id":"u"}`},
	{"`service_tier`", "left out", hi + `,"service_tier":"auto"`},
	{"`speed`", "left out", hi + `,"speed":"fast"`},
	{"`cache_control`", "left out", hi + `,"cache_control":{"type":"ephemeral"}`},
	{"`context_management`", "left out", hi + `,"context_management":{"edits":[]}`},
	{"`diagnostics`", "left out", hi + `,"diagnostics":{}`},
	{"`fallbacks`", "left out", hi + `,"fallbacks":[]`},
	{"`fallback_credit_token`", "left out", hi + `,"fallback_credit_token":"t"`},
	{"`container`", "refused", hi + `,"container":"c"`},
	{"`mcp_servers`", "refused", hi + `,"mcp_servers":[{"type":"url","url":"u","name":"n"}]`},
	{"`inference_geo`", "refused", hi + `,"inference_geo":"us"`},
	{"an image", "`image_url.url`", said(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QQ=="}}`)},
	{"a document in base64", "`file.file_data`", said(`{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"QQ=="}}`)},
	{"a document of text", "`text`", said(`{"type":"document","source":{"type":"text","media_type":"text/plain","data":"so"}},{"type":"document","source":{"type":"content","content":[{"type":"text","text":"so"}]}}`)},
	{"images and documents by reference", "refused", said(`{"type":"document","source":{"type":"url","url":"u"}}`)},
	{"other blocks", "refused", said(`{"type":"search_result","source":"s","title":"t","content":[]}`)},
	{"tool_use", "`tool_calls`", `"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}}]}]`},
	{"tool_result", "`tool_call_id`, after `Error:` if it failed", said(`{"type":"tool_result","tool_use_id":"c1","content":"bad","is_error":true}`)},
	{"an image in a tool_result", "`image_url.url`, in a message of the user", said(`{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"so"}«,{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QQ=="}}»]}`)},
	{"thinking in a message", "left out", said(`«{"type":"thinking","thinking":"hm"},»{"type":"text","text":"hi"}`)},
	{"the mark of a cache", "left out", said(`{"type":"text","text":"hi"«,"cache_control":{"type":"ephemeral"}»}`)},
}

var (
	marked = regexp.MustCompile("«.*»")
	marks  = strings.NewReplacer("«", "", "»", "")
	names  = regexp.MustCompile("`[^`]+`")
)

// Anthropic's parameters are translated for backends with OpenAI's API as docs/broker.md
// says.
func TestMessageAsDocumented(t *testing.T) {
	asDocumented(t, asking(t, "/v1/messages"), hi, "anthropic", []string{"parameter, or block", "openai"}, messageSamples)
}

// asDocumented checks the table of that name in docs/broker.md, and what becomes of its samples.
func asDocumented(t *testing.T, sent func(members string) (body, answer string), plainly, name string, head []string, table []translation) {
	t.Helper()
	var rows [][]string
	plain, _ := sent(plainly)
	for _, row := range table {
		rows = append(rows, []string{row.of, row.fate})
		without := plain
		if strings.Contains(row.sample, "«") {
			without, _ = sent(marked.ReplaceAllString(row.sample, ""))
		}
		body, answer := sent(marks.Replace(row.sample))
		check(t, row.of, row.fate, body, without, answer)
	}
	page.Check(t, "../../../docs/broker.md", name, page.Table(head, rows))
}

// check compares the translated request with the one without the parameter, and checks the
// answer.
func check(t *testing.T, of, fate, body, without, answer string) {
	t.Helper()
	switch fate {
	case "refused":
		if body != "" || !strings.Contains(answer, `"message":"`) || !strings.Contains(answer, " cannot be translated ") {
			t.Errorf("%s: sent as %s, answered %s; it should be refused", of, body, answer)
		}
	case "left out":
		if body != without {
			t.Errorf("%s: sent as %s; it should be left out", of, body)
		}
	default:
		for _, path := range names.FindAllString(fate, -1) {
			for name := range strings.SplitSeq(strings.Trim(path, "`"), ".") {
				if body == without || !strings.Contains(body, `"`+name) {
					t.Errorf("%s: sent as %s, answered %s; it should be in %s", of, body, answer, path)
				}
			}
		}
	}
}

// asking returns a function that makes a request with the given members at a path. It
// returns the request to the backend, which has OpenAI's API, or "" if there was none, and
// the answer.
func asking(t *testing.T, path string) func(members string) (body, answer string) {
	bodies := make(chan string, 1)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"so"}}]}`)
	}))
	t.Cleanup(backend.Close)
	behind := provider.NewOpenAI(provider.Config{BaseURL: backend.URL})
	t.Cleanup(behind.CloseIdleConnections)
	url := start(t, behind)
	return func(members string) (body, answer string) {
		status, answer := postTo(t, url+path, `{"model":"mock",`+members+"}")
		if status == http.StatusOK {
			body = <-bodies
		}
		return body, answer
	}
}

// A translated request has the same meaning in OpenAI's API.
func TestMessageInOtherWords(t *testing.T) {
	sent := asking(t, "/v1/messages")
	const user = `{"messages":[{"role":"user","content":"hi"}],"model":"mock"`
	const function = `"tools":[{"function":{"name":"f","description":"","parameters":{"type":"object"}},"type":"function"}]}`
	for members, want := range map[string]string{
		hi + "," + tool + `,"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`: user + `,"parallel_tool_calls":false,"tool_choice":"auto",` + function,
		hi + "," + tool + `,"tool_choice":{"type":"any"}`:                                   user + `,"tool_choice":"required",` + function,
		hi + "," + tool + `,"tool_choice":{"type":"none"}`:                                  user + `,"tool_choice":"none",` + function,
		hi + `,"output_format":{"type":"json_schema","schema":{"type":"object"}}`:           user + `,"response_format":{"json_schema":{"name":"output","schema":{"type":"object"},"strict":true},"type":"json_schema"}}`,
		said(`{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"so"},{"type":"image","source":{"type":"url","url":"u"}}]},{"type":"tool_result","tool_use_id":"b","content":"bad","is_error":true},{"type":"text","text":"well?"}`): `{"messages":[{"role":"tool","content":"so","tool_call_id":"a"},{"role":"tool","content":"Error: bad","tool_call_id":"b"},` +
			`{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}},{"type":"text","text":"well?"}]}],"model":"mock"}`,
		said(`{"type":"document","title":"a.pdf","source":{"type":"base64","media_type":"application/pdf","data":"QQ=="}},{"type":"text","text":""}`): `{"messages":[{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,QQ=="}}]}],"model":"mock"}`,
	} {
		if got, answer := sent(members); got != want {
			t.Errorf("%s:\n got %s %s\nwant %s", members, got, answer, want)
		}
	}
	for members, want := range map[string]string{
		hi + `,"tools":{}`: "tools: ",
		hi + `,"tool_choice":{"type":"other"}` + "," + tool: "tool_choice: ",
		hi + `,"output_config":{"format":{"type":"regex"}}`: "output_config.format: ",
		`"messages":[{"role":"user","content":7}]`:          "messages.0.content: ",
		`"system":[{"type":"image"}],` + hi:                 "system.0: ",
		`"messages":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"x"},{"type":"other"}]}]}]`: "messages.1.content.0.content.1: ",
	} {
		if got, answer := sent(members); got != "" || !strings.Contains(answer, `"message":"`+want+"cannot be translated") {
			t.Errorf("%s: sent as %s, answered %s; want %s", members, got, answer, want)
		}
	}
}
