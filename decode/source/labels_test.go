package source_test

import (
	"slices"
	"testing"

	"github.com/wirectl/wirectl/decode/source"
)

// Several inputs are named without the folder that all of them share.
func TestLabels(t *testing.T) {
	for _, test := range [][2][]string{
		{{"a/b/x.pcapng", "a/b/y.pcapng"}, {"x.pcapng", "y.pcapng"}},
		{{"a/b/x", "a/bc/x", "a/d"}, {"b/x", "bc/x", "d"}},
		{{"/x", "y"}, {"/x", "y"}},
		{{"-", "a/x"}, {"standard input", "a/x"}},
		{{"run:1", "run:2"}, {"run:1", "run:2"}},
		{{"a/x"}, {"x"}},
		{nil, {}},
	} {
		if got := source.Labels(test[0]); !slices.Equal(got, test[1]) {
			t.Errorf("%q: %q, want %q", test[0], got, test[1])
		}
	}
}
