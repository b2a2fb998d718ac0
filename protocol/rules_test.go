package protocol_test

import (
	"cmp"
	"testing"

	"github.com/wirectl/wirectl/protocol"
)

// Versions are compared by their numbers: version 10 of ACP is newer than version 2.
func TestCompareVersions(t *testing.T) {
	for _, v := range []struct {
		a, b string
		want int
	}{
		{"10", "2", 1},
		{"2", "2", 0},
		{"1.10", "1.9", 1},
		{"1.0", "1", 0},
		{"1.0.1", "1.0", 1},
		{"0.3", "1.0", -1},
		{"", "1", -1},
		{"2025-11-25", "2026-07-28", -1},
		{"2026-07-28", "2026-07-28-rc", -1},
		{"99999999999999999999999", "1", 1},
		{"draft", "2026-07-28", 1},
	} {
		if got := protocol.CompareVersions(v.a, v.b); got != v.want {
			t.Errorf("CompareVersions(%q, %q) = %d, want %d", v.a, v.b, got, v.want)
		}
		if got := protocol.CompareVersions(v.b, v.a); cmp.Compare(got, 0) != -v.want {
			t.Errorf("CompareVersions(%q, %q) = %d, want %d", v.b, v.a, got, -v.want)
		}
	}
}

// A version newer than all that are known has the rules of the newest.
func TestRulesAt(t *testing.T) {
	newest := &protocol.Rules{}
	r := &protocol.Rules{Versions: []protocol.VersionRules{{From: "2", Rules: newest}}, Newest: "2"}
	for version, want := range map[string]*protocol.Rules{"1": r, "2": newest, "10": newest} {
		if r.At(version) != want {
			t.Errorf("version %s has the rules of another", version)
		}
	}
	if r.IsNewer("2") || !r.IsNewer("10") {
		t.Error("10 alone is newer than 2")
	}
}
