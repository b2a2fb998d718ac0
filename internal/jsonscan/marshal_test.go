package jsonscan

import "testing"

// Marshal does not change text, so that it is shown as it was said.
func TestMarshalKeepsText(t *testing.T) {
	got, err := Marshal(map[string]string{"text": "a < b && c > d"})
	if want := `{"text":"a < b && c > d"}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if got, err := Marshal(func() {}); err == nil {
		t.Errorf("got %s of what cannot be JSON", got)
	}
}
