package fault

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/latis"
)

// messages are a call, its progress and its result, as lines.
var messages = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`,
	`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}`,
	`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":2}}`,
	`{"jsonrpc":"2.0","id":1,"result":{}}`,
}

func item(text string) *Item {
	it := &Item{}
	it.Read(&frame.Frame{Raw: []byte(text + "\n"), End: len(text), Dir: frame.U2C}, frame.Line, jsonrpc.MCP)
	return it
}

func plan(t *testing.T, rules ...string) *Plan {
	t.Helper()
	p := &Plan{Seed: 1}
	for _, text := range rules {
		r, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		p.Rules = append(p.Rules, r)
	}
	return p
}

// run says in words what a filter makes of the messages: the numbers of those
// that pass, from 1, as they are sent.
func run(f *Filter) string {
	var words []string
	say := func(steps []Step) {
		for _, s := range steps {
			words = append(words, step(s))
		}
	}
	for _, m := range messages {
		steps, _ := f.Apply(item(m))
		say(steps)
	}
	say(f.End())
	return strings.Join(words, " ")
}

func step(s Step) string {
	word := ""
	if s.Wait > 0 {
		word = s.Wait.String() + ":"
	}
	switch {
	case s.Cancel != nil:
		return word + "cancel(" + string(s.Cancel) + ")"
	case s.Close && s.Bytes == nil:
		return word + "close"
	}
	if i := slices.Index(messages, strings.TrimSuffix(string(s.Bytes), "\n")); i >= 0 {
		word += fmt.Sprint(i + 1)
	} else {
		word += fmt.Sprintf("%d bytes", len(s.Bytes))
	}
	if s.Close {
		word += " close"
	}
	return word
}

func TestFilter(t *testing.T) {
	for _, tt := range []struct {
		rules []string
		want  string
	}{
		{nil, "1 2 3 4"},
		{[]string{"drop nth 2"}, "1 3 4"},
		{[]string{"drop every 2"}, "1 3"},
		{[]string{"drop limit 3"}, "4"},
		{[]string{"drop when dir==c2u"}, "1 2 3 4"},
		{[]string{"drop when kind==result and id==1"}, "1 2 3"},
		{[]string{`drop when payload.params.progress>1`}, "1 2 4"},
		{[]string{"duplicate when kind==tools/call"}, "1 1 2 3 4"},
		{[]string{"reorder nth 1"}, "2 1 3 4"},
		{[]string{"reorder nth 4"}, "1 2 3 4"},
		{[]string{"delay 200ms nth 2"}, "1 200ms:2 3 4"},
		{[]string{"delay 1s nth 2", "duplicate nth 2"}, "1 1s:2 1s:2 3 4"},
		{[]string{"cut nth 3"}, "1 2 2 bytes close 4"},
		{[]string{"cut 1000 nth 4"}, "1 2 3 4 close"},
		{[]string{"split 20 nth 4"}, "1 2 3 20 bytes 2ms:17 bytes"},
		{[]string{"corrupt 3 nth 4"}, "1 2 3 37 bytes"},
		{[]string{"corrupt 1000"}, "1 2 3 4"},
		{[]string{"cancel 2"}, "1 2 3 cancel(7) 4"},
		{[]string{"close nth 4"}, "1 2 3 4 close"},
	} {
		if got := run(plan(t, tt.rules...).Filter(0, frame.U2C)); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.rules, got, tt.want)
		}
	}
}

// Ids are those of the records that decode writes: strings, where they are not JSON.
func TestIDsOfProtobuf(t *testing.T) {
	payload := "\x0a\x011\x62\x00" // {"id":"1","stateGet":{}}
	for condition, want := range map[string]bool{`id==1`: true, `id=="1"`: true, `id~"\""`: false, `id>0`: true, `ref!=1`: true} {
		it := &Item{}
		it.Read(&frame.Frame{Raw: []byte(payload), End: len(payload), Dir: frame.C2U}, frame.Len32, latis.Protocol)
		if _, done := plan(t, "drop when "+condition).Filter(0, frame.C2U).Apply(it); (len(done) > 0) != want {
			t.Errorf("%s: done is %v", condition, done)
		}
	}
}

