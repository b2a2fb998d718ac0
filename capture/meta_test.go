package capture_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// A capture edited by hand may spell the fields of a head in any case.
func TestFieldsAreReadAsTheyAreWritten(t *testing.T) {
	m, err := capture.ParseMeta([]byte(`{"headers":{"X-B":"1","a":"2","x-b":"3","A":"4"}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []frame.Field{{Name: "x-b", Value: "1, 3"}, {Name: "a", Value: "2, 4"}}
	if diff := cmp.Diff(want, m.Head.Fields); diff != "" {
		t.Error(diff)
	}
	if got, want := string(capture.AppendMeta(nil, m)), `{"headers":{"x-b":"1, 3","a":"2, 4"}}`; got != want {
		t.Errorf("written again it is %s, want %s", got, want)
	}
}

// A session of wirectl mcp is known by its command, however a client starts it.
func TestCommentOn(t *testing.T) {
	for command, own := range map[string]bool{
		"/usr/bin/wirectl mcp": true, "exec 'C:\\Program Files\\wirectl.exe' mcp --level full": true, "sh -c '/a b/wirectl' mcp": true,
		"wirectl relay exec lab": false, "lab mcp": false, "wirectl": false, "mcp wirectl": false, "": false,
	} {
		for _, words := range [][]string{strings.Fields(command), {command}} {
			if s := (capture.Session{Comment: capture.CommentOn(words)}); s.IsOwn() != own {
				t.Errorf("%q is a session of wirectl mcp: %t", words, !own)
			}
		}
	}
}
