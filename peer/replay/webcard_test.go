package replay_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/replay"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/transport"
)

// Cards of an agent at AT, in versions 0.3 and 1.0. The URL of the provider is not its own.
const (
	card03 = `{"provider":{"url":"http://old:81/"},"url":"AT/agent","additionalInterfaces":[{"url":"AT","transport":"JSONRPC"}],"defaultInputModes":[],"skills":[]}`
	card10 = `{"skills":[],"defaultInputModes":[],"supportedInterfaces":[{"url":"AT/agent","protocolBinding":"HTTP+JSON"},{"url":"grpc-host:1"}],"documentationUrl":"http://old:81/"}`
)

// A unit of A2A puts its own address into its card, and the client's ids into its answers,
// also for a second client, whose task has an id of its own. A client takes the card of an agent with another address, and the
// ids that this agent makes up.
func TestWebCard(t *testing.T) {
	const task = `{"task":{"id":"NAME","contextId":"CONTEXT","status":{"state":"TASK_STATE_COMPLETED"},"history":[{"messageId":"MESSAGE"},{"messageId":"ANSWER","parts":[{"text":"about ANSWER"}]}]}}`
	for _, tt := range []struct {
		name     string
		protocol protocol.Protocol
		card     string
		wrapped  string // a card or a task in an answer
		sending  string // a request
		path     string
	}{
		{"JSON-RPC", jsonrpc.A2A, card03, `{"jsonrpc":"2.0","id":1,"result":WRAPPED}`, `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"MESSAGE","contextId":"CONTEXT"}}}`, "/agent"},
		{"REST", opaque.JSON, card10, "WRAPPED", `{"message":{"messageId":"MESSAGE","contextId":"CONTEXT"}}`, "/agent/message:send"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			say := func(text string, pairs ...string) string {
				return strings.NewReplacer(pairs...).Replace(strings.ReplaceAll(tt.wrapped, "WRAPPED", text))
			}
			recorded := `c2u 1 1 GET /.well-known/agent-card.json
u2c 1 1 ` + strings.ReplaceAll(tt.card, "AT", "http://old:81") + `
c2u 1 2 POST ` + tt.path + ` ` + strings.NewReplacer("MESSAGE", "m1", "CONTEXT", "c1").Replace(tt.sending) + `
u2c 1 2 ` + say(task, "NAME", "t1", "CONTEXT", "c1", "MESSAGE", "m1", "ANSWER", "a1")
			script := talkedIn(t, tt.protocol, recorded).WebScripts(frame.U2C)[0]
			address, _ := serveWeb(t, replay.NewRepeater([]*replay.Script{script}, nil), script.Schemes()[0], replay.Options{Match: replay.Matcher{Exact: true}}, 1)
			for i, id := range []string{"mine", "theirs"} {
				if _, got := ask(t, "GET", address+"/.well-known/agent-card.json", ""); got != strings.ReplaceAll(tt.card, "AT", address) {
					t.Errorf("the card is %s", got)
				}
				_, got := ask(t, "POST", address+tt.path, strings.NewReplacer("MESSAGE", id, "CONTEXT", "of "+id).Replace(tt.sending))
				if want := say(task, "NAME", []string{"t1", "t1-1"}[i], "CONTEXT", "of "+id, "MESSAGE", id, "ANSWER", "a1"); got != want {
					t.Errorf("the answer is %s, want %s", got, want)
				}
			}

			agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					_, _ = io.WriteString(w, strings.ReplaceAll(tt.card, "AT", "http://"+r.Host))
					return
				}
				_, _ = io.WriteString(w, say(task, "NAME", "t2", "CONTEXT", "c1", "MESSAGE", "m1", "ANSWER", "a2"))
			}))
			defer agent.Close()
			script = talkedIn(t, tt.protocol, recorded).WebScripts(frame.C2U)[0]
			conn, err := script.Schemes()[0].Dial(t.Context(), agent.URL, transport.Options{})
			if err != nil {
				t.Fatal(err)
			}
			here := <-start(t.Context(), script, conn, replay.Options{Side: frame.C2U, Match: replay.Matcher{Exact: true}, Timeout: time.Minute})
			here.check(t, "controller")
		})
	}
}
