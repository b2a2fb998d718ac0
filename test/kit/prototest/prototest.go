// Package prototest holds the tests that every parser of a protocol must pass.
package prototest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
)

// Vectors holds p to the vectors of its name.
func Vectors(t *testing.T, p protocol.Protocol) {
	t.Helper()
	vectors, err := fixtures.Vectors(p.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			var m protocol.Message
			err := p.Parse(v.Bytes, &m)
			if v.Expect == fixtures.Malformed {
				if t, ok := p.(protocol.Transcoder); ok && err == nil {
					_, _, err = t.AppendJSON(nil, v.Bytes)
				}
				if err == nil {
					t.Errorf("%s: took %q for a message", v.Comment, v.Bytes)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", v.Comment, err)
			}
			for key, want := range v.Header {
				if got, ok := Field(&m, key); ok && got != want {
					t.Errorf("%s: %s is %s, want %s", v.Comment, key, got, want)
				}
			}
			if _, stated := v.Header["faults"]; !stated && m.Faults != 0 {
				t.Errorf("%s: faults are %s, want none", v.Comment, faults(m.Faults))
			}
		})
	}
}

var faultNames = [...]string{
	"unknown-kind", "duplicate-key", "unsafe-integer", "bad-id", "bad-version",
	"bad-params", "both-answers", "no-answer", "missing-field", "unknown-field", "null-id", "lone-surrogate",
}

func faults(f protocol.Faults) string {
	var names []string
	for i, name := range faultNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

var spaceNames = [...]string{"-", "id", "progress", "session", "run", "turn", "task", "retry", "step", "kind"}

// A field is a member of a message: its key in the vectors, the value that says nothing, and the
// value.
type field struct{ key, zero, value string }

func fields(m *protocol.Message) []field {
	token := func(t protocol.Token) string {
		if t.IsZero() {
			return "-"
		}
		return string(t.Text)
	}
	piece := ""
	if m.Piece.Of != nil {
		piece = fmt.Sprintf("%s appends=%v last=%v", m.Piece.Of, m.Piece.Appends, m.Piece.Last)
	}
	return []field{
		{"kind", "", string(m.Kind)},
		{"phase", "", m.Phase.String()},
		{"text", "", string(m.Text)},
		{"from", "", m.From.String()},
		{"id", "-", token(m.ID)},
		{"ref", "-", token(m.Ref)},
		{"ref-space", "-", spaceNames[m.Ref.Space]},
		{"bind", "-", token(m.Bind)},
		{"bind-space", "-", spaceNames[m.Bind.Space]},
		{"seq", "-1", strconv.Itoa(m.Seq)},
		{"count", "0", strconv.Itoa(m.Count)},
		{"label", "", string(m.Label)},
		{"faults", "", faults(m.Faults)},
		{"does", "note", m.Operation.Does.String()},
		{"of", "-", token(m.Operation.Of)},
		{"of-space", "-", spaceNames[m.Operation.Of.Space]},
		{"version", "", string(m.Version)},
		{"state", "", string(m.State)},
		{"reason", "", string(m.Reason)},
		{"goes-on", "false", strconv.FormatBool(m.GoesOn)},
		{"continues", "false", strconv.FormatBool(m.Continues)},
		{"tool-error", "false", strconv.FormatBool(m.ToolError)},
		{"context", "-", token(m.Context)},
		{"piece", "", piece},
		{"model", "", string(m.Model)},
		{"stop-reason", "", string(m.StopReason)},
		{"empty", "false", strconv.FormatBool(m.Empty)},
		{"usage", "{0 0 0}", tokens(m.Usage)},
		{"spent", "{0 0 0}", tokens(m.Spent.Usage)},
		{"cost", "0", strconv.FormatInt(m.Spent.Usage.Cost, 10)},
		{"within", "-", token(m.Within)},
		{"gone", "-", token(m.Gone)},
		{"settles", "-", token(m.Settles)},
		{"queue", "note", m.Queue.Does.String()},
		{"queue-of", "-", token(m.Queue.Of)},
		{"names", "", string(m.Queue.Names)},
		{"own", "", string(m.Queue.Own)},
		{"empties", "false", strconv.FormatBool(m.Queue.Empties)},
		{"failing", "false", strconv.FormatBool(m.Failing)},
	}
}

// Field returns the value of a message for a key of the vectors. It returns false for keys
// that are not about messages.
func Field(m *protocol.Message, key string) (value string, ok bool) {
	for _, f := range fields(m) {
		if f.key == key {
			return f.value, true
		}
	}
	return "", false
}

// Say lists the members of a message that are set, in the words of the vectors, so that a
// test can show them on a line. It leaves out the text.
func Say(m *protocol.Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", m.Kind, m.Phase)
	for _, f := range fields(m)[3:] {
		if f.value != f.zero && f.value != "" {
			fmt.Fprintf(&b, " %s=%s", f.key, f.value)
		}
	}
	return b.String()
}

// A Case is a payload and the result of [Say] for it.
type Case [2]string

// Cases holds p to each of the cases.
func Cases(t *testing.T, p protocol.Protocol, cases []Case) {
	t.Helper()
	for _, c := range cases {
		payload, want := c[0], c[1]
		var m protocol.Message
		if err := p.Parse([]byte(payload), &m); err != nil {
			t.Errorf("%s: %v", payload, err)
		} else if got := Say(&m); got != want {
			t.Errorf("%s\nsays %s\nwant %s", payload, got, want)
		}
	}
}

// NoAllocs fails if p allocates for one of the payloads, which have no faults.
func NoAllocs(t *testing.T, p protocol.Protocol, payloads ...string) {
	t.Helper()
	var m protocol.Message
	for _, s := range payloads {
		payload := []byte(s)
		if n := testing.AllocsPerRun(100, func() {
			if err := p.Parse(payload, &m); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}); n != 0 {
			t.Errorf("%v allocations for %s", n, s)
		}
	}
}

// Fuzz checks the contract of p on any input: valid tells whether Parse returns an error, a
// message borrows from its payload and leaves it unchanged, and only the unknown kind is
// unknown.
func Fuzz(f *testing.F, p protocol.Protocol, valid func([]byte) error) {
	f.Helper()
	for _, dir := range fixtures.VectorDirs() {
		vectors, err := fixtures.Vectors(dir)
		if err != nil {
			f.Fatal(err)
		}
		for _, v := range vectors {
			f.Add(v.Bytes)
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		before := bytes.Clone(payload)
		m := protocol.Message{Label: []byte("of another message")}
		err := p.Parse(payload, &m)
		if want := valid(payload); (err == nil) != (want == nil) {
			t.Fatalf("Parse says %v, and the payload by itself %v", err, want)
		}
		if !bytes.Equal(payload, before) {
			t.Fatal("Parse wrote into the payload")
		}
		if len(m.Kind) == 0 && m.Faults&protocol.UnknownKind != 0 {
			t.Error("the kind is empty, and should be unknown")
		}
		if m.Faults&protocol.UnknownKind != 0 && !bytes.Equal(m.Kind, protocol.Unknown) {
			t.Errorf("the kind %q is reported as unknown", m.Kind)
		}
		for _, span := range [][]byte{m.ID.Text, m.Ref.Text, m.Bind.Text, m.Label, m.Text, m.Model, m.StopReason} {
			if !within(payload, span) {
				t.Errorf("%q is not part of the payload", span)
			}
		}
	})
}

// within reports whether span lies in payload.
func within(payload, span []byte) bool {
	if len(span) == 0 {
		return true
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(payload)))
	at := uintptr(unsafe.Pointer(unsafe.SliceData(span)))
	return at >= start && at+uintptr(len(span)) <= start+uintptr(len(payload))
}

