//nolint:bodyclose // ask closes bodies
package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A site is a page that is served, and a browser that has opened it.
type site struct {
	*testing.T
	server  *web.Server
	address string // http://HOST:PORT
	cookie  string
	browser *http.Client
}

// serve serves standard input until the test ends.
func serve(t *testing.T, stdin io.Reader, o web.Options) *site {
	t.Helper()
	o.Listen, o.Only = "127.0.0.1:0", "-"
	o.Library = &web.Local{Opener: &source.Opener{Stdin: stdin, Getenv: func(string) string { return "" }}, Only: o.Only}
	ctx, stop := context.WithCancel(context.Background())
	server, err := web.Listen(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- server.Serve(ctx) }()
	transport := &http.Transport{}
	s := &site{t, server, "", "", &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	s.address, _, _ = strings.Cut(server.URL(), "/?")
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

// enter shows the token.
func (s *site) enter() *site {
	s.Helper()
	r, _ := s.ask("GET", s.server.URL(), nil, "")
	if r.StatusCode != http.StatusSeeOther {
		s.Fatalf("the token gives %s", r.Status)
	}
	s.cookie = r.Cookies()[0].Name + "=" + r.Cookies()[0].Value
	return s
}

// ask sends a request, to the server if address is a path, and returns all of the answer.
func (s *site) ask(method, address string, header http.Header, body string) (*http.Response, string) {
	s.Helper()
	r := s.open(method, address, header, body)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		s.Fatal(err)
	}
	return r, string(text)
}

func (s *site) open(method, address string, header http.Header, body string) *http.Response {
	s.Helper()
	if strings.HasPrefix(address, "/") {
		address = s.address + address
	}
	q, err := http.NewRequestWithContext(s.Context(), method, address, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	for name, values := range header {
		q.Header[name] = values
	}
	q.Host = header.Get("Host")
	if s.cookie != "" {
		q.Header.Set("Cookie", s.cookie)
	}
	r, err := s.browser.Do(q)
	if err != nil {
		s.Fatal(err)
	}
	return r
}

// An event is what a page is told.
type event struct {
	Reset  bool
	Secret string
	About  struct {
		Frames, Exchanges int64
		Error             string
		Live              bool
	}
	Frames    struct{ Seq []int64 }
	Exchanges []struct{ ID, State string }
	Skipped   int64
}

// events reads the stream of a session: next is called for each until it returns false.
func (s *site) events(session string, next func(event) bool) {
	s.Helper()
	r := s.open("GET", "/api/events?session="+url.QueryEscape(session), nil, "")
	defer r.Body.Close()
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			s.Fatal(err)
		}
		if !next(e) {
			return
		}
	}
	s.Fatalf("the stream ends: %v", lines.Err())
}

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// The token of the printed address becomes a cookie that scripts and other sites do not
// get, and leaves the address.
func TestTokenBecomesCookie(t *testing.T) {
	s := serve(t, strings.NewReader(""), web.Options{})
	for _, path := range []string{"/", "/session/-", "/api/events?session=-", "/?token=other", "/?token="} {
		if r, text := s.ask("GET", path, nil, ""); r.StatusCode != http.StatusForbidden || strings.Contains(text, "<") {
			t.Errorf("%s without the token: %s %s", path, r.Status, text)
		}
	}
	token := strings.TrimPrefix(s.server.URL(), s.address+"/")
	r, _ := s.ask("GET", "//session/-"+token, nil, "")
	cookies := r.Cookies()
	if r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/session/-" || len(cookies) != 1 {
		t.Fatalf("%s to %q, with %v", r.Status, r.Header.Get("Location"), cookies)
	}
	c := cookies[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || strings.Contains(token, c.Value) {
		t.Errorf("the cookie is %v", c)
	}
	s.cookie = c.Name + "=" + c.Value
	if r, _ := s.ask("GET", "/", nil, ""); r.Header.Get("Location") != "/session/-" {
		t.Errorf("the page of one session is at %q", r.Header.Get("Location"))
	}
	r, text := s.ask("GET", "/session/-", nil, "")
	if r.StatusCode != http.StatusOK || !strings.Contains(text, "<title>") {
		t.Errorf("%s %.200s", r.Status, text)
	}
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'sha256-", "X-Content-Type-Options": "nosniff",
		"Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
	} {
		if got := r.Header.Get(name); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if policy := r.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "; connect-src 'self'; ") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %q", policy)
	}
}

