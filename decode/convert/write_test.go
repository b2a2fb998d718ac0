package convert_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode/convert"
)

// noRecords is a session without frames.
type noRecords struct{}

func (noRecords) Session() *capture.Session  { return &capture.Session{} }
func (noRecords) Next(*capture.Record) error { return io.EOF }
func (noRecords) Len() int                   { return 0 }

// What is saved is in the format that the name tells, and a name that
// tells none writes nothing.
func TestNamesOfWhatIsSaved(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.ndjson", "a.jsonl", "a.pcapng", "a.pcapng.zst", "folder", "folder.d/"} {
		if err := convert.Save(filepath.Join(dir, name)+strings.Repeat("/", strings.Count(name, "/")), noRecords{}); err != nil {
			t.Error(name, err)
		}
	}
	if err := convert.Save(filepath.Join(dir, "folder.d"), noRecords{}); err != nil {
		t.Error("a folder that is there", err)
	}
	for _, name := range []string{"a.txt", "a.json", "a.har", "a.pcapng.gz"} {
		err := convert.Save(filepath.Join(dir, name), noRecords{})
		if err == nil || !strings.Contains(err.Error(), ".pcapng.zst") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Error(name, "was made")
		}
	}
}
