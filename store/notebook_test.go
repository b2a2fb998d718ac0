package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/wirectl/wirectl/store"
)

// Notes are kept beside a session that is a file, as long as there are any.
func TestNotebook(t *testing.T) {
	name := filepath.Join(t.TempDir(), "session.pcapng")
	open := func() *store.Notebook {
		t.Helper()
		b, err := store.OpenNotes(name + ".notes.json")
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	keep := func(n store.Notes) {
		t.Helper()
		if err := open().Keep(n); err != nil {
			t.Fatal(err)
		}
	}
	keep(store.Notes{})
	if _, err := os.Stat(name + ".notes.json"); err == nil {
		t.Error("there is a file that says nothing")
	}
	keep(store.Notes{Filter: "late", Bookmarks: []int64{3}, Exchanges: map[int64]string{1: "look"}})
	if n := open().Kept; n.Filter != "late" || n.Bookmarks[0] != 3 || n.Exchanges[1] != "look" {
		t.Errorf("%+v", n)
	}
	keep(store.Notes{})
	if left, _ := filepath.Glob(name + "*"); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
	if err := os.WriteFile(name+".notes.json", []byte("no"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := store.OpenNotes(name + ".notes.json"); err == nil {
		t.Error("it takes what are no notes")
	}
	if b, err := store.OpenNotes(""); err != nil || b.Keep(store.Notes{Filter: "late"}) != nil {
		t.Errorf("without a name: %v", err)
	}
}
