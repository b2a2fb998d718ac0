package web_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/web"
)

// page returns the page of what a controller said, and the data in it.
func page(t *testing.T, title, stream string) (html string, data map[string]any) {
	t.Helper()
	return pageOf(t, title, decode.Input{Stream: strings.NewReader(stream)})
}

func pageOf(t *testing.T, title string, in decode.Input) (html string, data map[string]any) {
	t.Helper()
	s := store.New(web.Kept)
	defer s.Close()
	if err := s.Take(t.Context(), in, decode.Config{Workers: 1, Resync: true}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := web.Write(&out, s, title, "", []string{"mcp"}); err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?s)<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>`).FindSubmatch(out.Bytes())
	if found == nil {
		t.Fatal("no data in the page")
	}
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(found[1])))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(&data); err != nil {
		t.Fatal(err)
	}
	return out.String(), data
}

// What the wire says is data and never markup, whatever it looks like.
func TestNothingFromTheWireIsMarkup(t *testing.T) {
	const evil = `</script><img src=x onerror=alert(1)><!--`
	html, data := page(t, evil, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"+`{"jsonrpc":"2.0","id":"`+evil+`","method":"`+evil+`","params":{"a":"{{js}}{{css}}`+evil+"\xff\"}}\n")
	if strings.Contains(html, "<img") || strings.Contains(html, "{{") {
		t.Errorf("text of the wire is markup:\n%s", html[:2000])
	}
	if strings.Count(html, "<script") != 2 || strings.Count(html, "</script>") != 2 {
		t.Error("there are other scripts than the page's own")
	}
	frames := data["frames"].(map[string]any)
	if id := frames["id"].([]any)[1]; id != `"`+evil+`"` {
		t.Errorf("id %q", id)
	}
	if p := frames["payload"].([]any)[1].(string); !strings.Contains(p, evil) && !strings.HasPrefix(p, "hex:") {
		t.Errorf("payload %q", p)
	}
}

// The page asks nobody for anything.
func TestNothingIsFetched(t *testing.T) {
	html, _ := page(t, "session", `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n")
	if found := regexp.MustCompile(`(?i)https?://|src=|href="|@import|url\(|XMLHttpRequest|innerHTML|insertAdjacent|document\.write|eval\(`).FindString(html); found != "" {
		t.Errorf("the page has %q", found)
	}
	if !strings.Contains(html, "default-src 'none'; script-src 'sha256-") {
		t.Error("the page has no policy")
	}
}

// A session without frames is a page too.
func TestEmpty(t *testing.T) {
	_, data := page(t, "nothing", "")
	for _, key := range []string{"exchanges", "findings", "frames"} { // the page takes none for a list
		if data[key] != nil {
			t.Errorf("%s is %v", key, data[key])
		}
	}
	if about := data["about"].(map[string]any); about["frames"] != 0.0 {
		t.Errorf("it has %v frames", about["frames"])
	}
}

// Of a long session the page has the end, and says how much is left out.
func TestLongSession(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out a long session: CI runs the race detector with it, and the whole test without")
	}
	const calls, large = 40_000, 2000
	var stream strings.Builder
	for n := range calls {
		fmt.Fprintf(&stream, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s"}}`+"\n", n, strings.Repeat("x", 20_000*min(1, n/(calls-large))))
	}
	_, data := page(t, "long", stream.String())
	frames := data["frames"].(map[string]any)
	payloads := frames["payload"].([]any)
	kept, size := len(data["exchanges"].([]any)), 0
	for _, p := range payloads {
		size += len(p.(string))
	}
	about := data["about"].(map[string]any)
	if gone := int(about["gone"].(float64)); gone == 0 || kept+gone != calls || kept > web.Kept.Exchanges {
		t.Errorf("%d exchanges are shown, %d left out, of %d", kept, gone, calls)
	}
	if dropped := int(about["dropped"].(float64)); dropped == 0 || len(payloads)+dropped != calls || len(payloads) > web.Kept.Frames {
		t.Errorf("%d frames are shown, %d left out, of %d", len(payloads), dropped, calls)
	}
	if untold := about["untold"]; untold == nil || size > 20<<20 {
		t.Errorf("%d bytes of payloads are shown, and %v left out", size, untold)
	}
}

// Ticks of the axis read differently, however small its steps are.
func TestTicksDiffer(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip(err)
	}
	html, _ := page(t, "session", "")
	tick := regexp.MustCompile(`(?s)function tick\(.*?\n}\n`).FindString(html)
	for asked, want := range map[string]string{
		"0.5e6, 1e5":          "500ms 600ms 700ms",
		"2e6, 100":            "2.0000s 2.0001s 2.0002s",
		"602e6, 1e5":          "10m2.0s 10m2.1s 10m2.2s",
		"119999999.9999, 5e6": "2m0s 2m5s 2m10s",
		"-200, 100":           "-200µs -100µs 0µs",
	} {
		const print = "; const f = (at, step) => console.log([0, 1, 2].map((i) => tick(at + i * step, step)).join(' ')); f("
		got, err := exec.Command(node, "-e", tick+print+asked+")").CombinedOutput()
		if err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%s: %s, want %s (%v)", asked, got, want, err)
		}
	}
}

