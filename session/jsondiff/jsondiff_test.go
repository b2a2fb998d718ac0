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
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`, []string{"a"}}, // differs in the last digit
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

// Items are matched by the first member that distinguishes all of them.
func TestNamedItems(t *testing.T) {
	for _, tt := range []struct{ about, a, b, want string }{
		{"by name", `{"l":[{"name":"x","v":1},{"name":"y"}]}`, `{"l":[{"name":"y"},{"name":"z"},{"name":"x","v":2}]}`, `l.x.v l.z l:["x","y"]>["y","x"]`},
		{"by uri, where names repeat", `{"l":[{"name":"n","uri":"x"},{"name":"n","uri":"y"}]}`, `{"l":[{"name":"n","uri":"y"}]}`, `l.x`},
		{"by id", `{"l":[{"id":1},{"id":2}]}`, `{"l":[{"id":2},{"id":3}]}`, `l.1 l.3`},
		{"ids of another run", `{"l":[{"id":1},{"id":2}]}`, `{"l":[{"id":5},{"id":6}]}`, `l.0.id l.1.id`},
		{"an id that is none", `{"l":[{"id":9},{"id":2}]}`, `{"l":[{"id":2},{"id":9}]}`, `l.0.id l.1.id`},
		{"one without a name", `{"l":[{"name":"x"},{}]}`, `{"l":[{},{"name":"x"}]}`, `l.0.name l.1.name`},
		{"from nothing", `{"l":[]}`, `{"l":[{"name":"x"}]}`, `l.x`},
		{"a batch", `[{"id":1},{"id":2}]`, `[{"id":2},{"id":1}]`, `0.id 1.id`},
	} {
		var got []string
		w := Walk{
			Named:     func(_ string, value []byte) bool { return string(value) != "9" },
			Reordered: func(keys []string, a, b []byte) { got = append(got, Join(keys)+":"+string(a)+">"+string(b)) },
			Leaf: func(keys []string, a, b []byte) {
				if !Same(a, b) {
					got = append(got, Join(keys))
				}
			},
		}
		w.Values([]byte(tt.a), []byte(tt.b))
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%s: they differ at %s, want %s", tt.about, text, tt.want)
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
		{"t", "x.t x.u y.0.t y.1.t"}, // with everything inside it
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

// Leaves reports where each value is, so that it can be replaced.
func TestLeaves(t *testing.T) {
	text := ` { "id" : 1, "a":[{"b" :"x"}, 2, [{"c":null}]], "o":{} }`
	var got []string
	Leaves([]byte(text), func(key string, at int, value []byte) {
		if text[at:at+len(value)] != string(value) {
			t.Errorf("%s is said to be at %d", value, at)
		}
		got = append(got, key+"="+string(value))
	})
	if want := []string{"id=1", `b="x"`, "a=2", "c=null"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
