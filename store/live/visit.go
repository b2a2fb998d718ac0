package live

import (
	"os"
	"path/filepath"

	"github.com/wirectl/wirectl/capture/history"
)

// FirstVisit reports whether the user has not seen the monitor before. It writes an empty
// file beside the recorded sessions to remember. If it cannot, it returns false, because
// otherwise each visit would be the first.
func FirstVisit(getenv func(string) string) bool {
	kept, err := history.Open(getenv)
	if err != nil {
		return false
	}
	file := filepath.Join(filepath.Dir(kept.Dir), "monitor-seen")
	if os.MkdirAll(filepath.Dir(file), 0o700) != nil {
		return false
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	return f.Close() == nil
}
