package jsondiff

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/render"
)

// A Path names members of payloads by keys. "*" stands for any one key or element. Elements
// are named by number, or by name if they have one.
type Path []string

// ParsePath parses a path of keys separated by dots.
func ParsePath(text string) (Path, error) {
	p := Path(strings.Split(text, "."))
	if slices.Contains(p, "") {
		return nil, fmt.Errorf("invalid path %q: %w", text, errPath)
	}
	return p, nil
}

var errPath = errors.New("write keys with dots between them, such as params.*.time")

// Ignored reports whether one of the paths names a member.
func Ignored(ignore []Path, keys []string) bool {
	matches := func(pattern, key string) bool { return pattern == "*" || pattern == key }
	return slices.ContainsFunc(ignore, func(p Path) bool { return slices.EqualFunc(p, keys, matches) })
}

// Join returns a path in the form that ParsePath reads. It shortens a long one.
func Join(keys []string) string {
	var b strings.Builder
	for i, k := range keys {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(render.Clip(k, maxPath))
		if b.Len() > maxPath {
			return render.Shorten(b.String(), maxPath)
		}
	}
	return b.String()
}

// maxPath bounds the result of Join, in bytes.
const maxPath = 200