// Chance depends on the seed, the connection and the direction, and on nothing
// else.
func TestRepeatable(t *testing.T) {
	p := plan(t, "drop chance 50%", "corrupt chance 0.5")
	apply := func(p *Plan, conn int, dir frame.Dir) (all string) {
		f := p.Filter(conn, dir)
		for range 20 {
			for _, m := range messages {
				steps, done := f.Apply(item(m))
				all += fmt.Sprint(steps, done)
			}
		}
		return all
	}
	first := apply(p, 1, frame.C2U)
	if apply(p, 1, frame.C2U) != first {
		t.Error("the same is not done again")
	}
	if apply(p, 2, frame.C2U) == first || apply(p, 1, frame.U2C) == first {
		t.Error("all directions get the same")
	}
	p.Seed = 2
	if apply(p, 1, frame.C2U) == first {
		t.Error("the seed makes no difference")
	}
}

// What is no rule is refused with where and why.
func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                     `column 1: a rule begins with one of delay, drop, duplicate, reorder, cut, split, corrupt, cancel, close, not with ""`,
		"dorp nth 2":           `column 1: a rule begins with one of delay, drop, duplicate, reorder, cut, split, corrupt, cancel, close, not with "dorp" (did you mean drop?)`,
		"delay nth 2":          `column 7: delay needs a duration, such as 200ms`,
		"delay":                `column 6: delay needs a duration, such as 200ms`,
		"delay 200":            `column 7: invalid duration "200": want one such as 200ms`,
		"split 0":              `column 7: split takes a number from 1; got "0"`,
		"drop 3":               `column 6: unknown clause "3": want nth, every, limit, chance, when`,
		"drop nht 3":           `column 6: unknown clause "nht": want nth, every, limit, chance, when`,
		"drop nth":             `column 9: nth needs a number`,
		"drop nth 0":           `column 10: nth takes a number from 1; got "0"`,
		"drop nth 1 every 2":   `column 19: nth and every exclude each other`,
		"drop nth 1 nth 2":     `column 12: duplicate clause nth`,
		"drop chance 2":        `column 13: invalid probability "2": want one such as 0.1 or 10%`,
		"drop when kin==x":     `column 11: `,
		"drop when kind==x or": `column 19: `,
	} {
		_, err := Parse(text)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", text, err, want)
		}
	}
}

// In a file the line is told, too.
func TestParseFile(t *testing.T) {
	p, err := ParseFile([]byte("# slow answers\nseed: 7\nrules:\n  - delay 200ms when kind==result\n  - drop nth 2\n"))
	if err != nil || p.Seed != 7 || len(p.Rules) != 2 || p.Rules[1].Nth != 2 {
		t.Errorf("%+v, %v", p, err)
	}
	for text, want := range map[string]string{
		"seed: 7\nrule: []\n":                   `[2:1] unknown field "rule"`,
		"rules:\n  - drop\n  - dorp 2\n":        `[3:5] column 1: a rule begins with`,
		"rules:\n  - drop: 2\n":                 `[2:`,
		"seed: x\n":                             `[1:7]`,
		"rules: " + strings.Repeat("[", 50_000): `[1:107] too deep`,
	} {
		if _, err := ParseFile([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// No text makes the parser fail in any other way than by its error, and what
// it takes never panics.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"delay 200ms nth 2", "drop every 3 when kind==x", "split 3 chance 10% limit 2", "cancel 2 when id==1", "cut 2", "corrupt -1", "reorder\t\nnth 1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text)
		if err != nil {
			if syntax, ok := err.(*SyntaxError); !ok || syntax.Column < 1 || syntax.Column > len([]rune(text))+1 { //nolint:errorlint // it is not wrapped
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		run((&Plan{Rules: []Rule{r}}).Filter(0, frame.U2C))
	})
}
