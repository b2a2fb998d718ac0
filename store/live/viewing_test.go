package live

import "testing"

// Notes are kept beside a session that is a file or a folder.
func TestWhereNotesAreKept(t *testing.T) {
	for name, want := range map[string]string{"a.pcapng": "a.pcapng.notes.json", "b/": "b.notes.json", "-": "", "live": "", "tap:x": "", "fixture:mcp-cancel": ""} {
		if got := NotesFile(name); got != want {
			t.Errorf("notes of %s: %q, want %q", name, got, want)
		}
	}
}
