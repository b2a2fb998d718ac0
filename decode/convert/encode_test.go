package convert_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
)

func protocolNamed(t *testing.T, name string) protocol.Protocol {
	t.Helper()
	p, err := all.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLinesBecomeFrames(t *testing.T) {
	latis := protocolNamed(t, "latis")
	for _, c := range []struct {
		name, in, want string
		cfg            convert.EncodeConfig
	}{
		{"a record says how it is framed", `{"seq":1,"framing":"len32","payload":{"a":1}}`, "\x00\x00\x00\x07{\"a\":1}", convert.EncodeConfig{}},
		{"a payload is verbatim", `{"framing":"line","payload":{"b":1, "b" : 1e400}}`, "{\"b\":1, \"b\" : 1e400}\n", convert.EncodeConfig{}},
		{"raw wins over everything", `{"framing":"len32","payload":{},"raw":"AAE="}`, "\x00\x01", convert.EncodeConfig{}},
		{"also when it is empty", `{"framing":"len32","raw":""}`, "", convert.EncodeConfig{}},
		{"flags win over the record", `{"framing":"len32","payload":{}}`, "{}\n", convert.EncodeConfig{Framing: frame.Line}},
		{"the protocol tells the usual framing", `{"protocol":"lsp","payload":{}}`, "Content-Length: 2\r\n\r\n{}", convert.EncodeConfig{}},
		{"JSON becomes protobuf", `{"protocol":"latis","payload":{"id":"2","stateGet":{}}}`, "\x00\x00\x00\x05\x0a\x012b\x00", convert.EncodeConfig{}},
		{"a bare payload", `{"id":"2","stateGet":{}}`, "\x05\x0a\x012b\x00", convert.EncodeConfig{Framing: frame.Varint, Protocol: latis}},
		{"an unknown key makes it bare", `{"payload":{},"jsonrpc":"2.0"}`, "{\"payload\":{},\"jsonrpc\":\"2.0\"}\n", convert.EncodeConfig{Framing: frame.Line}},
		{"blank lines are nothing", "\n \n" + `{"framing":"line","payload":1}` + "\n\n", "1\n", convert.EncodeConfig{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := convert.Encode(t.Context(), strings.NewReader(c.in), &out, c.cfg); err != nil {
				t.Fatal(err)
			}
			if out.String() != c.want {
				t.Errorf("%q, want %q", out.String(), c.want)
			}
		})
	}
}

// A line that cannot be encoded is named by its number, and the frames before
// it are written.
func TestErrorsNameTheLine(t *testing.T) {
	const good = `{"framing":"line","payload":1}` + "\n"
	for bad, want := range map[string]string{
		`{"framing":"nope","payload":1}`:                      `line 3: unknown framing "nope"`,
		`{"protocol":"nope","payload":1}`:                     `line 3: unknown protocol "nope"`,
		`{"framing":"line","raw":"=="}`:                       `line 3: raw: `,
		`{"framing":"line","payload":1,"seq":"x"}`:            `line 3: seq: "\"x\"" is not an integer`,
		`{"framing":"line","payload":1,"dir":"up"}`:           `line 3: dir: `,
		`{"framing":"line","payload":1,"time":"noon"}`:        `line 3: time: `,
		`{"framing":"len32","protocol":"latis","payload":[]}`: `line 3: `,
		`{"framing":`:   `line 3: invalid JSON`,
		`{"payload":1}`: `line 3: the framing of this payload is unknown`,
		`[1,2]`:         `line 3: the framing of this payload is unknown`,
	} {
		var out bytes.Buffer
		err := convert.Encode(t.Context(), strings.NewReader(good+"\n"+bad+"\n"+good), &out, convert.EncodeConfig{})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", bad, err, want)
		}
		if out.String() != "1\n" {
			t.Errorf("%s: wrote %q", bad, out.String())
		}
	}
}

// Blank lines count, however many there are.
func TestErrorsCountBlankLines(t *testing.T) {
	for _, blank := range []string{"\n", "\r\n", "          \n"} {
		err := convert.Encode(t.Context(), strings.NewReader(strings.Repeat(blank, 200_000)+"[1,2]\n"), io.Discard, convert.EncodeConfig{})
		if err == nil || !strings.HasPrefix(err.Error(), "line 200001: ") {
			t.Errorf("%.4q: %v", blank, err)
		}
	}
}

// What decode wrote of a frame for which its limit was raised is read without a word
// of that: a line may be a good deal longer than the default limit of a payload.
func TestLongLines(t *testing.T) {
	payload := `"` + strings.Repeat("a", 65<<20) + `"`
	var out bytes.Buffer
	if err := convert.Encode(t.Context(), strings.NewReader(payload), &out, convert.EncodeConfig{Framing: frame.Line}); err != nil {
		t.Fatal(err)
	}
	if out.Len() != len(payload)+1 {
		t.Errorf("%d bytes", out.Len())
	}
}

func TestWriteErrorsAreReturned(t *testing.T) {
	gone := errors.New("gone")
	err := convert.Encode(t.Context(), strings.NewReader(`{"framing":"line","payload":1}`), failing{gone}, convert.EncodeConfig{})
	if !errors.Is(err, gone) {
		t.Error(err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
