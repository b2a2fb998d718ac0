package render

import "testing"

func TestHex(t *testing.T) {
	const want = `  00000140  00 00 00 19 7b 22 69 64  22 3a 31 2c 22 74 65 78  |....{"id":1,"tex|
  00000150  74 22 3a 22 c3 a9 1b 21  22 7d 20 20 0a           |t":"...!"}  .|
`
	frame := []byte("\x00\x00\x00\x19{\"id\":1,\"text\":\"é\x1b!\"}  \n")
	if got := string(Hex{Base: 0x140, Prefix: "  "}.Append(nil, frame, nil)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The wrapper is painted, the payload is not, also where a line has both.
func TestHexPaintsTheWrapper(t *testing.T) {
	const want = `O<00000000>  D<00 00 00 02 >68 69                                 |D<....>hi|
`
	h := Hex{Start: 4, End: 6}
	if got := string(h.Append(nil, []byte("\x00\x00\x00\x02hi"), &marked)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestHexLines(t *testing.T) {
	for _, c := range []struct {
		data, want string
	}{
		{"", ""},
		{"12345678", "00000000  31 32 33 34 35 36 37 38                           |12345678|\n"},
		{"123456789", "00000000  31 32 33 34 35 36 37 38  39                       |123456789|\n"},
		{"0123456789abcdef", "00000000  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66  |0123456789abcdef|\n"},
	} {
		if got := string(Hex{End: 99}.Append(nil, []byte(c.data), nil)); got != c.want {
			t.Errorf("%q: got %q, want %q", c.data, got, c.want)
		}
	}
}

// Offsets beyond 4 GiB take the room they need.
func TestHexFarAway(t *testing.T) {
	got := string(Hex{Base: 10 << 30}.Append(nil, []byte("x"), nil))
	if want := "280000000  78                                                |x|\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
