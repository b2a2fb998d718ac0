package capture_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"testing"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// Names that are learned in one place are replaced wherever they are words. Names that tell nothing are replaced
// in the places of names alone.
func TestShare(t *testing.T) {
	s := capture.NewShare()
	s.Learn([]byte(`{"cwd":"/home/carola/src","root":"C:\\\\Users\\\\dave.k","ssh":"carola@buildbox:/x","other":"/Users/test/x"}`))
	s.Learn([]byte(`{"USER":"winfried","dir":"C:\\Users\\Jane Roe\\x","a":"\u002fhome\u002frudolf\u002fx /Users/jürgen/x HOSTNAME=box-17","q":"%2Fhome%2Fkimlee%2Fx ssh://deploy@prod-3/x","tex":"\\section\\x, USER: What is it?","more":"~ludwig/x \\\\files9\\x ssh://a@box-18/x"}`))
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
		{"Jürgen, Jane Roe, Winfried, rudolf, kimlee", "user-4, user-5, user-6, user-7, user-8"},
		{`C:\Users\Jane Roe\x`, `C:\Users\user-5\x`},
		{"https://h/?q=x%40corp.example.org&home=%2Fhome%2Fkimlee", "https://h/?q=email-2@example.com&home=%2Fhome%2Fuser-8"},
		{"müller@corp.example.org, 'o'brien@corp.example.org'", "email-3@example.com, 'email-4@example.com'"},
		{`box-17, prod-3, \\files9\x, ssh://a@box-18/x, fd12:3456::1, 169.254.169.254`, `host-7, host-8, \\host-9\x, ssh://a@host-10/x, host-11, 169.254.169.254`},
		{"/tmp/home/.claude/settings.local.json, nas.local.", "/tmp/home/.claude/settings.local.json, host-12."},
		{"~ludwig/x, section, What is ludwig?", "~user-9/x, section, What is ludwig?"},
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
		"user-1 carola 3", "user-2 dave.k 1", "user-3 test 1", "user-4 Jürgen 1", "user-5 Jane Roe 2", "user-6 Winfried 1", "user-7 rudolf 1", "user-8 kimlee 2", "user-9 ludwig 1", "host-1 buildbox 1", "host-2 printer.local 1", "host-3 db.internal 1",
		"host-4 10.1.2.3 1", "host-5 172.20.0.1 1", "host-6 192.168.7.7 1", "host-7 box-17 1", "host-8 prod-3 1", "host-9 files9 1", "host-10 box-18 1", "host-11 fd12:3456::1 1", "host-12 nas.local 1",
		"email-1@example.com a.b+c@corp.example.org 2", "email-2@example.com x%40corp.example.org 1", "email-3@example.com müller@corp.example.org 1", "email-4@example.com o'brien@corp.example.org 1", "secret-1  1",
	}
	if !slices.Equal(list, want) {
		t.Errorf("%q, want %q", list, want)
	}
	if got := s.Summary(); got != "replaced 9 users, 12 hosts, 4 emails, 1 secret: read the result before you share it" {
		t.Error(got)
	}
}

// A text in base64 is read, too.
func TestShareBase64(t *testing.T) {
	s := capture.NewShare()
	s.Learn([]byte("/home/carola/x"))
	encoded := base64.StdEncoding.EncodeToString([]byte("home=/home/carola/x"))
	r := capture.Record{Kind: capture.Frame, Frame: framed(t, frame.Line, `{"a":"`+encoded+`","b":"data:text/plain;base64,`+encoded+`","c":"AAAAAAAAAAAAAAAAAAAAAA=="}`)}
	got := redact(t, s.Redaction(), r)
	clean := base64.StdEncoding.EncodeToString([]byte("home=/home/user-1/x"))
	if want := `{"a":"` + clean + `","b":"data:text/plain;base64,` + clean + `","c":"AAAAAAAAAAAAAAAAAAAAAA=="}`; string(got.Payload()) != want {
		t.Errorf("%s, want %s", got.Payload(), want)
	}
}
