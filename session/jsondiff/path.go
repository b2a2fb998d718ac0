package jsondiff

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/render"
)

// A Path names members of payloads by the keys that lead to them. "*" stands
// for any one key, and for any element of an array. Elements are named by their
// numbers, or by their names where they have some.
type Path []string

// ParsePath reads a path as it is typed: keys with dots between them.
func ParsePath(text string) (Path, error) {
	p := Path(strings.Split(text, "."))
	if slices.Contains(p, "") {
		return nil, fmt.Errorf("%q is not a path: %w", text, errPath)
	}
	return p, nil
}

var errPath = errors.New("write keys with dots between them, such as params.*.time")

// names reports whether p is the path of a member.
func (p Path) names(keys []string) bool {
	return slices.EqualFunc(p, keys, func(pattern, key string) bool { return pattern == "*" || pattern == key })
}

// Ignored reports whether one of the paths names a member.
func Ignored(ignore []Path, keys []string) bool {
	return slices.ContainsFunc(ignore, func(p Path) bool { return p.names(keys) })
}

// Join writes a path as it is typed, or its beginning.
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

// maxPath bounds what Join writes, in bytes.
const maxPath = 200
