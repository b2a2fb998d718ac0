package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/fixtures"
)

// joinedAnswers are the answers of fixtures: the frame that is shown, from how many events it is
// joined, and the first of what it says.
var joinedAnswers = map[string][]string{
	"api-anthropic-made": {
		`11 of 9: {"text":"Stop here END","usage":{"input_tokens":1561,"output_tokens":6,"cached_tokens":1536},"stop_reason":"stop_sequence"}`,
		`21 of 7: {"text":"Half an","usage":{"input_tokens":1561,"output_tokens":1,"cached_tokens":1536},"error":{"code":"overloaded_error","message":"Overloaded"}}`,
		`53 of 29: {"thoughts":"Which tool fits? Both.","text":"I will reserve it.","tool_calls":[{"id":"toolu_0a","name":"reserve","arguments":{"sku": "A-7"}},{"id":"toolu_0b","name":"price","arguments":{}}],"usage":{"input_tokens":1561,"output_tokens":87,"cached_tokens":1536},"stop_reason":"tool_use"}`,
	},
	"api-openai-made": {
		`28 of 26: {"thoughts":"**Checking stock** then price.","tool_calls":[{"id":"call_A7","name":"reserve","arguments":{"sku":"A-7","qty":2}},{"id":"call_P1","name":"price","arguments":{"sku":"A-7"}}],"usage":{"input_tokens":900,"output_tokens":64,"cached_tokens":768,"reasoning_tokens":32},"stop_reason":"completed"}`,
		`40 of 9: {"text":"This answer is cut","usage":{"input_tokens":20,"output_tokens":16},"stop_reason":"max_output_tokens"}`,
		`49 of 6: {"text":"Starting","error":{"code":"server_error","message":"The model failed to generate a response."}}`,
		`60 of 7: {"tool_calls":[{"id":"call_1","name":"reserve","arguments":{"sku":"A"}},{"id":"call_2","name":"price","arguments":{}}],"usage":{"input_tokens":44,"output_tokens":7,"cached_tokens":32,"reasoning_tokens":2},"stop_reason":"tool_calls"}`,
		`65 of 2: {"text":"Part","error":{"code":"server_error","message":"The server had an error while processing your request"}}`,
	},
	"api-gemini-made": {
		`6 of 4: {"thoughts":"**Plan**\n","text":"I will ","tool_calls":[{"id":"fn-2","name":"reserve","arguments":{"sku":"A-7","qty":2}},{"id":"fn-3","name":"price","arguments":{}}],"usage":{"input_tokens":12,"output_tokens":30,"cached_tokens":8,"reasoning_tokens":9},"stop_reason":"STOP"}`,
		`11 of 2: {"text":"Well, ","usage":{"input_tokens":7,"output_tokens":2},"stop_reason":"SAFETY"}`,
	},
	"api-openai-realtime-made": {
		`22 of 11: {"text":"The quay is free.","usage":{"input_tokens":119,"output_tokens":13,"cached_tokens":64},"stop_reason":"completed"}`,
		`50 of 18: {"text":"tide tide tide tide tide tide tide tide tide tide tide ","usage":{"input_tokens":119,"output_tokens":13,"cached_tokens":64},"stop_reason":"client_cancelled"}`,
		`44 of 0: {"event_id":"event_0000710a1b2c3d4e","type":"error"`,
		`58 of 2: {"usage":{"input_tokens":119,"output_tokens":13,"cached_tokens":64},"error":{`,
	},
	"api-gemini-live-made": {`11 of 0: {"serverContent":{"turnComplete":true}`},
	"mcp-http": {
		`4 of 0: {"result":{"protocolVersion":"2025-11-25"`, `13 of 0: {"result":`, `19 of 0: {"result":`, `22 of 0: {"result":`, `29 of 0: {"result":`,
		`34 of 0, without its end: {"method":"notifications/progress"`, // it was cancelled
	},
}

// The answer of a model in events is joined from them: its text, its tool calls, its usage and how it
// ended. Any other answer is its last frame with a payload, whatever ends the stream.
func TestAnswersAreJoined(t *testing.T) {
	for name, answers := range joinedAnswers {
		r, err := decode.OpenRecording(fixtures.Session(name), decode.Config{})
		if err != nil {
			t.Fatal(err)
		}
		s := New(Options{})
		if err := s.Take(t.Context(), decode.Input{Capture: r}, decode.Config{Workers: 1}); err != nil {
			t.Fatal(err)
		}
		exchanges := s.Follow(new(Cursor), 0).Exchanges
		for i, want := range answers {
			d := s.AnswerUpTo(exchanges[i].Last)
			cut := map[bool]string{true: ", without its end"}[d.Part]
			if got := fmt.Sprintf("%d of %d%s: %s", d.Seq, d.Joined, cut, d.JSON); !strings.HasPrefix(got, want) || d.Missing {
				t.Errorf("%s: the answer is\n%.900s, want\n%s", name, got, want)
			}
		}
		s.Close()
		_ = r.Close() // it was read
	}
}

// A secret that came in two events is hidden once they are joined.
func TestJoinedAnswerHidesSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "answer.sse")
	if err := os.WriteFile(file, []byte(`data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"use ghp_0123456789abcdef"}}]}

data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"0123456789abcdef0123"}}]}

data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]

`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := New(Options{})
	defer s.Close()
	v := &Viewing{Name: file, Opener: &source.Opener{}, Store: s, Config: decode.Config{Workers: 1}}
	if err := v.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	v.Run(t.Context())
	x := s.Follow(new(Cursor), 0).Exchanges[0]
	if d := s.AnswerUpTo(x.Last); d.Joined != 3 || strings.Contains(string(d.JSON), "ghp_") || !strings.Contains(string(d.JSON), `"text":"use [`) {
		t.Errorf("%d events: %s", d.Joined, d.JSON)
	}
	if d := s.AnswerUpTo(4); d.Joined != 2 || !d.Part {
		t.Errorf("%d events, without its end %v: %s", d.Joined, d.Part, d.JSON)
	}
	if r, err := s.Request(x.First); err == nil {
		t.Errorf("a request that was not recorded is sent by %s", r.Command(nil))
	}
}