// A page of another server gets nothing, even if the name of that leads here and the
// browser has the cookie.
func TestOtherPagesGetNothing(t *testing.T) {
	s := serve(t, strings.NewReader(""), web.Options{Control: true}).enter()
	port := s.address[strings.LastIndexByte(s.address, ':'):]
	for _, test := range []struct {
		path   string
		header http.Header
		want   int
	}{
		{"/session/-", nil, 200},
		{"/session/-", header("Host", "localhost"+port), 200},
		{"/session/-", header("Host", "127.0.0.1:8080"), 200}, // a port that is forwarded
		{"/session/-", header("Host", "[::1]"+port), 200},
		{"/session/-", header("Host", "evil.example"+port), 421},
		{"/session/-", header("Host", "127.0.0.1.evil.example"), 421},
		{"/session/-", header("Host", "10.1.2.3"), 421},
		{"/api/stats?session=-", header("Host", "evil.example"), 421},
		{"/api/stats?session=-", header("Origin", s.address), 200},
		{"/api/stats?session=-", header("Origin", "http://evil.example"), 403},
		{"/api/stats?session=-", header("Origin", "null"), 403},
		{"/api/stats?session=-", header("Origin", "http://127.0.0.1:1"), 403},
		{"/api/events?session=-", header("Origin", "http://evil.example"), 403},
		{"/api/events?session=-", header("Host", "evil.example", "Origin", "http://evil.example"), 421},
		{"/api/events?session=-", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"), 403},
		{"/api/events?session=-", header("Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate"), 403},
		{"/session/-", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"), 200}, // a link
		{"/session/-", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"), 403},
	} {
		r := s.open("GET", test.path, test.header, "")
		r.Body.Close()
		if r.StatusCode != test.want {
			t.Errorf("%s with %v: %s, want %d", test.path, test.header, r.Status, test.want)
		}
	}
}

// A command needs the right, the page's secret and its origin.
func TestCommandsNeedTheirRight(t *testing.T) {
	const release = `{"do":"release","held":1}`
	looks := serve(t, strings.NewReader(""), web.Options{}).enter()
	if r, text := looks.ask("POST", "/api/do?session=-", header("Origin", looks.address), release); r.StatusCode != 403 || !strings.Contains(text, "--control") {
		t.Errorf("without the right: %s %s", r.Status, text)
	}
	looks.events("-", func(e event) bool {
		if e.Secret != "" {
			t.Error("a page without the right has the secret")
		}
		return false
	})
	s := serve(t, strings.NewReader(""), web.Options{Control: true}).enter()
	var secret string
	s.events("-", func(e event) bool {
		secret = e.Secret
		return false
	})
	for _, test := range []struct {
		header http.Header
		body   string
		want   int
	}{
		{header("Origin", s.address), release, 403},
		{header("Origin", s.address, "Wirectl-Secret", "other"), release, 403},
		{header("Wirectl-Secret", secret), release, 403},
		{header("Origin", "http://evil.example", "Wirectl-Secret", secret), release, 403},
		{header("Origin", s.address, "Wirectl-Secret", secret), "no JSON", 400},
		{header("Origin", s.address, "Wirectl-Secret", secret), release, 409}, // standard input takes no commands
	} {
		if r, text := s.ask("POST", "/api/do?session=-", test.header, test.body); r.StatusCode != test.want {
			t.Errorf("%v %s: %s %s, want %d", test.header, test.body, r.Status, text, test.want)
		}
	}
}

// A request of a record goes only to an address, and only from a page that may send: nothing that a
// page names is started.
func TestRepeatStartsNothing(t *testing.T) {
	ask := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n" + `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n"
	var sent []string
	o := web.Options{Control: true, Speaks: []string{"mcp"}, Repeat: func(_ context.Context, args []string) (string, error) {
		sent = append(sent, strings.Join(args, " "))
		return `{"tools":[]}`, nil
	}}
	s := serve(t, strings.NewReader(ask), o).enter()
	var secret string
	s.events("-", func(e event) bool {
		if e.Secret != "" {
			secret = e.Secret
		}
		return e.About.Live
	})
	for _, test := range []struct {
		body, want string
		header     http.Header
	}{
		{`{"seq":1,"text":" http://127.0.0.1:1/mcp "}`, `{"answer":"{\"tools\":[]}"}`, nil},
		{`{"seq":1,"text":"node server.js"}`, "a page starts no program", nil},
		{`{"seq":1,"text":"exec sh -c id"}`, "a page starts no program", nil},
		{`{"seq":1,"text":"mine://x"}`, "a page starts no program", nil}, // latis-connector-mine would start
		{`{"seq":1,"text":"--record=http://x"}`, "a page starts no program", nil},
		{`{"seq":1,"text":"-- sh http://x"}`, "a page starts no program", nil},
		{`{"seq":1,"text":"http://x/y -c id"}`, "a page starts no program", nil}, // the words of a command
		{`{"seq":1,"text":"http:"}`, "a page starts no program", nil},
		{`{"seq":9,"text":"http://127.0.0.1:1/"}`, "no longer kept", nil},
		{`no JSON`, "want a command", nil},
		{`{"seq":1,"text":"http://127.0.0.1:1/"}`, "the page has no such command", header("Origin", s.address)},
		{`{"seq":1,"text":"http://127.0.0.1:1/"}`, "the page has no such command", header("Wirectl-Secret", secret)},
		{`{"seq":1,"text":"http://127.0.0.1:1/"}`, "from another page", header("Origin", "http://evil.example", "Wirectl-Secret", secret)},
	} {
		if test.header == nil {
			test.header = header("Origin", s.address, "Wirectl-Secret", secret)
		}
		if r, text := s.ask("POST", "/api/repeat?session=-", test.header, test.body); !strings.Contains(text, test.want) {
			t.Errorf("%v %s: %s %s, want %s", test.header, test.body, r.Status, text, test.want)
		}
	}
	if got := strings.Join(sent, "\n"); got != "send mcp tools/list http://127.0.0.1:1/mcp" {
		t.Errorf("sent %s", got)
	}
	o.Repeat = nil
	s = serve(t, strings.NewReader(ask), o).enter()
	s.events("-", func(e event) bool {
		secret = e.Secret
		return false
	})
	if _, text := s.ask("POST", "/api/repeat?session=-", header("Origin", s.address, "Wirectl-Secret", secret), `{"seq":1,"text":"http://x"}`); !strings.Contains(text, "this page sends no requests") {
		t.Errorf("without the right: %s", text)
	}
}

// Others than this machine are listened to only if that was said.
func TestListensOnLoopback(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", ":0", "[::]:0", "example.com:0", "nonsense"} {
		if s, err := web.Listen(t.Context(), web.Options{Listen: listen}); err == nil {
			t.Errorf("%s: listens at %s", listen, s.URL())
		}
	}
}

// A page gets each frame once, as it comes, and exchanges as they change; what it asks for
// is of the session that it shows.
func TestPageFollows(t *testing.T) {
	out, in := io.Pipe()
	defer in.Close()
	s := serve(t, out, web.Options{Speaks: []string{"mcp"}}).enter()
	say := func(line string) {
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Error(err)
		}
	}
	go say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"find","text":"needle"}}`)
	var seqs []int64
	asked := 0
	s.events("-", func(e event) bool {
		if e.Reset != (asked == 0) {
			t.Errorf("event %d: reset %v", asked, e.Reset)
		}
		asked++
		seqs = append(seqs, e.Frames.Seq...)
		for _, x := range e.Exchanges {
			switch x.State {
			case "in-flight":
				go say(`{"jsonrpc":"2.0","id":1,"result":{}}`)
			case "done":
				return false
			}
		}
		return true
	})
	if got := fmt.Sprint(seqs); got != "[1 2]" {
		t.Errorf("the frames are %s", got)
	}
	for path, want := range map[string]string{
		"/api/frame?session=-&seq=1":                    `{\"jsonrpc\":\"2.0\",\"id\":1,`,
		"/api/find?session=-&from=0&text=NEEDLE":        `{"found":[1],"next":3}`,
		"/api/find?session=-&from=2&text=needle":        `{"found":null,"next":3}`,
		"/api/frame?session=-&seq=2&answer=1":           `"joined":0,"kind":"result","missing":false,"offset":88,"part":false,"payload":"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"`,
		"/api/frame?session=-&seq=1&jq=.id,.jsonrpc":    `"payload":"1\n\"2.0\""`,
		"/api/frame?session=-&seq=1&jq=.[":              "jq: column 3",
		"/api/frame?session=-&seq=1&jq=last(repeat(1))": "jq: context deadline exceeded",
		"/api/command?session=-&seq=1":                  `{"address":"","command":"wirectl send mcp tools/call '{\"name\":\"find\",\"text\":\"needle\"}' ENDPOINT","method":"tools/call","refuses":"","server":""}`,
		"/api/command?session=-&seq=9":                  "no longer kept",
		"/api/stats?session=-":                          `"name":"find"`,
		"/api/sessions?words=":                          `[{"id":"-","name":"standard input"}]`,
		"/api/sessions?words=other":                     `[]`,
		"/api/frame?session=-&seq=x":                    "want the number of a frame",
		"/api/frame?session=-&seq=9":                    "no longer kept",
		"/api/frame?session=%2Fetc%2Fhosts&seq=1":       "no page shows this session",
	} {
		if _, text := s.ask("GET", path, nil, ""); !strings.Contains(text, want) {
			t.Errorf("%s: %.300s, want %s", path, text, want)
		}
	}
}

