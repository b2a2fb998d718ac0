package provider_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/broker/provider"
)

// counting is a backend with OpenAI's API that counts the tokens of a stream if asked.
// Models named old reject that option, those named wrong reject everything, and those named
// mute reject everything without an explanation.
type counting struct {
	chunks []string
	bodies chan string
}

// asked returns the bodies of the requests since the previous call.
func (k *counting) asked() (list []string) {
	for len(k.bodies) > 0 {
		list = append(list, <-k.bodies)
	}
	return list
}

func (k *counting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	body := string(raw)
	k.bodies <- body
	optional := strings.Contains(body, "stream_options")
	switch {
	case strings.Contains(body, `"mute"`):
		w.WriteHeader(http.StatusBadRequest)
	case strings.Contains(body, `"wrong"`):
		refuse(w, "messages")
	case optional && strings.Contains(body, `"old`):
		refuse(w, "stream_options")
	default:
		for _, chunk := range k.chunks {
			fmt.Fprintf(w, "data: %s\n\n", chunk)
		}
	}
}

func refuse(w http.ResponseWriter, param string) {
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(w, `{"error":{"message":"no","param":%q}}`, param)
}

const question = `{"model":"a","messages":[],"stream":true}`

// stream asks for a stream, and returns the client's chunks.
func (k *counting) stream(t *testing.T, p *provider.OpenAI, model, chat string) (got []string, u provider.Usage, err error) {
	t.Helper()
	var c provider.Completion
	r := provider.Request{Model: model, Body: []byte(chat), Emit: func(p provider.Part) error {
		got = append(got, string(p.Event))
		return nil
	}}
	if chat == "" {
		r.Body, r.Prompt = nil, []byte(`"hi"`)
	}
	err = p.Complete(t.Context(), &r, &c)
	return got, c.Usage, err
}

func startCounting(t *testing.T, chunks ...string) (*counting, *provider.OpenAI) {
	t.Helper()
	k := &counting{chunks, make(chan string, 8)}
	server := httptest.NewServer(k)
	p := provider.NewOpenAI(provider.Config{BaseURL: server.URL})
	t.Cleanup(func() {
		p.CloseIdleConnections()
		server.Close()
	})
	return k, p
}

// The tokens of a stream are counted even if its client did not ask for that, and the
// client gets the same chunks.
func TestStreamsAreCounted(t *testing.T) {
	counted := []string{
		`{"choices":[],"filter":[1],"usage":null}`,
		`{"choices":[{"delta":{"content":"a"}}],"usage":null,"x":1}`,
		`{"usage":null, "choices":[{"delta":{"content":"b"}}]}`,
		`{ "choices": [{"delta":{},"finish_reason":"stop"}], "usage" : null }`,
		`{"usage":null}`,
		`{"choices":[{"delta":{}}],"usage":{"prompt_tokens":1}}`,
		`{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}`,
		`[DONE]`,
	}
	bare := []string{
		`{"choices":[],"filter":[1]}`,
		`{"choices":[{"delta":{"content":"a"}}],"x":1}`,
		`{"choices":[{"delta":{"content":"b"}}]}`,
		`{ "choices": [{"delta":{},"finish_reason":"stop"}] }`,
		`{}`,
		`{"choices":[{"delta":{}}],"usage":{"prompt_tokens":1}}`, // usage in a chunk with an answer stays
	}
	const (
		optional = `{"stream_options":{"include_usage":true},"model":"a","messages":[],"stream":true}`
		prompt   = `{"stream_options":{"include_usage":true},"model":"a","messages":[{"role":"user","content":"hi"}],"stream":true}`
		declined = `{"model":"a","messages":[],"stream":true,"stream_options":{"include_usage":false}}`
	)
	for _, tt := range []struct {
		chat, asked string
		want        []string
	}{
		{question, optional, bare},
		{"", prompt, bare},
		{optional, optional, counted[:len(counted)-1]},
		{declined, strings.Replace(declined, "false", "true", 1), bare},
		{strings.Replace(declined, `{"include_usage":false}`, "null", 1), strings.Replace(declined, "false", "true", 1), bare},
	} {
		k, p := startCounting(t, counted...)
		got, usage, err := k.stream(t, p, "a", tt.chat)
		asked := k.asked()
		if err != nil || usage != (provider.Usage{Input: 7, Output: 3}) || !slices.Equal(got, tt.want) || !slices.Equal(asked, []string{tt.asked}) {
			t.Errorf("%s: %v, %+v, asked %s\n got %s\nwant %s", tt.chat, err, usage, asked, got, tt.want)
		}
	}
}

// A backend that rejects the option is called again without it, and later calls of that
// model omit it at once. Other errors are reported as usual.
func TestStreamsOfOldBackends(t *testing.T) {
	k, p := startCounting(t, `{"choices":[{"delta":{},"finish_reason":"stop"}]}`, `{"choices":[],"usage":{"prompt_tokens":7}}`, "[DONE]")
	for _, tt := range []struct {
		model string
		asked int // requests
		told  int // chunks for the client
	}{{"old-1", 2, 2}, {"old-1", 1, 2}, {"old-2", 2, 2}, {"new", 1, 1}, {"wrong", 1, 0}, {"mute", 2, 0}, {"mute", 2, 0}, {"new", 1, 1}} {
		got, _, err := k.stream(t, p, tt.model, question)
		asked := k.asked()
		var pe *provider.Error
		if len(asked) != tt.asked || len(got) != tt.told || (err != nil) != (tt.told == 0) || (errors.As(err, &pe) && pe.Cause != provider.Refused) {
			t.Errorf("%s: asked %s, got %s, %v", tt.model, asked, got, err)
		}
		if last := asked[len(asked)-1]; tt.model != "new" && tt.model != "wrong" && strings.Contains(last, "stream_options") {
			t.Errorf("%s: asked %s", tt.model, last)
		}
	}
}

// A cut stream passes on everything that arrived. A stream that ends without a count is
// complete.
func TestStreamsWithoutCount(t *testing.T) {
	part, last := `{"choices":[{"delta":{"content":"a"}}],"usage":null}`, `{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":null}`
	k, p := startCounting(t, part, last)
	if got, usage, err := k.stream(t, p, "a", question); err != nil || len(got) != 2 || usage != (provider.Usage{}) {
		t.Errorf("got %s, %+v, %v", got, usage, err)
	}
	k, p = startCounting(t, part)
	got, _, err := k.stream(t, p, "a", question)
	var pe *provider.Error
	if !errors.As(err, &pe) || pe.Cause != provider.Unreachable || !slices.Equal(got, []string{`{"choices":[{"delta":{"content":"a"}}]}`}) {
		t.Errorf("got %s, %v", got, err)
	}
}
