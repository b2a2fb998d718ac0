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

// sentence is what an error says to a person. Of a file that is not there it says
// which may have been meant.
func sentence(err error) string {
	var missing *fs.PathError
	if !errors.As(err, &missing) || !errors.Is(missing, fs.ErrNotExist) {
		return err.Error()
	}
	told := cmp.Or(missing.Path, `""`) + ": " + missing.Err.Error() + instead(missing.Path)
	return strings.Replace(err.Error(), missing.Error(), told, 1)
}

// instead says what there is in the place of a file that is not there: "" if that
// is of no help.
func instead(path string) string {
	if slices.Contains(fixtures.Sessions(), path) {
		return " (did you mean fixture:" + path + "?)"
	}
	dir, name := filepath.Split(path)
	there, err := os.ReadDir(cmp.Or(dir, "."))
	if errors.Is(err, fs.ErrNotExist) {
		return ": there is no folder " + dir
	}
	var names []string
	for _, file := range there {
		names = append(names, file.Name())
	}
	if meant := nearest.Of(name, names); meant != "" {
		return " (did you mean " + dir + meant + "?)"
	}
	if history.IsID(path) {
		return ", and no recorded session has that id: wirectl sessions lists them"
	}
	return ""
}
