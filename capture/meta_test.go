package capture_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// A capture edited by hand may spell the fields of a head in any case.
func TestFieldsAreReadAsTheyAreWritten(t *testing.T) {
	m, err := capture.ParseMeta([]byte(`{"headers":{"X-B":"1","a":"2","x-b":"3","A":"4"}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []frame.Field{{Name: "x-b", Value: "1, 3"}, {Name: "a", Value: "2, 4"}}
	if diff := cmp.Diff(want, m.Head.Fields); diff != "" {
		t.Error(diff)
	}
	if got, want := string(capture.AppendMeta(nil, m)), `{"headers":{"x-b":"1, 3","a":"2, 4"}}`; got != want {
		t.Errorf("written again it is %s, want %s", got, want)
	}
}
