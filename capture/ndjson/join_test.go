package ndjson_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/wirectl/wirectl/capture/ndjson"
)

// If the first record spans several lines, each record is put on one line. Nothing else
// changes.
func TestLines(t *testing.T) {
	for text, want := range map[string]string{
		"{\"a\":\n 1}\n{\n\"b\" : \"} \\\"{\\\\\",\r\n\"c\": [\n 1 ,\n2 ] }\n\n{\"d\":2}\n": "{\"a\":1}\n{\"b\":\"} \\\"{\\\\\",\"c\":[1,2]}\n\n{\"d\":2}\n",
		"\n {\n}":                "\n {}",
		"{\n\"a\":1 2, tru\ne}":  "{\"a\":1 2,tru e}", // not JSON
		"{\"a\":1}\n{\n}\n":      "{\"a\":1}\n{\n}\n", // a record on one line, and a broken one
		"{\"a\":1\n":             "{\"a\":1",          // cut off
		"}\n{\n}\n":              "}\n{\n}\n",
		"no JSON\n{\n}\n":        "no JSON\n{\n}\n",
		"{\"a\":\n1}} {\n\n}\n1": "{\"a\":1}} {}\n1",
		"":                       "",
	} {
		for _, r := range []io.Reader{strings.NewReader(text), iotest.HalfReader(strings.NewReader(text))} {
			got, err := io.ReadAll(iotest.OneByteReader(ndjson.Lines(r)))
			if err != nil || string(got) != want {
				t.Errorf("%q becomes %q, want %q (%v)", text, got, want, err)
			}
		}
	}
}

// Joining an indented value does not change its meaning.
func FuzzLines(f *testing.F) {
	f.Add(`{"a":"}\n\\","b":[{},"]"],"c":{"d":[]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var value map[string]any
		var indented, got, want bytes.Buffer
		if json.Unmarshal([]byte(text), &value) != nil || json.Indent(&indented, []byte(text), "", "  ") != nil {
			t.Skip()
		}
		line, err := io.ReadAll(ndjson.Lines(io.MultiReader(&indented, strings.NewReader("\n"))))
		if err != nil || bytes.Count(line, []byte("\n")) != 1 || json.Compact(&got, line) != nil || json.Compact(&want, []byte(text)) != nil || got.String() != want.String() {
			t.Errorf("%q became %q (%v)", text, line, err)
		}
	})
}
