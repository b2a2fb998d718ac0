package capture_test

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/latis"
)

// keep is a writer that keeps the last record.
type keep struct{ capture.Record }

func (k *keep) Write(r *capture.Record) error {
	k.Record = r.Clone()
	return nil
}

func redact(t *testing.T, x capture.Redaction, r capture.Record) capture.Record {
	t.Helper()
	var k keep
	before := r.Clone()
	if err := capture.Redact(&k, &capture.Session{Framing: "len32"}, x).Write(&r); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before.Raw, r.Raw) || !bytes.Equal(before.Text, r.Text) {
		t.Error("the record that was passed in has changed")
	}
	return k.Record
}

func framed(t *testing.T, f frame.Framing, payload string) frame.Frame {
	t.Helper()
	raw, err := frame.Append(nil, f, []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	end := len(raw)
	if f == frame.Line || f == frame.Nul {
		end--
	}
	return frame.Frame{Raw: raw, Start: end - len(payload), End: end}
}

// Secrets are removed from JSON, and nothing else changes.
func TestRedactJSON(t *testing.T) {
	x := capture.Secrets()
	x.Values = append(x.Values, regexp.MustCompile(`4\d{15}`))
	for in, want := range map[string]string{
		`{ "b" : 1.0, "b":"x\u00e9"  }`:                                                       `{ "b" : 1.0, "b":"x\u00e9"  }`,
		`{"password":"p\"w","n":1}`:                                                           `{"password":"[redacted]","n":1}`,
		`{"Api_Key" : 12.5e3 , "n": null}`:                                                    `{"Api_Key" : "[redacted]" , "n": null}`,
		`{"X-API-KEY":["a",{"b":"c"}],"d":"e"}`:                                               `{"X-API-KEY":["[redacted]",{"b":"[redacted]"}],"d":"e"}`,
		`{"env":{"OPENAI_API_KEY":"k","HOME":"/"}}`:                                           `{"env":{"OPENAI_API_KEY":"[redacted]","HOME":"/"}}`,
		`{"progressToken":"7","max_tokens":5}`:                                                `{"progressToken":"7","max_tokens":5}`,
		`{"token":null,"a":["x"],"token":true}`:                                               `{"token":null,"a":["x"],"token":true}`,
		`["Bearer abcdefgh12345678","bearer of"]`:                                             `["[redacted]","bearer of"]`,
		`"say sk-0123456789abcdefgh\n, risk-free"`:                                            `"say [redacted]\n, risk-free"`,
		`{"card 4111111111111111":"4111111111111111"}`:                                        `{"card 4111111111111111":"[redacted]"}`,
		`{"text":"{\"secret\":\"a\", \"b\":1}"}`:                                              `{"text":"{\"secret\":\"[redacted]\", \"b\":1}"}`,
		`{"pass\u0077ord":"p"}`:                                                               `{"pass\u0077ord":"[redacted]"}`,
		`{"dbPassword":"p","openaiApiKey":"k"}`:                                               `{"dbPassword":"[redacted]","openaiApiKey":"[redacted]"}`,
		`{"s3Secret":"s","userAPIKey":"k"}`:                                                   `{"s3Secret":"[redacted]","userAPIKey":"[redacted]"}`,
		`{"args":["OPENAI_API_KEY=k","-v"]}`:                                                  `{"args":["OPENAI_API_KEY=[redacted]","-v"]}`,
		`["Authorization: Basic k","Cookies: b"]`:                                             `["Authorization: [redacted]","Cookies: b"]`,
		`{"maxTokens":1,"tokenType":"a","inputTokens":2,"publicKey":"b","nextPageToken":"c"}`: `{"maxTokens":1,"tokenType":"a","inputTokens":2,"publicKey":"b","nextPageToken":"c"}`,
	} {
		for _, framing := range frame.Framings() {
			r := redact(t, x, capture.Record{Framing: framing.Name(), Frame: framed(t, framing, in)})
			if got := string(r.Payload()); got != want {
				t.Errorf("%s\n got %s\nwant %s", in, got, want)
			}
			if !frame.Exact(framing, &r.Frame) {
				t.Errorf("%s: %s: the frame %q does not hold its payload", in, framing.Name(), r.Raw)
			}
		}
	}
}

// A secret can get a name, which is the same wherever it is.
func TestRedactNames(t *testing.T) {
	x := capture.Secrets()
	x.Name = func(secret []byte) string {
		return map[string]string{"abc": "secret-1", "7": "secret-2"}[string(secret)]
	}
	const in = `{"token":"abc","n":{"secret":["\u0061bc",7,"d"]},"text":"?token=abc&x=1 {","json":"{\"token\":\"abc\"}"}`
	const want = `{"token":"secret-1","n":{"secret":["secret-1","secret-2","[redacted]"]},"text":"?token=secret-1&x=1 {","json":"{\"token\":\"secret-1\"}"}`
	if got := redact(t, x, capture.Record{Framing: "line", Frame: framed(t, frame.Line, in)}); string(got.Payload()) != want {
		t.Errorf("got %s", got.Payload())
	}
	if got := redact(t, x, capture.Record{Frame: frame.Frame{Raw: []byte("token=abc"), Gap: true}}); string(got.Raw) != "token=***" {
		t.Errorf("got %s", got.Raw)
	}
}

// The progress token of LSP is a name, and a session is hard to understand without it.
func TestRedactKeepsProtocolNames(t *testing.T) {
	const in = `{"method":"$/progress","params":{"token":"t1","password":"p"}}`
	r := redact(t, capture.Secrets(), capture.Record{Protocol: "lsp", Frame: framed(t, frame.Len32, in)})
	if got := string(r.Payload()); got != strings.Replace(in, `"p"`, `"[redacted]"`, 1) {
		t.Error(got)
	}
}

// Payloads that are not JSON keep their length, so that the wire can still be parsed.
func TestRedactBytes(t *testing.T) {
	secret := "sk-0123456789abcdefgh"
	stars := strings.Repeat("*", len(secret))
	entry := "\x0a\x09x-api-key\x12\x03abc"
	for name, test := range map[string]struct {
		frame frame.Frame
		want  string
	}{
		"protobuf":   {framed(t, frame.Len32, "\x0a\x15"+secret+"\xff"), "\x00\x00\x00\x18\x0a\x15" + stars + "\xff"},
		"map entry":  {framed(t, frame.Len32, "\x12\x10"+entry+"\xff"), "\x00\x00\x00\x13\x12\x10" + entry[:13] + "***\xff"},
		"cut entry":  {framed(t, frame.Len32, "\x0a\x05token\x12\x7fab"), "\x00\x00\x00\x0b\x0a\x05token\x12\x7f**"},
		"compressed": {frame.Frame{Raw: []byte("\x01\x00\x00\x00\x02zz"), Start: 5, End: 7, Compressed: true}, "\x01\x00\x00\x00\x02**"},
		"gap":        {frame.Frame{Raw: []byte("api_key=abc; ok\n"), Gap: true}, "api_key=***; ok\n"},
	} {
		if r := redact(t, capture.Secrets(), capture.Record{Frame: test.frame}); string(r.Raw) != test.want {
			t.Errorf("%s:\n got %q\nwant %q", name, r.Raw, test.want)
		}
	}
}

// In protobuf with a known schema, names are those of the fields. A protocol is known by its
// name, by the path of a call, by the given option, or by the payload.
func TestRedactProtobuf(t *testing.T) {
	const (
		in   = `{"id":"1","promptSend":{"content":"hi","metadata":{"api_key":"abc","n":"sk-0123456789abcdefgh"}}}`
		want = `{"id":"1","promptSend":{"content":"hi","metadata":{"api_key":"[redacted]","n":"[redacted]"}}}`
	)
	payload, err := latis.Protocol.AppendPayload(nil, []byte(in))
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]capture.Record{
		"named":      {Protocol: "latis"},
		"recognized": {Protocol: "bytes"},
	} {
		for _, framing := range []frame.Framing{frame.Len32, frame.GRPC, frame.Varint} {
			r.Framing, r.Frame = framing.Name(), framed(t, framing, string(payload))
			clean := redact(t, capture.Secrets(), r)
			got, _, err := latis.Protocol.AppendJSON(nil, clean.Payload())
			if string(got) != want || err != nil {
				t.Errorf("%s, %s: got %s, %v", name, framing.Name(), got, err)
			}
			if !frame.Exact(framing, &clean.Frame) {
				t.Errorf("%s: the frame %q does not hold its payload", framing.Name(), clean.Raw)
			}
		}
	}
}

