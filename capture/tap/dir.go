package tap

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Dir returns the folder of this user's taps, creating it if necessary. It is wirectl in
// $XDG_RUNTIME_DIR, or else a folder per user in the temporary folder. A folder that others
// may enter is rejected.
func Dir(getenv func(string) string) (string, error) {
	if err := checkPlatform(); err != nil {
		return "", err
	}
	dir := filepath.Join(os.TempDir(), "wirectl-"+strconv.Itoa(os.Getuid()))
	if base := getenv("XDG_RUNTIME_DIR"); base != "" {
		dir = filepath.Join(base, "wirectl")
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return "", err
	}
	info, err := os.Lstat(dir) // a link might point anywhere
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s is not a folder", dir)
	}
	return dir, checkOwner(dir, info)
}
