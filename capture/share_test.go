package capture_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/wirectl/wirectl/capture"
)

// Names that are learned in one place are replaced wherever they are words. Names that tell nothing are replaced
// in the places of names alone.
func TestShare(t *testing.T) {
	s := capture.NewShare()
	s.Learn([]byte(`{"cwd":"/home/carola/src","root":"C:\\\\Users\\\\dave.k","ssh":"carola@buildbox:/x","other":"/Users/test/x"}`))
	clean := s.Redaction().Text()
	for _, test := range [][2]string{
		{"-home-carola-src", "-home-user-1-src"},
		{"Carola's file, CAROLA, carolas", "user-1's file, user-1, carolas"},
		{`C:\Users\dave.k\x`, `C:\Users\user-2\x`},
		{"/home/test/x is a test", "/home/user-3/x is a test"},
		{"on buildbox:22, printer.local and db.internal", "on host-1:22, host-2 and host-3"},
		{"10.1.2.3, 172.20.0.1, 192.168.7.7:80, 172.40.0.1, 127.0.0.1, 8.8.8.8", "host-4, host-5, host-6:80, 172.40.0.1, 127.0.0.1, 8.8.8.8"},
		{"mail a.b+c@corp.example.org, a.b+c@corp.example.org", "mail email-1@example.com, email-1@example.com"},
		{"token=abcdefgh", "token=secret-1"},
		{"https://api.anthropic.com/v1/messages, homes/carolas, @scope/package@1.2.3", "https://api.anthropic.com/v1/messages, homes/carolas, @scope/package@1.2.3"},
	} {
		if got := clean(test[0]); got != test[1] {
			t.Errorf("%q: %q, want %q", test[0], got, test[1])
		}
	}
	var list []string
	for _, r := range s.Replaced() {
		list = append(list, fmt.Sprint(r.Name, " ", r.Text, " ", r.Count))
	}
	want := []string{
		"user-1 carola 3", "user-2 dave.k 1", "user-3 test 1", "host-1 buildbox 1", "host-2 printer.local 1", "host-3 db.internal 1",
		"host-4 10.1.2.3 1", "host-5 172.20.0.1 1", "host-6 192.168.7.7 1", "email-1@example.com a.b+c@corp.example.org 2", "secret-1  1",
	}
	if !slices.Equal(list, want) {
		t.Errorf("%q, want %q", list, want)
	}
	if got := s.Summary(); got != "replaced 3 users, 6 hosts, 1 email, 1 secret: read the result before you share it" {
		t.Error(got)
	}
}
