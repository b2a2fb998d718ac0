package commands

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/internal/nearest"
)

// sentence returns the text of an error. For a missing file it adds a suggestion.
func sentence(err error) string {
	var missing *fs.PathError
	if !errors.As(err, &missing) || !errors.Is(missing, fs.ErrNotExist) {
		return err.Error()
	}
	told := cmp.Or(missing.Path, `""`) + ": " + missing.Err.Error() + instead(missing.Path)
	return strings.Replace(err.Error(), missing.Error(), told, 1)
}

// instead suggests what a missing file may have been; "" if nothing fits.
func instead(path string) string {
	if slices.Contains(fixtures.Sessions(), path) {
		return " (did you mean fixture:" + path + "?)"
	}
	dir, name := filepath.Split(path)
	there, err := os.ReadDir(cmp.Or(dir, "."))
	if errors.Is(err, fs.ErrNotExist) {
		return ": there is no folder " + dir
	}
	if meant := nearest.Of(name, mapped(there, fs.DirEntry.Name)); meant != "" {
		return " (did you mean " + dir + meant + "?)"
	}
	if history.IsID(path) {
		return ", and no recorded session has that id: wirectl sessions lists them"
	}
	return ""
}