// What is asked for has its name, each failure looks like one, and an exchange that belongs
// to an operation stands after it.
func TestOperations(t *testing.T) {
	_, data := page(t, "operations", `{"jsonrpc":"2.0","id":0,"method":"tools/list"}
{"jsonrpc":"2.0","id":0,"result":{"tools":[{"name":"slow","inputSchema":{}},{"name":"unused"}]}}
{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{}}}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"bad","arguments":{}}}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"job","arguments":{}}}
{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"Request timed out"}}
{"jsonrpc":"2.0","id":2,"result":{"isError":true,"content":[]}}
{"jsonrpc":"2.0","id":3,"result":{"resultType":"task","taskId":"k","status":"working"}}
{"jsonrpc":"2.0","id":4,"method":"ping"}
{"jsonrpc":"2.0","id":4,"result":{}}
{"jsonrpc":"2.0","id":5,"method":"tasks/get","params":{"taskId":"k"}}
{"jsonrpc":"2.0","id":5,"result":{"taskId":"k","status":"completed"}}
`)
	var got []string
	for _, e := range data["exchanges"].([]any) {
		x := e.(map[string]any)
		got = append(got, fmt.Sprint(x["id"], " ", x["name"], " ", x["state"], " ", x["outcome"], " ", x["of"], " ", x["reason"]))
	}
	want := []string{
		"0 <nil> done done <nil> <nil>", "1 slow failed timed-out? <nil> Request timed out", "2 bad failed tool-error <nil> <nil>",
		"3 job done done <nil> <nil>", "4 <nil> done done <nil> <nil>", "5 <nil> done done 4 <nil>",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the exchanges are\n%q, want\n%q", got, want)
	}
	got = nil
	for _, e := range data["stats"].(map[string]any)["names"].([]any) {
		n := e.(map[string]any)
		got = append(got, fmt.Sprint(n["name"], " ", n["calls"], " ", n["errors"], " ", n["definition_bytes"]))
	}
	if want = []string{"slow 1 1 32", "bad 1 1 <nil>", "job 1 0 <nil>", "unused 0 0 17"}; !slices.Equal(got, want) {
		t.Errorf("the names are %q, want %q", got, want)
	}
	if tools := fmt.Sprint(data["stats"].(map[string]any)["tools"]); tools != "map[count:2 definition_bytes:49 definition_tokens_estimate:12]" {
		t.Errorf("the tools are %s", tools)
	}
}