// Each frame that cannot be searched for keys is reported, and a note is written once.
// Without keys there is nothing to report.
func TestRedactBlind(t *testing.T) {
	for name, tt := range map[string]struct {
		protocol, payload string
		blind             int
	}{
		"protobuf without a schema": {"protobuf", "\x0a\x03abc", 2},
		"bytes":                     {"bytes", "\xff\x00", 2},
		"latis, not understood":     {"latis", "\xff\x00", 2},
		"latis with another field":  {"latis", "\x0a\x011b\x00\xba\x3e\x03abc", 2},
		"latis":                     {"latis", "\x0a\x011b\x00", 0},
		"nothing":                   {"protobuf", "", 0},
		"text":                      {"bytes", "a line", 0},
	} {
		for _, keys := range []int{0, 1} {
			var kept []capture.Record
			blind := 0
			x := capture.Redaction{Keys: []string{"key"}[:keys], Blind: func(*capture.Record) { blind++ }}
			w := capture.Redact(writerFunc(func(r *capture.Record) { kept = append(kept, r.Clone()) }), &capture.Session{}, x)
			for range 2 {
				r := capture.Record{Protocol: tt.protocol, Frame: framed(t, frame.Len32, tt.payload)}
				if err := w.Write(&r); err != nil {
					t.Fatal(err)
				}
			}
			if blind != keys*tt.blind {
				t.Errorf("%s, %d keys: told of %d frames", name, keys, blind)
			}
			if noted := len(kept) == 3 && kept[0].Kind == capture.Note; noted != (blind > 0) {
				t.Errorf("%s, %d keys: kept %d records", name, keys, len(kept))
			}
		}
	}
}

