package openai_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/broker/door/openai"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/test/kit/doortest"
)

// A responded has the members of a response that the tests read.
type responded struct {
	ID, Status string
	Incomplete struct{ Reason string } `json:"incomplete_details"`
	Error      struct{ Code, Message string }
	Previous   string `json:"previous_response_id"`
	Output     []struct {
		Type, Status, Name, Arguments, Input string
		CallID                               string `json:"call_id"`
		Content, Summary                     []struct{ Type, Text string }
	}
	Usage struct {
		Input    int64 `json:"input_tokens"`
		Output   int64 `json:"output_tokens"`
		Total    int64 `json:"total_tokens"`
		OfOutput struct {
			Thinking int64 `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	}
}

// String summarizes the output.
func (r *responded) String() string {
	list := []string{r.Status + r.Incomplete.Reason}
	for _, item := range r.Output {
		of := item.Type + ":" + item.Name + item.Arguments + item.Input
		for _, p := range append(item.Content, item.Summary...) {
			of += p.Text
		}
		list = append(list, of)
	}
	return strings.Join(list, "|")
}

// respond asks for a response, whole or streamed. For a stream it checks the order, and
// that the pieces add up to the response at its end.
func respond(t *testing.T, url, members string, stream bool) *responded {
	t.Helper()
	status, _, answer := doortest.Ask(t, http.MethodPost, url+"/v1/responses", fmt.Sprintf(`{"stream":%t,%s}`, stream, members), nil)
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", members, status, answer)
	}
	var whole responded
	if !stream {
		if err := json.Unmarshal([]byte(answer), &whole); err != nil {
			t.Fatalf("%v: %s", err, answer)
		}
		return &whole
	}
	deltas, told, kinds := map[string]string{}, map[string]string{}, []string{}
	for s := bufio.NewScanner(strings.NewReader(answer)); s.Scan(); {
		data, ok := bytes.CutPrefix(s.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		var e struct {
			Type, Delta, Text, Arguments, Input string
			Item                                string    `json:"item_id"`
			Sequence                            int       `json:"sequence_number"`
			Response                            responded `json:"response"`
		}
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		if e.Sequence != len(kinds) {
			t.Errorf("event %d has the number %d", len(kinds), e.Sequence)
		}
		deltas[e.Item] += e.Delta
		told[e.Item] += e.Text + e.Arguments + e.Input
		kinds, whole = append(kinds, e.Type), e.Response
	}
	for item, text := range deltas {
		if told[item] != text && whole.Status != "failed" { // such an item never ended
			t.Errorf("the pieces of %s are %q, and it is %q", item, text, told[item])
		}
	}
	if first := strings.Join(kinds[:2], " "); first != "response.created response.in_progress" || kinds[len(kinds)-1] != "response."+whole.Status {
		t.Errorf("the stream is %v", kinds)
	}
	return &whole
}

// A response has the model's thoughts, text and tool calls, streamed or not.
func TestResponse(t *testing.T) {
	url := start(t, provider.NewMock(provider.MockConfig{Chunk: 3, Script: []provider.Line{
		{When: "call", Thought: "hm \"so\"", Say: "I'll look.", ToolCalls: []provider.ToolCall{
			{ID: "c1", Name: "f", Arguments: []byte(`{"a":"b"}`)}, {Name: "patch", Arguments: []byte(`{"input":"x\ny"}`)},
		}},
		{When: "long", Say: "it goes o", Finish: "length"},
		{When: "bad", Say: "", Finish: "content_filter"},
		{When: "", Say: "é \"😀\""},
	}}))
	for _, stream := range []bool{false, true} {
		for _, tt := range []struct{ members, want string }{
			{`"input":"hi"`, `completed|message:é "😀"`},
			{`"input":"call","tools":[{"type":"function","name":"f"},{"type":"custom","name":"patch"}]`, `completed|reasoning:hm "so"|message:I'll look.|function_call:f{"a":"b"}|custom_tool_call:patchx` + "\ny"},
			{`"input":[{"role":"user","content":"long"}]`, "incompletemax_output_tokens|message:it goes o"},
			{`"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"bad"}]}]`, "incompletecontent_filter|message:"},
		} {
			got := respond(t, url, tt.members, stream)
			if got.String() != tt.want || got.Usage.Total != got.Usage.Input+got.Usage.Output || got.Usage.Input == 0 {
				t.Errorf("%s, streamed %t:\n got %s %+v\nwant %s", tt.members, stream, got, got.Usage, tt.want)
			}
			if i := strings.Index(tt.want, "reasoning"); i > 0 && got.Usage.OfOutput.Thinking == 0 {
				t.Errorf("no tokens of reasoning: %+v", got.Usage)
			}
			for _, item := range got.Output {
				if strings.HasSuffix(item.Type, "_call") && item.CallID == "" {
					t.Errorf("a call has no id: %+v", item)
				}
			}
		}
	}
}