// A link opens what is listed, and no other file of this machine.
func TestOnlyListedSessionsOpen(t *testing.T) {
	s := serve(t, strings.NewReader(""), web.Options{}).enter()
	s.events("serve_test.go", func(e event) bool {
		if e.About.Error != "" && !strings.Contains(e.About.Error, `no session "serve_test.go"`) || e.About.Frames > 0 {
			t.Errorf("it shows %+v", e.About)
		}
		return e.About.Error == ""
	})
}

// A page that does not read is told how much it has missed, and nothing waits for it.
func TestSlowPage(t *testing.T) {
	const frames = 150_000
	out, in := io.Pipe()
	s := serve(t, out, web.Options{}).enter()
	slow := s.open("GET", "/api/events?session=-", nil, "")
	defer slow.Body.Close()
	lines := bufio.NewScanner(slow.Body)
	lines.Buffer(nil, 64<<20)
	lines.Scan() // the page follows from the first frame on
	go func() {
		w := bufio.NewWriter(in)
		for n := range frames {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}`+"\n", n)
		}
		_ = w.Flush()
		in.Close()
	}()
	s.events("-", func(e event) bool { return e.About.Live || e.About.Frames < frames })
	seen, skipped, newest := int64(0), int64(0), int64(0)
	for newest < frames && lines.Scan() {
		var e event
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatal(err)
			}
		}
		seen, skipped = seen+int64(len(e.Frames.Seq)), skipped+e.Skipped
		for _, seq := range e.Frames.Seq {
			newest = max(newest, seq)
		}
	}
	if skipped == 0 || seen+skipped != frames || newest != frames {
		t.Errorf("of %d frames %d are seen, to %d, and %d skipped: %v", frames, seen, newest, skipped, lines.Err())
	}
}

// Metrics are for all of this machine, but not for pages of others, and not of every server.
func TestMetrics(t *testing.T) {
	s := serve(t, strings.NewReader(""), web.Options{Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "up 1") })})
	if r, text := s.ask("GET", "/metrics", nil, ""); r.StatusCode != http.StatusOK || text != "up 1" {
		t.Errorf("got %s %q", r.Status, text)
	}
	for _, h := range []http.Header{header("Host", "evil.example"), header("Origin", "http://evil.example"), header("Sec-Fetch-Site", "cross-site")} {
		if r, text := s.ask("GET", "/metrics", h, ""); r.StatusCode < 400 || strings.Contains(text, "up") {
			t.Errorf("%v: got %s %q", h, r.Status, text)
		}
	}
	if r, _ := serve(t, strings.NewReader(""), web.Options{}).ask("GET", "/metrics", nil, ""); r.StatusCode != http.StatusForbidden {
		t.Errorf("without metrics: %s", r.Status)
	}
}
