package mask_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"

	"github.com/wirectl/wirectl/broker/mask"
)

// Secrets are masked without a change of length, also those from before a reload. A text
// too short for a secret stays.
func TestSecrets(t *testing.T) {
	var s, none mask.Secrets
	s.Add("sk-planted", "none", "")
	s.Add("another-key", "sk-planted", "Token to-ken-1")
	for text, want := range map[string]string{
		"":                               "",
		"nothing, none":                  "nothing, none",
		"the Token to-ken-1 is to-ken-1": "the ************** is ********",
		"sk-planted and sk-planted":      "********** and **********",
		"another-keysk-planted another":  "********************* another",
	} {
		if got := string(s.Hide([]byte(text))); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
		if got := string(none.Hide([]byte(text))); got != text {
			t.Errorf("without secrets %q became %q", text, got)
		}
	}
	var b bytes.Buffer
	if n, err := s.Writer(&b).Write([]byte("a sk-planted\n")); n != 13 || err != nil || b.String() != "a **********\n" {
		t.Errorf("%q, %d, %v", b.String(), n, err)
	}
}

// key has a letter that is also valid after a backslash, and a slash, which some JSON
// encoders escape.
const key = "sk-nR4/t9Zq"

// escapes are ways to write the key in a JSON string.
func escapes() map[string]string {
	all := ""
	for _, c := range key {
		all += fmt.Sprintf(`\u%04X`, c)
	}
	return map[string]string{
		"raw": key, "a slash": `sk-nR4\/t9Zq`, "a letter": `sk-n\u00524/t9Zq`, "every letter": all,
		"JSON in a string":           `sk-n\\u00524\\/t9Zq`,
		"every letter twice":         strings.ReplaceAll(all, `\`, `\\`),
		"an escape that is escaped":  strings.Replace(key, "R", `\u005cu0052`, 1),
		"JSON in a string, twice":    `sk-n\\\\u00524/t9Zq`,
		"JSON in a string, of quote": `{\"a\":\"` + key + `\"}`,
	}
}

// unescaped undoes JSON's escapes as often as possible.
func unescaped(text string) string {
	for range 5 {
		got, ok := jsonscan.Unquote([]byte(`"` + strings.ReplaceAll(strings.ReplaceAll(text, `\"`, `'`), `"`, `'`) + `"`))
		if !ok {
			break
		}
		text = string(got)
	}
	return text
}

// The key is masked with any escapes, and the result is JSON of the same length.
func TestEscaped(t *testing.T) {
	var s mask.Secrets
	s.Add(key)
	for about, escaped := range escapes() {
		for _, form := range []string{`%s`, `"%s"`, `{"a":["x\n%s\\n"]}`, `{"%s":1}`, `{"a":"\\n\ud83d\ude00 %s"}`, `{"a":{"b":["%s"]}}`} {
			text := fmt.Sprintf(form, escaped)
			got := string(s.Hide([]byte(text)))
			if strings.Contains(unescaped(got), key) || !strings.Contains(got, "***") || len(got) != len(text) {
				t.Errorf("%s: %s became %s", about, text, got)
			}
			if form != `%s` && jsonscan.Valid([]byte(got)) != nil {
				t.Errorf("%s: %s became %s, which is not JSON", about, text, got)
			}
		}
	}
	for _, text := range []string{`{"a":"\nR4/t9Zqsk-n"}`, `{"a":"sk-nR4","b":"/t9Zq"}`, "sk-n R4/t9Zq"} {
		if got := string(s.Hide([]byte(text))); got != text {
			t.Errorf("%s became %s", text, got)
		}
	}
}

// forms are events with a text, one for each of the APIs.
var forms = []string{
	`{"id":"x","choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}]}`,
	`{"choices":[{"index":1,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"%s"}}]}}]}`,
	`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"%s"}}`,
	`{"candidates":[{"content":{"parts":[{"text":"%s"}]}}]}`,
	`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":"%s"}}}]}}]}`,
}

// A key that is split between events is masked wherever it is split. Other text stays
// unchanged.
func TestStream(t *testing.T) {
	var s mask.Secrets
	s.Add(key, key+"longer", "another-key")
	for about, escaped := range escapes() {
		for _, form := range forms {
			for i := range escaped {
				for _, j := range []int{i, i + 1, (i + len(escaped)) / 2} {
					var events []string
					for _, piece := range []string{"say sk", "-n ", escaped[:i], escaped[i:j], escaped[j:], " s"} {
						if event := fmt.Sprintf(form, piece); jsonscan.Valid([]byte(event)) == nil {
							events = append(events, event)
						}
					}
					if len(events) < 6 {
						continue // it would split an escape
					}
					got := streamed(&s, events...)
					text := strings.Join(texts(got), "")
					if strings.Contains(unescaped(text), key) || len(text) != len("say sk-n  s")+len(escaped) || !strings.HasPrefix(text, "say sk-n ") || !strings.HasSuffix(text, " s") {
						t.Fatalf("%s, cut at %d and %d: %s", about, i, j, text)
					}
				}
			}
		}
	}
}

// streamed returns the events that pass.
func streamed(s *mask.Secrets, events ...string) (got []string) {
	st := s.Stream()
	emit := func(data []byte) (bool, error) {
		got = append(got, string(data))
		return false, nil
	}
	for _, e := range events {
		data := []byte(e)
		_, _ = st.Add(data, emit)
		clear(data) // it is valid only that long
	}
	_, _ = st.End(emit)
	return got
}

var value = regexp.MustCompile(`"(?:content|text|arguments|partial_json|a)":"((?:[^"\\]|\\.)*)"`)

// texts returns the texts in the forms.
func texts(events []string) (list []string) {
	for _, e := range events {
		if m := value.FindStringSubmatch(e); m != nil {
			list = append(list, m[1])
		}
	}
	return list
}

// Gemini may split a key around a thought, or around text. The key is masked in the text or
// in the thoughts, both in whole answers and in events. The member that distinguishes them
// may precede or follow the text.
func TestThoughtBetween(t *testing.T) {
	var s mask.Secrets
	s.Add(key)
	said := []string{`{"text":"%s"}`, `{"thought":false,"text":"%s"}`}
	thoughts := []string{`{"thought":true,"text":"%s"}`, `{"text":"%s","thought":true}`}
	check := func(around, between string, i int) {
		t.Helper()
		parts := func(first, second string) []string {
			return []string{fmt.Sprintf(around, "say "+first), fmt.Sprintf(between, "hm"), fmt.Sprintf(around, second+" s")}
		}
		whole := func(parts ...string) string {
			return `{"candidates":[{"content":{"parts":[` + strings.Join(parts, ",") + `]}}]}`
		}
		given, want := parts(key[:i], key[i:]), parts(strings.Repeat("*", i), strings.Repeat("*", len(key)-i))
		if got := string(s.Hide([]byte(whole(given...)))); got != whole(want...) {
			t.Errorf("cut at %d: %s, want %s", i, got, whole(want...))
		}
		if i < 4 {
			return // in events, so short a beginning is held only for the next one
		}
		got := strings.Join(texts(streamed(&s, whole(given[0]), whole(given[1]), whole(given[2]))), "")
		if want := strings.Join(texts(want), ""); got != want {
			t.Errorf("%s around %s, cut at %d: %q, want %q", around, between, i, got, want)
		}
	}
	for i := 1; i < len(key); i++ {
		for _, text := range said {
			for _, thought := range thoughts {
				check(text, thought, i)
				check(thought, text, i)
			}
		}
	}
}

// Only a suffix that may begin a key is held, and no longer than needed.
func TestHeld(t *testing.T) {
	var s mask.Secrets
	s.Add(key)
	st := s.Stream()
	add := func(event string) (got []string) {
		_, _ = st.Add([]byte(event), func(data []byte) (bool, error) { got = append(got, string(data)); return false, nil })
		return got
	}
	say := func(index int, text string) string {
		return fmt.Sprintf(`{"choices":[{"index":%d,"delta":{"content":"%s"},"finish_reason":null}]}`, index, text)
	}
	const ping, stop = `{"type":"ping"}`, `{"choices":[{"index":0,"delta":{"content":"s"},"finish_reason":"stop"}]}`
	for i, tt := range []struct {
		event string
		want  []string
	}{
		{say(0, "ye"), []string{say(0, "ye")}},
		{say(0, "yes"), []string{say(0, "ye")}},
		{say(0, "k"), nil},
		{say(0, " no"), []string{say(0, "s"), say(0, "k"), say(0, " no")}},
		{say(0, "a s"), []string{say(0, "a ")}},
		{ping, []string{say(0, "s"), ping}}, // more may never come
		{say(0, key[1:]), []string{say(0, "**********")}},
		// Two interleaved answers.
		{say(0, "1 sk-n"), []string{say(0, "1 ")}},
		{say(1, "2 sk-n"), nil}, // events keep their order
		{say(0, "R4/t9Zq"), []string{say(0, "****"), say(1, "2 ")}},
		{say(1, "R4/t9Zq!"), []string{say(1, "****"), say(0, "*******"), say(1, "*******!")}},
		{stop, nil},
		{"[DONE]", []string{stop, "[DONE]"}},
	} {
		if got := add(tt.event); !slices.Equal(got, tt.want) {
			t.Errorf("%d: after %s came\n\t%s, want\n\t%s", i, tt.event, strings.Join(got, "\n\t"), strings.Join(tt.want, "\n\t"))
		}
	}
}

// FuzzHide checks that no input causes a panic or changes length.
func FuzzHide(f *testing.F) {
	var s mask.Secrets
	s.Add(key)
	f.Add([]byte(`{"a":[1,"\\u0073k-nR4",{"index":0,"b":"/t9Zq"}],"c":"x"}`))
	f.Add([]byte(`"\\`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if got := s.Hide(text); len(got) != len(text) || bytes.Contains(got, []byte(key)) {
			t.Errorf("%q became %q", text, got)
		} else if jsonscan.Valid(text) == nil && jsonscan.Valid(got) != nil {
			t.Errorf("%q became %q, which is not JSON", text, got)
		}
		streamed(&s, string(text), string(text))
	})
}
