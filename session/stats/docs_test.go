package stats

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// The documentation page of the object has all its keys.
func TestEveryKeyIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/stats.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{Report{}, Kind{}, Name{}, Tools{}, Quantiles{}, Gap{}, Holdup{}, Exchange{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if key != "" && !strings.Contains(string(page), "`"+key+"`") {
				t.Errorf("docs/stats.md does not tell of %s", key)
			}
		}
	}
}