// A request can continue a kept response with all that was said before, except for the
// instructions. Other clients cannot.
func TestPreviousResponse(t *testing.T) {
	held := doortest.NewHeld()
	url := start(t, held)
	ask := func(members, text string) (*responded, string) {
		chats := make(chan string, 1)
		go func() {
			call := <-held.Calls
			chats <- string(call.Chat())
			call.Finish(text)
		}()
		return respond(t, url, members, false), <-chats
	}
	first, _ := ask(`"model":"mock","instructions":"be short","input":"hi"`, "hello")
	second, chat := ask(fmt.Sprintf(`"model":"mock","instructions":"be long","previous_response_id":%q,"input":"again"`, first.ID), "well")
	want := `{"messages":[{"role":"system","content":"be long"},{"role":"user","content":"hi"},{"role":"assistant","content":"hello"},{"role":"user","content":"again"}],"model":"mock"}`
	if chat != want || second.Previous != first.ID {
		t.Errorf("after %q:\n got %s\nwant %s", second.Previous, chat, want)
	}
	_, chat = ask(fmt.Sprintf(`"model":"mock","store":false,"previous_response_id":%q,"input":[]`, second.ID), "gone")
	if want := `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"},{"role":"user","content":"again"},{"role":"assistant","content":"well"}],"model":"mock"}`; chat != want {
		t.Errorf("got %s\nwant %s", chat, want)
	}
	unstored, _ := ask(`"store":false,"input":"x"`, "y")
	for _, id := range []string{unstored.ID, "resp_nope"} {
		status, answer := postTo(t, url+"/v1/responses", fmt.Sprintf(`{"previous_response_id":%q,"input":"x"}`, id))
		if want := `"type":"invalid_request_error","param":"previous_response_id","code":"previous_response_not_found"}}`; status != 400 || !strings.HasSuffix(answer, want) || !strings.Contains(answer, "store: false") {
			t.Errorf("%s: %d %s", id, status, answer)
		}
	}
}

