package broker_test

import (
	"bytes"
	"testing"

	"github.com/wirectl/wirectl/broker"
)

// Secrets are hidden without a change of length, those of before a reload, too;
// what is too short to be one is left alone.
func TestSecrets(t *testing.T) {
	var s, none broker.Secrets
	s.Add("sk-planted", "none", "")
	s.Add("another-key", "sk-planted")
	for text, want := range map[string]string{
		"":                              "",
		"nothing, none":                 "nothing, none",
		"sk-planted and sk-planted":     "********** and **********",
		"another-keysk-planted another": "********************* another",
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
