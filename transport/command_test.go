//go:build unix

package transport_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/transport"
)

// standIn puts a program on PATH that prints the words it was called with, one a
// line, and ends with a status.
func standIn(t *testing.T, name string, status string) {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit " + status + "\n"
	check(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// said is what a stand-in was called with, and what became of it.
func said(t *testing.T, opts transport.Options, words ...string) (string, error) {
	t.Helper()
	p := dial(t, words, opts).(transport.Process)
	got, err := io.ReadAll(p)
	check(t, err)
	_, err = p.Wait()
	return strings.TrimSuffix(string(got), "\n"), err
}

// The system's ssh gets what was typed, and no terminal. ssh joins the words of
// the remote command; quoted, they stay words.
func TestSSH(t *testing.T) {
	standIn(t, "ssh", "0")
	for _, tt := range []struct{ typed, want, quoted string }{
		{"ssh host", "-T|host", ""},
		{"ssh host a;b $x", "-T|host|a;b|$x", "-T|host|'a;b'|'$x'"},
		{"ssh -p 22 -o A=b -vvF f host x*", "-T|-p|22|-o|A=b|-vvF|f|host|x*", "-T|-p|22|-o|A=b|-vvF|f|host|'x*'"},
		{"ssh -p22 host -l me x*", "-T|-p22|host|-l|me|x*", "-T|-p22|host|-l|me|'x*'"},
		{"ssh -- host x* -v", "-T|--|host|x*|-v", "-T|--|host|'x*'|-v"},
		{"ssh host -- x*", "-T|host|--|x*", "-T|host|--|'x*'"},
		{"ssh -N", "-T|-N", ""},
	} {
		words := strings.Fields(tt.typed)
		if got, err := said(t, transport.Options{}, words...); err != nil || got != strings.ReplaceAll(tt.want, "|", "\n") {
			t.Errorf("%s: %q, %v", tt.typed, got, err)
		}
		if tt.quoted == "" {
			tt.quoted = tt.want
		}
		if got, err := said(t, transport.Options{Quote: true}, words...); err != nil || got != strings.ReplaceAll(tt.quoted, "|", "\n") {
			t.Errorf("%s, quoted: %q, %v", tt.typed, got, err)
		}
	}
}

func TestSSHItselfFails(t *testing.T) {
	standIn(t, "ssh", "255")
	if _, err := said(t, transport.Options{}, "ssh", "host", "x y"); err == nil || !strings.Contains(err.Error(), "ssh: failed itself (status 255)") {
		t.Error(err)
	}
}

func TestContainer(t *testing.T) {
	standIn(t, "podman", "0")
	standIn(t, "crun", "125")
	got, err := said(t, transport.Options{Runtime: "podman"}, "container", "web", "sh", "-c", "ls")
	if err != nil || got != "exec\n-i\nweb\nsh\n-c\nls" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := said(t, transport.Options{Runtime: "crun"}, "container", "web", "ls"); err == nil || !strings.Contains(err.Error(), "crun: failed itself (status 125): is the container running? check with crun ps") {
		t.Error(err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := transport.Parse([]string{"container", "web", "ls"}, transport.Options{}); err == nil || !strings.Contains(err.Error(), "no container runtime") {
		t.Error(err)
	}
}

// A connector is found on PATH, and else in the user's folder.
func TestConnector(t *testing.T) {
	_, err := transport.Parse([]string{"serial:///dev/ttyS0"}, transport.Options{})
	if err == nil || !strings.Contains(err.Error(), "latis-connector-TYPE on PATH or in ~/.latis/connectors") {
		t.Errorf("without a connector: %v", err)
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	folder := filepath.Join(home, ".latis", "connectors")
	check(t, os.MkdirAll(folder, 0o700))
	check(t, os.WriteFile(filepath.Join(folder, "latis-connector-serial"), []byte("#!/bin/sh\necho home \"$@\"\n"), 0o700))
	if got, err := said(t, transport.Options{}, "serial:///dev/ttyS0"); err != nil || got != "home /dev/ttyS0" {
		t.Errorf("from the user's folder: %q, %v", got, err)
	}
	standIn(t, "latis-connector-serial", "0")
	if got, err := said(t, transport.Options{}, "serial:///dev/ttyS0?baud=9600"); err != nil || got != "/dev/ttyS0?baud=9600" {
		t.Errorf("from PATH: %q, %v", got, err)
	}
}

// An endpoint says itself as a person would type it.
func TestEndpointString(t *testing.T) {
	for _, words := range [][]string{
		{"--", "sh", "-c", "it's"},
		{"ssh", "-p", "22", "host"},
		{"stdio"},
		{"tcp://localhost:7000"},
		{"https://localhost/mcp?x=1"},
	} {
		e, err := transport.Parse(words, transport.Options{})
		check(t, err)
		want := strings.Join(words, " ")
		if words[0] == "--" {
			want = `-- sh -c 'it'\''s'`
		}
		if e.String() != want {
			t.Errorf("%q says %s", words, e)
		}
	}
}

func TestHTTPIsNoConnection(t *testing.T) {
	e, err := transport.Parse([]string{"http://localhost:7000/mcp"}, transport.Options{})
	check(t, err)
	if u := e.(transport.HTTP).URL(); u.Path != "/mcp" {
		t.Errorf("its URL is %s", u)
	}
	if _, err := e.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "HTTP carries requests") {
		t.Error(err)
	}
}