// A tool of a namespace is called by both names. A tool that only OpenAI can run is dropped
// for a provider that is configured to drop those.
func TestResponseTools(t *testing.T) {
	url := start(t, provider.NewMock(provider.MockConfig{Script: []provider.Line{{ToolCalls: []provider.ToolCall{{ID: "c", Name: "n__f", Arguments: []byte("{}")}}}}}))
	_, answer := postTo(t, url+"/v1/responses", `{"input":"x","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}]}`)
	if !strings.Contains(answer, `"call_id":"c","namespace":"n","name":"f","arguments":"{}"`) {
		t.Errorf("got %s", answer)
	}
	var said string
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		said = string(body)
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"so"}}]}`)
	}))
	defer backend.Close()
	behind := provider.NewOpenAI(provider.Config{BaseURL: backend.URL, Drop: []string{"tools"}})
	defer behind.CloseIdleConnections()
	url = start(t, behind)
	const want = `{"messages":[{"role":"user","content":"x"}],"model":"mock","tools":[{"function":{"name":"f","description":"","parameters":{"type":"object"}},"type":"function"}]}`
	status, answer := postTo(t, url+"/v1/responses", `{"model":"mock","input":"x","tools":[{"type":"web_search"},{"type":"function","name":"f"}]}`)
	if status != 200 || said != want {
		t.Errorf("%d %s, sent %s", status, answer, said)
	}
	for path, body := range map[string]string{
		"/v1/messages":                        `{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"web_search_20250305","name":"web_search"}]}`,
		"/v1beta/models/mock:generateContent": `{` + say + `,"tools":[{"googleSearch":{}}]}`,
	} {
		if status, answer := postTo(t, url+path, body); status != 200 {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	if status, answer := postTo(t, url+"/v1/responses", `{"input":"x","background":true,"tools":[{"type":"web_search"}]}`); status != 400 || !strings.Contains(answer, `"param":"background"`) {
		t.Errorf("%d %s", status, answer)
	}
}

// The number of kept responses is bounded, and the oldest go first.
func TestResponsesKept(t *testing.T) {
	url := start(t, provider.NewMock(provider.MockConfig{}))
	first := respond(t, url, `"input":"hi"`, false)
	for range 999 {
		respond(t, url, `"input":"hi"`, false)
	}
	goOn := fmt.Sprintf(`{"previous_response_id":%q,"input":"x"}`, first.ID)
	if status, answer := postTo(t, url+"/v1/responses", goOn); status != 200 { // this one is kept, too
		t.Errorf("%d %s", status, answer)
	}
	if status, answer := postTo(t, url+"/v1/responses", goOn); status != 400 {
		t.Errorf("%d %s", status, answer)
	}
}

// Clients' errors are named as OpenAI names them.
func TestResponseFaults(t *testing.T) {
	url := start(t, provider.NewMock(provider.MockConfig{Script: []provider.Line{{When: "busy", Status: 429}}}))
	for body, want := range map[string]string{
		`{"input":"x"`:                        `"param":null`,
		`[]`:                                  `"param":null`,
		`{"model":"mock"}`:                    `"message":"Missing required parameter: 'input'.","type":"invalid_request_error","param":"input"`,
		`{"input":7}`:                         `"message":"Invalid type for 'input': expected a string or an array of items.","type":"invalid_request_error","param":"input"`,
		`{"input":"x","tools":{}}`:            `"param":"tools"`,
		`{"input":"x","model":"nope"}`:        `"param":"model","code":"model_not_found"`,
		`{"input":"busy"}`:                    `"type":"rate_limit_error"`,
		`{"input":"busy","stream":true}`:      `"type":"rate_limit_error"`,
		`{"input":"x","instructions":["so"]}`: `"param":"instructions"`,
	} {
		status, answer := postTo(t, url+"/v1/responses", body)
		if status < 400 || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s, want %s", body, status, answer, want)
		}
	}
}

// A stream that its backend interrupts ends with the event for that.
func TestResponseCut(t *testing.T) {
	url := start(t, provider.NewMock(provider.MockConfig{Faults: []provider.Fault{{Every: 1}}}))
	got := respond(t, url, `"input":"one two three"`, true)
	if got.Status != "failed" || got.Error.Code != "server_error" || got.Error.Message == "" {
		t.Errorf("got %+v", got)
	}
}

var vectors = regexp.MustCompile(`"embedding":(\[[^]]*\]|"[^"]*")`)

// Texts become vectors, as numbers or packed. The error names input that cannot be
// embedded.
func TestEmbeddings(t *testing.T) {
	url := start(t, provider.NewMock(provider.MockConfig{}))
	status, answer := postTo(t, url+"/v1/embeddings", `{"model":"mock","input":["a","b"],"dimensions":2}`)
	if list := vectors.FindAllString(answer, -1); status != 200 || len(list) != 2 || list[0] == list[1] || strings.Count(list[0], ",") != 1 || !strings.Contains(answer, `"usage":{"prompt_tokens":2,"total_tokens":2}`) {
		t.Errorf("%d %s", status, answer)
	}
	if _, answer := postTo(t, url+"/v1/embeddings", `{"input":"a","dimensions":2,"encoding_format":"base64"}`); !regexp.MustCompile(`"embedding":"[A-Za-z0-9+/]{11}="`).MatchString(answer) {
		t.Errorf("packed: %s", answer)
	}
	for body, want := range map[string]string{
		`{"input":`:                              `"param":null`,
		`{"model":"mock"}`:                       `"param":"input"`,
		`{"input":[]}`:                           `"param":"input"`,
		`{"input":[[1,2,3]]}`:                    `"param":"input","code":"unsupported_parameter"`,
		`{"input":"a","encoding_format":"int8"}`: `"param":"encoding_format"`,
		`{"input":"a","dimensions":-1}`:          `"param":"dimensions"`,
		`{"input":"a","dimensions":10000000}`:    `"param":"dimensions"`,
		`{"input":"a","model":"nope"}`:           `"code":"model_not_found"`,
	} {
		if status, answer := postTo(t, url+"/v1/embeddings", body); status < 400 || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s, want %s", body, status, answer, want)
		}
	}
	held := "http://" + doortest.Serve(t, openai.New(doortest.Broker(t, doortest.NewHeld()), nil, web.Access{}))
	if status, answer := postTo(t, held+"/v1/embeddings", `{"input":"a"}`); status != 404 || !strings.Contains(answer, "No provider of this model can make embeddings") {
		t.Errorf("%d %s", status, answer)
	}
}
