package openai_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/broker/door/openai"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/test/kit/doortest"
)

// saidByGemini summarizes an answer, or one event of it.
func saidByGemini(t *testing.T, answer string) string {
	t.Helper()
	var a struct {
		Candidates []struct {
			Content struct {
				Parts []struct {
					Text    string
					Thought bool
					Call    *struct {
						Name string
						Args json.RawMessage
					} `json:"functionCall"`
				}
			}
			Finish string `json:"finishReason"`
		}
		Usage struct{ TotalTokenCount int64 } `json:"usageMetadata"`
	}
	if err := json.Unmarshal([]byte(answer), &a); err != nil || len(a.Candidates) != 1 {
		t.Fatalf("%v: %s", err, answer)
	}
	text := ""
	for _, p := range a.Candidates[0].Content.Parts {
		if p.Thought {
			text += "thought:"
		}
		if text += p.Text; p.Call != nil {
			text += "call:" + p.Call.Name + string(p.Call.Args)
		}
		text += "|"
	}
	if a.Candidates[0].Finish != "" && a.Usage.TotalTokenCount == 0 {
		t.Errorf("there is no usage: %s", answer)
	}
	return text + a.Candidates[0].Finish
}

// Gemini's clients get the text, and the thoughts if they ask for them, streamed or not.
func TestGenerateContent(t *testing.T) {
	url := start(t, provider.NewMock(provider.MockConfig{Chunk: 5, Script: []provider.Line{
		{When: "call", Thought: "hm", ToolCalls: []provider.ToolCall{{Name: "f", Arguments: []byte(`{"a":1}`)}}},
		{When: "long", Say: "it goes o", Finish: "length"},
		{When: "", Say: "hello"},
	}})) + "/v1beta/models/mock:"
	for _, tt := range []struct{ body, whole, streamed string }{
		{`{` + say + `}`, "hello|STOP", "hello| STOP"},
		{`{` + part(`{"text":"long"}`) + `}`, "it goes o|MAX_TOKENS", "it go| es o| MAX_TOKENS"},
		{`{` + part(`{"text":"call"}`) + `}`, `call:f{"a":1}|STOP`, `call:f{"a":1}|STOP`},
		{`{` + part(`{"text":"call"}`) + `,"generationConfig":{"thinkingConfig":{"includeThoughts":true}}}`, `thought:hm|call:f{"a":1}|STOP`, `thought:hm| call:f{"a":1}|STOP`},
	} {
		if status, answer := postTo(t, url+"generateContent", tt.body); status != 200 || saidByGemini(t, answer) != tt.whole {
			t.Errorf("%s: %d %s, want %s", tt.body, status, answer, tt.whole)
		}
		_, answer := postTo(t, url+"streamGenerateContent?alt=sse", tt.body)
		var list []string
		for event := range strings.SplitSeq(strings.TrimSuffix(answer, "\n\n"), "\n\n") {
			list = append(list, saidByGemini(t, strings.TrimPrefix(event, "data: ")))
		}
		if got := strings.Join(list, " "); got != tt.streamed {
			t.Errorf("%s: streamed %s, want %s", tt.body, got, tt.streamed)
		}
	}
	if _, answer := postTo(t, url+"countTokens", `{`+say+`}`); !strings.HasPrefix(answer, `{"totalTokens":`) {
		t.Errorf("got %s", answer)
	}
}

