package jsonscan

import "testing"

// Text stands in what is written as it is: what is shown of it is what was said.
func TestMarshalKeepsText(t *testing.T) {
	got, err := Marshal(map[string]string{"text": "a < b && c > d"})
	if want := `{"text":"a < b && c > d"}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if got, err := Marshal(func() {}); err == nil {
		t.Errorf("got %s of what cannot be JSON", got)
	}
}
