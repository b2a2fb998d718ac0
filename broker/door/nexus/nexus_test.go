package nexus_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/nexus"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/test/kit/doortest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t testing.TB, p provider.Provider, shutdown func()) string {
	return serve(t, doortest.Broker(t, p), shutdown)
}

func serve(t testing.TB, b *broker.Broker, shutdown func()) string {
	return "http://" + doortest.Serve(t, nexus.New(b, nil, "", shutdown))
}

func post(t testing.TB, url, body string) (int, string) {
	t.Helper()
	status, _, answer := doortest.Ask(t, http.MethodPost, url, body, nil)
	return status, answer
}

func TestMethods(t *testing.T) {
	var shutdowns atomic.Int64
	url := start(t, nil, func() { shutdowns.Add(1) })
	for _, tt := range []struct {
		send   string
		status int
		want   string
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"get_context"}`, 200, `{"jsonrpc":"2.0","id":1,"result":{"message_count":0,"system_prompt":false}}`},
		{`{"jsonrpc":"2.0","id":"a\u00e9","method":"send","params":{"content":"hi","request_id":"r1"}}`, 200, `{"jsonrpc":"2.0","id":"a\u00e9","result":{"content":"Echo: hi","request_id":"r1"}}`},
		{`{"jsonrpc":"2.0","id":9007199254740993,"method":"send","params":{"content":"yo","request_id":7}}`, 200, `{"jsonrpc":"2.0","id":9007199254740993,"result":{"content":"Echo: yo","request_id":7}}`},
		{`{"jsonrpc":"2.0","id":1,"method":"get_context","params":{}}`, 200, `{"jsonrpc":"2.0","id":1,"result":{"message_count":4,"system_prompt":false}}`},
		{`{"jsonrpc":"2.0","id":1,"method":"get_tokens"}`, 200, `{"jsonrpc":"2.0","id":1,"result":{"system":0,"tools":0,"messages":36,"total":36,"budget":200000,"available":199964}}`},
		{`{"jsonrpc":"2.0","id":1,"method":"cancel","params":{"request_id":"r1"}}`, 200, `{"jsonrpc":"2.0","id":1,"result":{"cancelled":false,"request_id":"r1","reason":"not_found_or_completed"}}`},
		{`{"jsonrpc":"2.0","method":"send","params":{"content":"quiet"}}`, 200, ``},
		{`{"jsonrpc":"2.0","id":null,"method":"nothing"}`, 200, ``},
		{`{"jsonrpc":"2.0","id":1,"method":"nothing"}`, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found: nothing"}}`},
		{`{"jsonrpc":"2.0","id":1,"method":"send"}`, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Missing required parameter: content"}}`},
		{`{"jsonrpc":"2.0","id":1,"method":"send","params":{"content":5}}`, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"content must be string, got: int"}}`},
		{`{"jsonrpc":"2.0","id":1,"method":"send","params":{"content":null}}`, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"content must be string, got: NoneType"}}`},
		{`{"jsonrpc":"2.0","id":1,"method":"cancel","params":{"request_id":1.5}}`, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"request_id must be string or integer, got: float"}}`},
		{`{"jsonrpc":"2.0","id":1,"method":"send","params":["x"]}`, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"params must be an object"}}`},
		{`{"jsonrpc":"2.0","id":1.5,"method":"send"}`, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"id must be a string, an integer or null"}}`},
		{`{"jsonrpc":"1.0","id":1,"method":"send"}`, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"jsonrpc must be \"2.0\""}}`},
		{`{"jsonrpc":"2.0","id":1}`, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"method must be a string"}}`},
		{` [{"jsonrpc":"2.0","id":1,"method":"send"}]`, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Batches are not supported"}}`},
		{`7`, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Request must be an object"}}`},
		{`{`, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`},
		{`"` + strings.Repeat("x", 1<<20) + `"`, 413, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Request body too large (max 1048576 bytes)"}}`},
		{`{"jsonrpc":"2.0","id":1,"method":"shutdown"}`, 200, `{"jsonrpc":"2.0","id":1,"result":{"success":true}}`},
	} {
		if status, body := post(t, url+"/rpc", tt.send); status != tt.status || body != tt.want {
			t.Errorf("%.200s:\n got %d %s\nwant %d %s", tt.send, status, body, tt.status, tt.want)
		}
	}
	if shutdowns.Load() != 1 {
		t.Errorf("%d shutdowns", shutdowns.Load())
	}
	if status, body := post(t, url+"/nowhere", "{}"); status != 404 || !json.Valid([]byte(body)) {
		t.Errorf("nowhere: %d %s", status, body)
	}
}

// If a token is set, clients without it can use neither the conversation nor the shutdown.
func TestToken(t *testing.T) {
	var shutdowns atomic.Int64
	s := nexus.New(doortest.Broker(t, nil), nil, "nxk_1", func() { shutdowns.Add(1) })
	url := "http://" + doortest.Serve(t, s)
	const refused = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Unauthorized: show the broker's token as Authorization: Bearer TOKEN"}}`
	for _, path := range []string{"/", "/rpc", "/agent/a"} {
		status, body := post(t, url+path, `{"jsonrpc":"2.0","id":1,"method":"shutdown"}`)
		if status != http.StatusUnauthorized || body != refused {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if n := shutdowns.Load(); n != 0 {
		t.Errorf("%d shutdowns", n)
	}
}

// The answer to a cancelled send has the text generated so far.
func TestCancel(t *testing.T) {
	p := doortest.NewHeld()
	url := start(t, p, nil)
	answer := make(chan string, 1)
	go func() {
		_, body := post(t, url, `{"jsonrpc":"2.0","id":1,"method":"send","params":{"content":"long","request_id":"r"}}`)
		answer <- body
	}()
	call := <-p.Calls
	if err := call.Emit(provider.Part{Delta: llm.Delta{Text: []byte(`"so \"far"`)}}); err != nil {
		t.Error(err)
	}
	_, body := post(t, url, `{"jsonrpc":"2.0","id":2,"method":"cancel","params":{"request_id":"r"}}`)
	if want := `{"jsonrpc":"2.0","id":2,"result":{"cancelled":true,"request_id":"r"}}`; body != want {
		t.Errorf("\n got %s\nwant %s", body, want)
	}
	if got, want := <-answer, `{"jsonrpc":"2.0","id":1,"result":{"content":"so \"far","request_id":"r","cancelled":true}}`; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if err := <-call.Ended; err != broker.ErrCancelled {
		t.Errorf("the call ended with %v", err)
	}
}

// FuzzBody checks that every body gets JSON, or nothing.
func FuzzBody(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"send","params":{"content":"hi","request_id":"r1"}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"x","method":"cancel","params":{"request_id":1}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"create_agent","params":{"agent_id":"a","system_prompt":"b","initial_message":"c"}}`))
	f.Add([]byte(`[]`))
	b := doortest.Broker(f, nil)
	f.Fuzz(func(t *testing.T, body []byte) {
		s := nexus.New(b, nil, "", func() {}) // a new one each time, because the conversation would grow
		if status, out := doortest.Post(s, "/", body); len(out) > 0 && !json.Valid(out) {
			t.Fatalf("%q: %s %s", body, status, out)
		}
	})
}
