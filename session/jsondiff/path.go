package jsondiff

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Path names members of payloads by the keys that lead to them. "*" stands
// for any one key, and for any element of an array.
type Path []string

// ParsePath reads a path as it is typed: keys with dots between them.
func ParsePath(text string) (Path, error) {
	p := Path(strings.Split(text, "."))
	if slices.Contains(p, "") {
		return nil, fmt.Errorf("%q is no path: %w", text, errPath)
	}
	return p, nil
}

var errPath = errors.New("write keys with dots between them, such as params.*.time")

// names reports whether p is the path of a member.
func (p Path) names(keys []string) bool {
	return slices.EqualFunc(p, keys, func(pattern, key string) bool { return pattern == "*" || pattern == key })
}

// ignored reports whether one of the paths names a member.
func ignored(ignore []Path, keys []string) bool {
	return slices.ContainsFunc(ignore, func(p Path) bool { return p.names(keys) })
}

// Join writes a path as it is typed, or its beginning.
func Join(keys []string) string {
	var b strings.Builder
	for i, k := range keys {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(clip(k))
		if b.Len() > maxPath {
			return clip(b.String()) + "…"
		}
	}
	return b.String()
}

// maxPath bounds what Join writes, in bytes.
const maxPath = 200

// clip returns the beginning of text, cut between runes.
func clip(text string) string {
	n := min(len(text), maxPath)
	for n < len(text) && n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
