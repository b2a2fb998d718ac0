package commands

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/wirectl/wirectl/store"
)

// Notes are kept beside a session that is a file, as long as there are any.
func TestNotebook(t *testing.T) {
	name := filepath.Join(t.TempDir(), "session.pcapng")
	open := func() *notebook {
		t.Helper()
		b, err := openNotes(name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	keep := func(n store.Notes) {
		t.Helper()
		if err := open().keep(n); err != nil {
			t.Fatal(err)
		}
	}
	keep(store.Notes{})
	if _, err := os.Stat(name + ".notes.json"); err == nil {
		t.Error("there is a file that says nothing")
	}
	keep(store.Notes{Filter: "late", Bookmarks: []int64{3}, Exchanges: map[int64]string{1: "look"}})
	if n := open().kept; n.Filter != "late" || n.Bookmarks[0] != 3 || n.Exchanges[1] != "look" {
		t.Errorf("%+v", n)
	}
	keep(store.Notes{})
	if left, _ := filepath.Glob(name + "*"); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
	if err := os.WriteFile(name+".notes.json", []byte("no"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := openNotes(name); err == nil {
		t.Error("it takes what are no notes")
	}
	for _, name := range []string{"-", "live", "tap:x", "fixture:mcp-cancel"} {
		if b, err := openNotes(name); err != nil || b.file != "" {
			t.Errorf("notes of %s: %q, %v", name, b.file, err)
		}
	}
}