// AnyOrder fails if p reads an object differently when its members, and those of the
// objects directly in it, are in another order.
func AnyOrder(t *testing.T, p protocol.Protocol, payloads ...string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, s := range payloads {
		var want, got protocol.Message
		if err := p.Parse([]byte(s), &want); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		for range 50 {
			shuffled := shuffle([]byte(s), rng, 2)
			if err := p.Parse(shuffled, &got); err != nil || Say(&got) != Say(&want) {
				t.Fatalf("%s\nsays %s, %v\nwant %s", shuffled, Say(&got), err, Say(&want))
			}
		}
	}
}

// shuffle returns raw with the members of its objects, down to a depth, in a
// random order.
func shuffle(raw []byte, rng *rand.Rand, depth int) []byte {
	if jsonscan.KindOf(raw) != jsonscan.Object || depth == 0 {
		return raw
	}
	var members [][]byte
	var s jsonscan.Scanner
	s.Init(raw)
	for ok := s.Object(); ok && s.Next(); {
		member := append(jsonscan.AppendQuote(nil, s.Key()), ':')
		members = append(members, append(member, shuffle(s.Value(), rng, depth-1)...))
	}
	rng.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return append(append([]byte{'{'}, bytes.Join(members, []byte(","))...), '}')
}

// Bench measures Parse of each payload.
func Bench(b *testing.B, p protocol.Protocol, payloads map[string]string) {
	for name, s := range payloads {
		b.Run(name, func(b *testing.B) {
			payload := []byte(s)
			var m protocol.Message
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Parse(payload, &m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Prose returns about n bytes of text, at least 70, to be put into a JSON
// string. One byte in 36 or so is an escape or beyond ASCII.
func Prose(n int) string {
	const sentence = `The quick brown fox jumps, naïvely\nover a lazy dog and the next one; `
	return strings.Repeat(sentence, max(1, n/len(sentence)))
}

// Texts compares the text of each payload's message with the wanted one.
func Texts(t *testing.T, p protocol.Protocol, want map[string]string) {
	t.Helper()
	for payload, want := range want {
		var m protocol.Message
		if err := p.Parse([]byte(payload), &m); err != nil || string(m.Text) != want {
			t.Errorf("%s\nhas the text %s, %v\nwant %s", payload, m.Text, err, want)
		}
	}
}

// tokens writes the tokens that were used.
func tokens(u protocol.Usage) string { return fmt.Sprintf("{%d %d %d}", u.Input, u.Cached, u.Output) }
