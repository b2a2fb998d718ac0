package store_test

import (
	"testing"

	"github.com/wirectl/wirectl/store"
)

// A user is welcomed once, and not at all where nothing can be kept.
func TestFirstVisit(t *testing.T) {
	dir := t.TempDir()
	getenv := func(name string) string { return map[string]string{"XDG_STATE_HOME": dir}[name] }
	if !store.FirstVisit(getenv) || store.FirstVisit(getenv) {
		t.Error("only the first visit is one")
	}
	if store.FirstVisit(func(string) string { return "" }) {
		t.Error("a visit that cannot be kept is the first one")
	}
}
