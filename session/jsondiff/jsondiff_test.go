package jsondiff

import (
	"slices"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/protocol"
)

// valueDifferences lists where two JSON texts differ.
func valueDifferences(a, b string, ignore ...Path) (paths []string) {
	w := Walk{Ignore: ignore, Leaf: func(keys []string, va, vb []byte) {
		if !Same(va, vb) {
			paths = append(paths, Join(keys))
		}
	}}
	w.Values([]byte(a), []byte(b))
	return paths
}

func TestValues(t *testing.T) {
	deep := strings.Repeat(`[`, 2*MaxDepth) + `%` + strings.Repeat(`]`, 2*MaxDepth)
	for _, tt := range []struct {
		a, b string
		want []string
	}{
		{`{"a":1,"b":[2, "x"]}`, ` {"b":[2.0,"\u0078"],"a":1e0}`, nil},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`, []string{"a"}}, // to the last digit
		{`1e999999999`, `1e999999998`, []string{""}},
		{`{"a":{"b":1},"c":2}`, `{"a":{"b":2},"d":2}`, []string{"a.b", "c", "d"}},
		{`[1,2]`, `[1,3,4]`, []string{"1", "2"}},
		{`{"a":[]}`, `{"a":{}}`, []string{"a"}},
		{`{"a":null}`, `{}`, []string{"a"}}, // null is not absent
		{`{"a":1,"a":2}`, `{"a":1,"a":3}`, []string{"a"}},
		{`{"a":1,"a":2}`, `{"a":1}`, []string{"a"}},
		{strings.Replace(deep, "%", "1", 1), strings.Replace(deep, "%", " 1", 1), nil},
		{strings.Replace(deep, "%", "1", 1), strings.Replace(deep, "%", "2", 1), []string{strings.Repeat("0.", MaxDepth-1) + "0"}},
	} {
		if got := valueDifferences(tt.a, tt.b); !slices.Equal(got, tt.want) {
			t.Errorf("%.60s and %.60s differ at %q, want %q", tt.a, tt.b, got, tt.want)
		}
		same := Digest([]byte(tt.a), new(protocol.Message), nil) == Digest([]byte(tt.b), new(protocol.Message), nil)
		if same != (tt.want == nil) {
			t.Errorf("%.60s and %.60s: the digests are the same: %t", tt.a, tt.b, same)
		}
	}
}

func TestIgnoredPaths(t *testing.T) {
	a, b := `{"x":{"t":1,"u":1},"y":[{"t":1},{"t":2}],"t":{"deep":1}}`, `{"x":{"t":2,"u":2},"y":[{"t":3},{"t":4}],"t":{"deep":2}}`
	for _, tt := range []struct {
		ignore, want string
	}{
		{"x.t", "x.u y.0.t y.1.t t.deep"},
		{"*.t", "x.u y.0.t y.1.t t.deep"},
		{"y.*.t", "x.t x.u t.deep"},
		{"t", "x.t x.u y.0.t y.1.t"}, // with all that is in it
		{"*", ""},
	} {
		p, err := ParsePath(tt.ignore)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(valueDifferences(a, b, p), " "); got != tt.want {
			t.Errorf("without %s they differ at %q, want %q", tt.ignore, got, tt.want)
		}
	}
}

// Leaves says where each value is, so that it can be replaced there.
func TestLeaves(t *testing.T) {
	text := ` { "id" : 1, "a":[{"b" :"x"}, 2, [{"c":null}]], "o":{} }`
	var got []string
	Leaves([]byte(text), func(key string, at int, value []byte) {
		if text[at:at+len(value)] != string(value) {
			t.Errorf("%s is said to be at %d", value, at)
		}
		got = append(got, key+"="+string(value))
	})
	if want := []string{"id=1", `b="x"`, "c=null"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