// A backend with the client's API gets the request unchanged, and the client its answer.
func TestGeminiAsItIs(t *testing.T) {
	asked := make(chan string, 1)
	const answer = `{"candidates":[{"content":{"parts":[{"text":"so"}]},"finishReason":"STOP","own":1}]}`
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked <- r.URL.RequestURI() + " " + string(body)
		if r.URL.Query().Get("alt") == "sse" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte("data: " + answer + "\r\n\r\n"))
			return
		}
		_, _ = w.Write([]byte(answer))
	}))
	defer backend.Close()
	behind := provider.NewGemini(provider.Config{BaseURL: backend.URL})
	defer behind.CloseIdleConnections()
	url := start(t, behind) + "/v1beta/models/mock:"
	const body = `{"contents":[{"parts":[{"text":"hi"}]}],  "tools":[{"googleSearch":{}}]}`
	for method, want := range map[string]string{"generateContent": answer, "streamGenerateContent?alt=sse": "data: " + answer + "\n\n"} {
		_, got := postTo(t, url+method, body)
		if sent := <-asked; got != want || sent != "/v1beta/models/mock:"+method+" "+body {
			t.Errorf("%s: got %q, sent %s", method, got, sent)
		}
	}
}

// Each path has its methods, and errors have Gemini's format.
func TestGeminiPaths(t *testing.T) {
	url := start(t, provider.NewMock(provider.MockConfig{Script: []provider.Line{{When: "busy", Status: 429}}, Faults: []provider.Fault{{Every: 3, Status: 503}}}))
	for _, tt := range []struct{ ask, body, want string }{
		{"GET /v1beta/models", "", `{"models":[{"name":"models/mock",`},
		{"GET /v1beta/models/mock", "", `{"name":"models/mock",`},
		{"GET /v1beta/models/nope", "", `{"error":{"code":404,"message":"Unknown model 'nope'. Allowed: ['mock']","status":"NOT_FOUND"}}`},
		{"DELETE /v1beta/models/mock", "", `"code":405`},
		{"POST /v1beta/models/mock:embed", "{}", `"code":404`},
		{"POST /v1beta/models/mock", "{}", `"code":404`},
		{"POST /v1beta/models/nope:generateContent", "{" + say + "}", `"status":"NOT_FOUND"`},
		{"POST /v1beta/models/mock:streamGenerateContent", "{" + say + "}", `expected sse`},
		{"POST /v1beta/models/mock:generateContent", "{", `"status":"INVALID_ARGUMENT"`},
		{"POST /v1beta/models/mock:generateContent", "[]", `expected an object`},
		{"POST /v1beta/models/mock:generateContent", "{}", `Invalid value at 'contents'`},
		{"POST /v1beta/models/mock:generateContent", "{" + part(`{"text":"busy"}`) + "}", `"code":429,`},
		{"POST /v1beta/models/mock:generateContent", "{" + part(`{"text":"busy"}`) + "}", `"status":"RESOURCE_EXHAUSTED"`},
		{"POST /v1beta/models/mock:generateContent", "{" + say + "}", `"status":"UNAVAILABLE"`},
	} {
		method, path, _ := strings.Cut(tt.ask, " ")
		status, _, answer := doortest.Ask(t, method, url+path, tt.body, nil)
		if !strings.Contains(answer, tt.want) || strings.Contains(answer, `"error"`) != (status >= 400) {
			t.Errorf("%s %s: %d %s, want %s", tt.ask, tt.body, status, answer, tt.want)
		}
	}
}

// The token is accepted where Gemini's clients send their key.
func TestGeminiKey(t *testing.T) {
	url := "http://" + doortest.Serve(t, openai.New(doortest.Broker(t, nil), nil, web.Access{Token: "nxk_1"})) + "/v1beta/models"
	for _, tt := range []struct {
		query  string
		header http.Header
		want   int
	}{
		{"", nil, 401},
		{"?key=nxk_2", nil, 401},
		{"?key=nxk_1", nil, 200},
		{"", http.Header{"X-Goog-Api-Key": {"nxk_1"}}, 200},
		{"", http.Header{"X-Goog-Api-Key": {"nxk_2"}}, 401},
	} {
		status, _, answer := doortest.Ask(t, http.MethodGet, url+tt.query, "", tt.header)
		if status != tt.want || status == 401 && !strings.Contains(answer, `"status":"UNAUTHENTICATED"`) {
			t.Errorf("%s %v: %d %s", tt.query, tt.header, status, answer)
		}
	}
}
