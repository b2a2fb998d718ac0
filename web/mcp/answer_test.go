package mcp

import (
	"bytes"
	"encoding/json"
	"testing"
)

// Whatever a command prints, an answer is JSON, no larger than asked for, and shows at the level metadata only what the
// tool lists. A cursor that is followed comes to an end.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"frame":1,"name":"buy","error":"said","wire":"a\u2028<b>"}`+"\n"), 0, false)
	f.Add(append(bytes.Repeat([]byte(`{"verdict":"failed","answers":[{"verdict":"x","call":{"name":"n","text":"said"},"text":"said"}]}`+"\n"), 40), '{'), 3000, false)
	f.Add([]byte("{\"payload\":\"\xff\xfe"+string(bytes.Repeat([]byte("é"), 5000))+"\",\"seq\":1e999}\n[]\nnull\n{\"seq\":}\n"), 1, true)
	f.Add(bytes.Repeat([]byte(`{"session":"x","items":[{"text":"said","count":1}],"parts":{"user":{"said":1}},"verdict":{"cause":"c","text":"said"}}`+"\n"), 9), 2048, false)
	f.Fuzz(func(t *testing.T, printed []byte, most int, full bool) {
		for i := range tools {
			a := &args{MaxBytes: max(most, 0)}
			for at, pages := 0, 0; ; pages++ {
				p := &page{of: &tools[i], args: a, full: full, skip: at}
				p.total = max(a.maxBytes()-p.frugal(answer{Session: "run:abcdef", Level: "metadata"}), leastBytes/4)
				p.room = p.total
				_, _ = p.Write(printed) // it ends when it is full
				r := p.finish(answer{Session: "run:abcdef", Level: "metadata"})
				text, err := json.Marshal(r)
				if err != nil || len(text) > a.maxBytes() {
					t.Fatalf("%s: %d bytes of at most %d: %v: %s", tools[i].name, len(text), a.maxBytes(), err, text)
				}
				if !full && bytes.Contains(text, []byte(`"text":"said"`)) {
					t.Fatalf("%s: %s", tools[i].name, text)
				}
				if p.next == 0 {
					break
				}
				if p.next <= at || pages > len(printed) {
					t.Fatalf("%s: the page after %d begins at %d", tools[i].name, at, p.next)
				}
				if at = p.next; pages == 20 {
					break
				}
			}
		}
	})
}

// No text is taken for a cursor that was not given.
func FuzzCursor(f *testing.F) {
	f.Add((&cursor{"calls", &args{Session: "abcdef", Limit: 3}, 7}).String())
	f.Add("e30")
	f.Fuzz(func(t *testing.T, text string) {
		a := &args{Cursor: text}
		at, err := readCursor(text, "calls", a)
		if err == nil && (at <= 0 || a.Cursor != "" || a.check() != nil) {
			t.Errorf("%q is the cursor of %+v at %d", text, a, at)
		}
	})
}
