package convert_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/frame"
)

const secret = `{"jsonrpc":"2.0","id":1,"method":"x","params":{"password":"hunter2"}}`

// Secrets are taken out wherever they stand, and the records that had any are
// counted.
func TestRedact(t *testing.T) {
	s := &script{
		session: capture.Session{Unit: "unit --token=abcdef", Framing: "line"},
		records: []capture.Record{
			line(1, frame.C2U, initialize),
			line(1, frame.C2U, secret),
			{Kind: capture.Stderr, Text: []byte("password: hunter2\n")},
		},
	}
	r := convert.Redact(s, capture.Secrets())
	if got := r.Session(); !got.Redacted || strings.Contains(got.Unit, "abcdef") {
		t.Errorf("the session is %+v", got)
	}
	got := readAll(t, r)
	if len(got) != 3 || string(got[0].Payload()) != initialize {
		t.Fatalf("%d records, the first %q", len(got), got[0].Payload())
	}
	for _, rec := range got {
		if text := string(rec.Raw) + string(rec.Text); strings.Contains(text, "hunter2") {
			t.Errorf("%q is left", text)
		}
	}
	if r.Count != 3 {
		t.Errorf("%d had secrets, want the session and two records", r.Count)
	}
}

// Whether a session that is read only once had secrets is known at its end.
func TestRedactNothing(t *testing.T) {
	r := convert.Redact(&script{records: []capture.Record{line(1, frame.C2U, initialize)}}, capture.Secrets())
	if !r.Session().Redacted {
		t.Error("it is not said to be redacted, and may be")
	}
	readAll(t, r)
	if r.Session().Redacted {
		t.Error("it is said to be redacted, and is not")
	}
}

// What has no secrets is not said to have had any; a capture that breaks off
// is judged by what there is.
func TestHoldsSecrets(t *testing.T) {
	cut := errors.New("cut")
	for _, c := range []struct {
		name string
		s    script
		want bool
	}{
		{"none", script{records: []capture.Record{line(1, frame.C2U, initialize)}}, false},
		{"already redacted", script{session: capture.Session{Redacted: true}}, false},
		{"in the session", script{session: capture.Session{Unit: "unit --token=abcdef"}}, true},
		{"in a frame", script{records: []capture.Record{line(1, frame.C2U, initialize), line(1, frame.C2U, secret)}}, true},
		{"in a head alone", script{records: []capture.Record{{Kind: capture.Frame, Framing: frame.HTTP, Frame: frame.Frame{
			Raw: []byte("{}"), End: 2, Meta: &frame.Meta{
				Framing: frame.HTTP, Signal: frame.Request,
				Head: &frame.Head{Start: "GET / HTTP/1.1", Fields: []frame.Field{{Name: "x-api-key", Value: "abc"}}},
			},
		}}}}, true},
		{"behind a cut", script{records: []capture.Record{line(1, frame.C2U, initialize)}, err: cut}, false},
	} {
		if got := convert.HoldsSecrets(&c.s, capture.Secrets()); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
