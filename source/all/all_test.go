package all_test

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/source"
	"github.com/wirectl/wirectl/source/all"
)

// files has a file of each form, as programs have written it.
var files = os.DirFS("../../test/testdata/files")

// formOf are the forms by the beginnings of the names of files.
var formOf = [][2]string{
	{"aisdk-ui-stream.sse", "events"},
	{"bunyan.log", "log"},
	{"claude-code/projects/-home-user-project/adf0d08a-3370-4c9c-810a-3410263a0aa6/subagents/agent-a5106edf2c425c8d7.meta", ""},
	{"claude-code/", "claude-code"},
	{"cline-messages", "cline"},
	{"codex/", "codex"},
	{"copilot/", "copilot"},
	{"curl-", "events"},
	{"gemini/", "gemini-chat"},
	{"har/", "har"},
	{"lsp-trace-json", "lsp-json"},
	{"lsp-trace-text", "lsp-text"},
	{"made/claude", "mcp-log"},
	{"made/lsp", "lsp-text"},
	{"made/mcp-inspector", "mcp-inspector"},
	{"made/", "log"},
	{"mitmproxy", "mitmproxy"},
	{"opencode-export", "opencode"},
	{"opencode.db", "opencode-db"},
	{"otlp", "otlp"},
	{"pcap/tls.keys", "tls-keys"},
	{"pcap/", "pcap"},
	{"pino.log", "log"},
	{"qwen/", "qwen-chat"},
}

// Each file has the form of its program, and no other. A form without a reader says what to do.
func TestDetect(t *testing.T) {
	each(t, func(name string, text []byte) {
		want := ""
		for _, f := range formOf {
			if strings.HasPrefix(name, f[0]) {
				want = f[1]
				break
			}
		}
		h := all.Unpacked(head(text))
		got := ""
		for _, f := range all.List() {
			if f.Matches(h) {
				got = strings.TrimPrefix(got+" "+f.Name, " ")
			}
		}
		if got != want {
			t.Errorf("%s is %q: want %q", name, got, want)
		}
	})
	for _, f := range all.List() {
		if f.About == "" || f.Open == nil && f.Instead == "" {
			t.Errorf("%s does not say what to do", f.Name)
		}
	}
}

// Lines of logs and of protocols have some of the members that forms have.
func TestDetectNot(t *testing.T) {
	for _, text := range []string{
		`{"type":"user","message":{"role":"user","content":"hi"},"session_id":"s","uuid":"u"}`,
		`{"timestamp":"t","type":"session_meta","payload":{}}`,
		`{"sessionId":"s","projectHash":"h"}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","time":1}` + "\n" + `{"jsonrpc":"2.0","id":1,"result":{},"time":2}`,
		`{"time":1,"message":{"jsonrpc":"2.0","id":1}}`,
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 10\r\n\r\ndata: {}\n\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
		"data: hello\n\n", "GET / HTTP/1.1\r\n\r\n", "7:content", "\x28\xb5\x2f\xfd", "[]", "{", "",
		"\x0a\x0d\x0d\x0a\xff\xff\xff\xff\x4d\x3c\x2b\x1a\x01\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00\x00\x00\x00\x00\x00",
	} {
		if f := all.Detect(head([]byte(text))); f != nil {
			t.Errorf("%q is %s", text, f.Name)
		}
	}
}

// The first member of an archive may be longer than what is examined. A long line of a log is none.
func TestDetectLong(t *testing.T) {
	for _, member := range []string{"comment", "message"} {
		f := all.Detect(head([]byte(`{"log":{"` + member + `":"` + strings.Repeat("x", source.HeadSize) + `","version":"1.2","entries":[]}}`)))
		if isArchive := f != nil && f.Name == "har"; isArchive != (member == "comment") {
			t.Errorf("a log with a long %s is %v", member, f)
		}
	}
}

// Detection gives an answer for any beginning of a file.
func FuzzDetect(f *testing.F) {
	each(f, func(_ string, text []byte) { f.Add(text[:min(len(text), 4<<10)]) })
	f.Fuzz(func(_ *testing.T, text []byte) {
		h := head(text)
		all.Detect(h)
		all.Nearest(h)
	})
}

func each(t testing.TB, use func(name string, text []byte)) {
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err == nil {
			use(name, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func head(text []byte) *source.Head {
	return &source.Head{Bytes: text[:min(len(text), source.HeadSize)], Whole: len(text) <= source.HeadSize}
}
