package capture

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/frame"
)

// The filter never hides a match.
func FuzzPrefilter(f *testing.F) {
	for _, text := range []string{
		"Bearer abcdefgh1", "sk-0123456789abcdef", "xoxb-0123456789", "api-KEY: x", "--Access_token  y", "pa\u017fsword=1", "to\u212aen: x", "GHP_", "a_p_i_k_e_y=1",
		"dbPassword", "gr\u00f6\u00dfePassword", "s3S_ecret=1", "dbPa\u017fsword=1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e := newEraser(Secrets())
		for _, f := range e.assigned {
			if f.MatchString(text) && (!e.mayName.mayMatch([]byte(text)) || !e.mayHold.mayMatch([]byte(text))) {
				t.Errorf("%s is missed in %q", f, text)
			}
		}
		for _, f := range e.values {
			if f.MatchString(text) && (!newPrefilter(forms()[f.Regexp]).mayMatch([]byte(text)) || !e.mayHold.mayMatch([]byte(text))) {
				t.Errorf("%s is missed in %q", f, text)
			}
		}
	})
}

// Nothing is missed that the expressions find in a whole text.
func FuzzFind(f *testing.F) {
	for _, text := range []string{
		"Bearer abcdefgh1 and sk-0123456789abcdef, task-x, sk-fedcba9876543210", "xtoken=a token=b", "--Access_token  y --x-token z", "a token, \"token\" : \"a b\"",
		"token\n=\n'a b' token=\"c d\"token=e", "Cookie: a=b; c=d\nAuthorization: x y", "pa\u017fsword=1 to\u212aen: x", "dbPassword=1;gr\u00f6\u00dfePassword=2", "http://a:b@c?key=d&x-amz-signature=e",
		"t0ken-of-the-run T0ken-of-the-run", "--a--token x", "api_key=1,api-key=2",
	} {
		f.Add(text)
	}
	x := Secrets()
	x.Values = append(x.Values, regexp.MustCompile("t0ken-of-the-run"))
	f.Fuzz(func(t *testing.T, text string) {
		e := newEraser(x)
		found := e.find([]byte(text))
		for _, f := range slices.Concat(e.values, e.assigned) {
			for _, m := range f.FindAllStringSubmatchIndex(text, -1) {
				for _, group := range f.groups {
					want := span{m[2*group], m[2*group+1]}
					if want.start < want.end && !slices.ContainsFunc(found, func(s span) bool { return s.start <= want.start && want.end <= s.end }) {
						t.Errorf("%s finds %q in %q, and only %v were found", f, text[want.start:want.end], text, found)
					}
				}
			}
		}
	})
}

// A discard is a writer that ignores all records.
type discard struct{}

func (discard) Write(*Record) error { return nil }

// BenchmarkRedact removes known secrets from recorded sessions: JSON of MCP that contains
// prose, and protobuf of latis.
func BenchmarkRedact(b *testing.B) {
	for name, framing := range map[string]frame.Framing{"mcp-everything/s2c.bin": frame.Line, "acp-example/s2c.bin": frame.Line, "latis-session/s2c.bin": frame.Len32} {
		data, err := fixtures.Read(name)
		if err != nil {
			b.Fatal(err)
		}
		var records []Record
		s := frame.NewScanner(strings.NewReader(string(data)), framing)
		for s.Scan() {
			records = append(records, Record{Framing: framing.Name(), Frame: s.Frame().Clone()})
		}
		b.Run(strings.TrimSuffix(name, "/s2c.bin"), func(b *testing.B) {
			w := Redact(discard{}, &Session{}, Secrets())
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				for i := range records {
					if err := w.Write(&records[i]); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