// A cancelled call took as long as its caller waited, however long progress came after that;
// its lane goes on.
func TestCancelledCallTook(t *testing.T) {
	r, err := decode.OpenRecording(fixtures.Session("mcp-everything"), decode.Config{Resync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, data := pageOf(t, "cancelled", decode.Input{Capture: r})
	for _, e := range data["exchanges"].([]any) {
		x := e.(map[string]any)
		if x["id"] != "8" {
			continue
		}
		took, lane := x["took"].(float64), x["end"].(float64)-x["opened"].(float64)
		if x["outcome"] != "cancelled" || math.Round(took/1e4) != 130 || math.Round(lane/1e4) != 601 {
			t.Errorf("%v: took %v, and its lane has %v", x["outcome"], took, lane)
		}
		return
	}
	t.Error("there is no call 8")
}

// The page has the tokens and the cost of each operation, and of all.
func TestUsage(t *testing.T) {
	_, data := page(t, "usage", `{"type":"user","message":{"role":"user","content":"x"}}
{"type":"result","subtype":"success","is_error":false,"session_id":"s","result":"y","total_cost_usd":0.02,"usage":{"input_tokens":12,"output_tokens":4}}
{"type":"user","message":{"role":"user","content":"x"}}
{"type":"result","subtype":"success","is_error":false,"session_id":"s","result":"y","total_cost_usd":0.05}
`)
	got := fmt.Sprint(data["stats"].(map[string]any)["usage"])
	for _, x := range data["exchanges"].([]any) {
		got += fmt.Sprint(" ", x.(map[string]any)["usage"])
	}
	if want := "[12 0 4 50000] [12 0 4 20000] [0 0 0 30000]"; got != want {
		t.Errorf("%s was used, want %s", got, want)
	}
}

// Of names without number the page has some.
func TestNamesAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out a long session: CI runs the race detector with it, and the whole test without")
	}
	var stream strings.Builder
	for n := range 20_000 {
		fmt.Fprintf(&stream, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t%d"}}`+"\n", n, n)
	}
	_, data := page(t, "names", stream.String())
	if n := len(data["stats"].(map[string]any)["names"].([]any)); n != 1000 {
		t.Errorf("the page has %d names", n)
	}
}

// A report has the command of each call, without secrets, and the joined answers of models.
func TestReportHasCommandsAndAnswers(t *testing.T) {
	in, err := decode.OpenRecording(fixtures.Session("api-anthropic-made"), decode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	_, data := pageOf(t, "models", decode.Input{Capture: in})
	x := data["exchanges"].([]any)[2].(map[string]any)
	command, answer := fmt.Sprint(x["command"]), fmt.Sprint(x["answer"])
	if !strings.HasPrefix(command, "curl -X POST http://127.0.0.1:18579/v1/messages ") || !strings.Contains(command, "'authorization: [redacted]'") {
		t.Errorf("the command is %s", command)
	}
	if !strings.Contains(answer, `"text":"I will reserve it."`) || x["events"] != 29.0 {
		t.Errorf("the answer of %v events is %s", x["events"], answer)
	}
	_, data = page(t, "calls", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"token":"ghp_0123456789abcdef0123456789abcdef0123"}}}`+"\n"+
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"`+strings.Repeat("x", 20_000)+`"}}`+"\n")
	for i, want := range []string{`wirectl send mcp tools/call '{"name":"a","arguments":{"token":"[redacted]"}}' ENDPOINT`, "<nil>"} {
		if got := fmt.Sprint(data["exchanges"].([]any)[i].(map[string]any)["command"]); got != want {
			t.Errorf("the command is %s, want %s", got, want)
		}
	}
}

// A report has the connections, how they ended, and what the server wrote to its standard
// error.
func TestReportHasPeers(t *testing.T) {
	r, err := decode.OpenRecording(fixtures.Session("mcp-everything"), decode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, data := pageOf(t, "session", decode.Input{Capture: r})
	got, err := json.Marshal(data["peers"])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"name":"node node_modules/@modelcontextprotocol/server-everything/dist/index.js"`, `"state":"exit status 0"`, `"up":27`, `"kind":"stderr","text":"Starting default (STDIO) server...`} {
		if !bytes.Contains(got, []byte(want)) {
			t.Errorf("the report lacks %s:\n%s", want, got)
		}
	}
}

// The page has what models were given, with the tokens of the provider, and opens with it if asked to.
func TestContexts(t *testing.T) {
	in, err := decode.OpenRecording(fixtures.Session("api-openai-made"), decode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, data := pageOf(t, "models", decode.Input{Capture: in})
	calls := data["contexts"].(map[string]any)["calls"].([]any)
	if len(calls) != 5 {
		t.Fatalf("%d calls", len(calls))
	}
	first := calls[0].(map[string]any)
	if user := first["parts"].(map[string]any)["user"].(map[string]any); first["input_tokens"] != 900.0 || first["cached_tokens"] != 768.0 || user["tokens_estimate"] != 900.0 {
		t.Errorf("the first call is %v", first)
	}
}