type writerFunc func(r *capture.Record)

func (f writerFunc) Write(r *capture.Record) error { f(r); return nil }

// Logs, command lines and flaws can contain secrets, too.
func TestRedactText(t *testing.T) {
	for in, want := range map[string]string{
		"GET /?token=abc&x=1":                          "GET /?token=[redacted]&x=1",
		"authorization: Basic dXNlcg== \n":             "authorization: [redacted] \n",
		"run --openai-api-key k1 --model m":            "run --openai-api-key [redacted] --model m",
		`password: "hunter2", user: "me"`:              `password: "[redacted]", user: "me"`,
		`password="a \"b\", c" user='me'`:              `password="[redacted]" user='me'`,
		`passwd='a b', password="cut`:                  `passwd='[redacted]', password="[redacted]`,
		"Cookie: a=b; session=c\r\nX: y":               "Cookie: [redacted]\r\nX: y",
		"Authorization: Token abc\nok":                 "Authorization: [redacted]\nok",
		`Authorization: Digest a="b", c="d"`:           "Authorization: [redacted]",
		`curl -H "Authorization: Token a" b`:           `curl -H "Authorization: [redacted]" b`,
		`curl -H 'cookie: a=b; c=d' e`:                 `curl -H 'cookie: [redacted]' e`,
		`{"authorization": "Token a, b", "c": 1`:       `{"authorization": "[redacted]", "c": 1`,
		"GET /?cookie=a HTTP/1.1":                      "GET /?cookie=[redacted] HTTP/1.1",
		"https://me:abc@host/ http://[::1]:80/@":       "https://me:[redacted]@host/ http://[::1]:80/@",
		"redis://:abc@host/ http://host:80 a@b":        "redis://:[redacted]@host/ http://host:80 a@b",
		"/m?key=abc&x=1&X-Goog-Signature=abc /key=abc": "/m?key=[redacted]&x=1&X-Goog-Signature=[redacted] /key=abc",
		"dbPassword=p s3Secret: q":                     "dbPassword=[redacted] s3Secret: [redacted]",
		`{"userAPIKey": "a b", openaiApi_key=k`:        `{"userAPIKey": "[redacted]", openaiApi_key=[redacted]`,
		"nextPageToken=a mypassword=b maxTokens=1":     "nextPageToken=a mypassword=b maxTokens=1",
		"myAccessToken=a tokenType=b":                  "myAccessToken=[redacted] tokenType=b",
		"Cookie=a=b; session=c; d\nok":                 "Cookie=[redacted]; d\nok",
		"set-cookie = a=b;c=d, user=me":                "set-cookie = [redacted], user=me",
		"cookie=abc==; user=me":                        "cookie=[redacted]; user=me",
		"GET /?cookie=a=b&x=1 HTTP/1.1":                "GET /?cookie=[redacted]&x=1 HTTP/1.1",
		"the password is not here, nor any token":      "the password is not here, nor any token",
	} {
		flaw := errors.New(in)
		r := redact(t, capture.Secrets(), capture.Record{Kind: capture.Stderr, Text: []byte(in), Frame: frame.Frame{Flaw: flaw}})
		if string(r.Text) != want || r.Flaw.Error() != want {
			t.Errorf("%s\n got %s, %v\nwant %s", in, r.Text, r.Flaw, want)
		}
	}
}

