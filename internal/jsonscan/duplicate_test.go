package jsonscan

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// members returns an object whose keys are spelled as given.
func members(keys ...string) string {
	return `{"` + strings.Join(keys, `":0,"`) + `":0}`
}

// numbered returns n different keys, n being at most ten million.
func numbered(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("key%07d", i)
	}
	return keys
}

// The first repeated key of the text is returned, in whatever object it is and however it is
// spelled.
func TestDuplicate(t *testing.T) {
	long := strings.Repeat("long", 10)
	for _, c := range []struct {
		text, key string
		offset    int
	}{
		{`{"a":1,"b":2}`, "", 0},
		{`{"a":{"a":[{"a":1},{"a":1}]}}`, "", 0},
		{`{"a":1,"a":2}`, "a", 7},
		{`{"":1,"":2}`, "", 6},
		{`{"a":1,"\u0061":2}`, "a", 7},
		{`{"\ud83d\ude00":1,"😀":2}`, "😀", 18},
		{`{"\\n":1,"\n":2}`, "", 0},
		{`{"abcdefgh":1,"\u0061bcdefgh":2}`, "abcdefgh", 14},
		{members(long, "l"+`\u006f`+long[2:]), long, 46},
		{`[{"a":{"b":1,"b":2},"a":3}]`, "b", 13},
		{`{"x":1,"y":{"p":1,"q":2,"p":3},"x":2}`, "p", 24},
		{`{"x":1,"x":{"p":1,"p":2}}`, "x", 7},
		{members(append(numbered(40), "key0000003")...), "key0000003", 601},
		{members(append(numbered(500), "key0000499", "key0000003")...), "key0000499", 7501},
	} {
		key, offset, ok := duplicate([]byte(c.text))
		if string(key) != c.key || offset != c.offset || ok != (c.offset != 0) {
			t.Errorf("%.60s: Duplicate = %q, %d, %v, want %q, %d", c.text, key, offset, ok, c.key, c.offset)
		}
	}
}

// Small objects inside a large one add and remove keys at the boundary between few and many.
func TestDuplicateAroundSpill(t *testing.T) {
	for outer := range 80 {
		text := strings.TrimSuffix(members(numbered(outer+1)...), "0}")
		inner := `[{"p":1,"q":2},{"p":1,"q":2,"r":3},{"p":1}],"key0000000":1}`
		_, offset, ok := duplicate([]byte(text + inner))
		if want := len(text) + strings.Index(inner, `"key`); !ok || offset != want {
			t.Fatalf("%d keys before: %d, %v, want %d", outer+1, offset, ok, want)
		}
	}
}

// Different keys with equal hashes are compared by text.
func TestSearchSortedComparesText(t *testing.T) {
	data := []byte(`"a""b""a""c""c"`)
	var k keyring
	entries := []uint64{0, 3, 6, 9, 12} // all with hash 0
	k.searchSorted(data, entries)
	if k.repeated != 6 {
		t.Errorf("first repeated key at %d, want 6", k.repeated)
	}
}

// Texts designed to be slow to check take only milliseconds. Seconds would mean quadratic
// growth.
func TestHostileTexts(t *testing.T) {
	const size = 2 << 20
	for name, text := range map[string]string{
		"different keys":    members(numbered(size / 14)...),
		"one key":           members(strings.Fields(strings.Repeat("k ", size/5))...),
		"escaped key":       members(strings.Fields(strings.Repeat(`\u006b `, size/10))...),
		"nested objects":    strings.Repeat(`{"a":`, MaxDepth) + "1" + strings.Repeat("}", MaxDepth),
		"objects of 33":     "[" + strings.Repeat(members(numbered(33)...)+",", size/500) + "0]",
		"quotes unfinished": `"` + strings.Repeat(`\\`, size/2),
	} {
		start := time.Now()
		_, _, _ = duplicate([]byte(text))
		took := time.Since(start)
		t.Logf("%s: %v", name, took)
		if took > 5*time.Second {
			t.Errorf("%s: %v for %d bytes", name, took, len(text))
		}
	}
}

// A repeated key is detected regardless of its length, spelling and position, which decide how
// it is hashed.
func TestDuplicateOfEveryLength(t *testing.T) {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	for n := range len(letters) {
		key := letters[:n]
		spellings := []string{key}
		if n > 0 {
			spellings = append(spellings, fmt.Sprintf(`\u%04x`, key[0])+key[1:], key[:n-1]+fmt.Sprintf(`\u%04X`, key[n-1]))
		}
		for _, first := range spellings {
			for _, second := range spellings {
				text := members(letters[:n+1], first, second)
				if got, _, _ := duplicate([]byte(text)); string(got) != key || got == nil {
					t.Errorf("%s: Duplicate = %q, want %q", text, got, key)
				}
			}
		}
	}
}