// The lines of an HTTP head contain secrets in their values, not only under secret names. The
// remaining bytes no longer contain them.
func TestRedactHead(t *testing.T) {
	raw := []byte("GET /v1/models?api_key=abc&x=1 HTTP/1.1\r\nReferer: http://h/?access_token=abc\r\nX-Api-Key: abc\r\n\r\n")
	r := redact(t, capture.Secrets(), capture.Record{Framing: frame.HTTP, Frame: frame.Frame{Raw: raw, Start: len(raw), End: len(raw), Meta: &frame.Meta{
		Framing: frame.HTTP, Signal: frame.Request, Head: &frame.Head{Start: "GET /v1/models?api_key=abc&x=1 HTTP/1.1", Fields: []frame.Field{
			{Name: "Referer", Value: "http://h/?access_token=abc"}, {Name: "X-Api-Key", Value: "abc"},
		}},
	}}})
	want := &frame.Head{Start: "GET /v1/models?api_key=[redacted]&x=1 HTTP/1.1", Fields: []frame.Field{
		{Name: "referer", Value: "http://h/?access_token=[redacted]"}, {Name: "x-api-key", Value: "[redacted]"},
	}}
	if diff := cmp.Diff(want, r.Meta.Head); diff != "" {
		t.Error(diff)
	}
	if bytes.Contains(r.Raw, []byte("abc")) {
		t.Errorf("the bytes are %q", r.Raw)
	}
}

// Compressed data can hide secrets. The bytes of a compressed event may include other events,
// so only the payload is kept.
func TestRedactCompressedEvents(t *testing.T) {
	for _, payload := range []string{`{"delta":"a"}`, ""} {
		f := frame.Frame{Raw: []byte("all that came at once"), Stream: 1, Meta: &frame.Meta{Framing: frame.HTTP, Encoding: "gzip", Apart: true, Data: []byte(payload)}}
		got := redact(t, capture.Secrets(), capture.Record{Kind: capture.Frame, Framing: frame.HTTP, Frame: f})
		if string(got.Raw) != payload || string(got.Payload()) != payload {
			t.Errorf("%q is kept of the bytes, with the payload %q", got.Raw, got.Payload())
		}
	}
}

// A redacted capture is marked as redacted.
func TestRedactSession(t *testing.T) {
	s := capture.Session{Unit: "unit --token abc", Comment: "fine", Altered: true}
	want := capture.Session{Unit: "unit --token [redacted]", Comment: "fine", Altered: true, Redacted: true}
	if diff := cmp.Diff(want, capture.Secrets().Session(s)); diff != "" {
		t.Error(diff)
	}
	s.Redacted = true
	if diff := cmp.Diff(s, (capture.Redaction{}).Session(s)); diff != "" {
		t.Error(diff)
	}
}

// Valid JSON stays valid, no secret string remains after its key, and a payload without
// secrets does not change.
func FuzzRedact(f *testing.F) {
	f.Add([]byte(`{"password":["a",{"b":1}],"x":"Bearer 0123456789"}`))
	f.Add([]byte(`{"t":"{\"secret\":\"\\u0061\"}"}`))
	f.Add([]byte("\x0a\x05token\x12\x7fab"))
	f.Fuzz(func(t *testing.T, payload []byte) {
		r := capture.Record{Framing: "len32", Frame: framed(t, frame.Len32, string(payload))}
		if same := redact(t, capture.Redaction{}, r); !bytes.Equal(same.Raw, r.Raw) {
			t.Errorf("%q became %q for no reason", r.Raw, same.Raw)
		}
		clean := redact(t, capture.Secrets(), r)
		if !frame.Exact(frame.Len32, &clean.Frame) {
			t.Errorf("bad frame %q", clean.Raw)
		}
		if jsonscan.Valid(payload) != nil {
			var m protocol.Message
			if len(clean.Raw) != len(r.Raw) && (latis.Protocol.Parse(payload, &m) != nil || latis.Protocol.Parse(clean.Payload(), &m) != nil) {
				t.Errorf("the length of %q changed", payload)
			}
			return
		}
		if err := jsonscan.Valid(clean.Payload()); err != nil {
			t.Errorf("%q became %q: %v", payload, clean.Payload(), err)
		}
		if again := redact(t, capture.Secrets(), clean); !bytes.Equal(again.Raw, clean.Raw) {
			t.Errorf("%q leaves %q to be redacted", payload, clean.Payload())
		}
	})
}
