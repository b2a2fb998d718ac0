package protobuf

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// A censor hides values with certain names, and rewrites all other texts.
type censor struct {
	names   []string
	unknown int
}

func (c *censor) Hides(name string) bool { return slices.Contains(c.names, name) }

func (c *censor) Text(text []byte, hidden bool) []byte {
	if hidden {
		return []byte("gone")
	}
	return bytes.ReplaceAll(text, []byte("secret"), nil)
}

func (c *censor) Unknown(value []byte, hidden bool) []byte {
	c.unknown++
	return c.Text(value, hidden)
}

// A value with a hidden name is hidden with everything inside it, wherever it is, and all
// enclosing lengths are corrected.
func TestAppendEdited(t *testing.T) {
	for _, tt := range []struct {
		name, message, json, want string
		hide                      []string
	}{
		{"nothing", "Torture", `{"string":"a","int32":1}`, `{"string":"a","int32":1}`, nil},
		{"a string", "Torture", `{"string":"a","bytes":"YWJj"}`, `{"string":"gone","bytes":"YWJj"}`, []string{"string"}},
		{"bytes", "Torture", `{"bytes":"YWJj"}`, `{"bytes":"Z29uZQ=="}`, []string{"bytes"}},
		{"by form", "Torture", `{"string":"the secret!","strings":["secret","b"]}`, `{"string":"the !","strings":["","b"]}`, nil},
		{"by the name in the source", "Torture", `{"maybeString":"a"}`, `{"maybeString":"gone"}`, []string{"maybe_string"}},
		{"by the name in JSON", "Torture", `{"maybeString":"a"}`, `{"maybeString":"gone"}`, []string{"maybeString"}},
		{"by a name of its own in JSON", "Torture", `{"a \"name\"":"a"}`, `{"a \"name\"":"gone"}`, []string{`a "name"`}},
		{
			"by its oneof", "Torture", `{"torture":{"chosenString":"a"},"chosenInt":3}`,
			`{"torture":{"chosenString":"gone"},"chosenInt":0}`,
			[]string{"choice"},
		},
		{"repeated", "Torture", `{"strings":["a","","b"],"blobs":["YQ=="]}`, `{"strings":["gone","gone","gone"],"blobs":["YQ=="]}`, []string{"strings"}},
		{
			"numbers become zero, and truth values stay", "Torture",
			`{"packedInts":[1,300,-1],"looseFloats":[1.5],"packedDoubles":[2.5],"packedBools":[true],"maybeColor":"COLOR_RED","packedColors":["COLOR_RED"]}`,
			`{"packedInts":[0,0,0],"looseFloats":[0],"packedDoubles":[0],"packedBools":[true],"maybeColor":"COLOR_NONE","packedColors":["COLOR_NONE"]}`,
			[]string{"packedInts", "looseFloats", "packedDoubles", "packedBools", "maybeColor", "packedColors"},
		},
		{
			"a message with all that is in it", "Torture",
			`{"torture":{"torture":{"string":"a"},"strings":["b"],"textByText":{"k":"c"}},"string":"d"}`,
			`{"torture":{"torture":{"string":"gone"},"strings":["gone"],"textByText":{"k":"gone"}},"string":"d"}`,
			[]string{"torture"},
		},
		{
			"deep inside", "Torture", `{"tortures":[{"tortureByInt":{"1":{"string":"a","bool":true}}},{"string":"b"}]}`,
			`{"tortures":[{"tortureByInt":{"1":{"string":"gone","bool":true}}},{"string":"gone"}]}`,
			[]string{"string"},
		},
		{
			"the entries of a map with a key", "Torture", `{"textByText":{"key":"a","other":"b"}}`,
			`{"textByText":{"key":"gone","other":"b"}}`,
			[]string{"key"},
		},
		{"a map", "Torture", `{"textByText":{"a":"b"},"longByZigzag":{"7":"9"}}`, `{"textByText":{"a":"gone"},"longByZigzag":{"7":"0"}}`, []string{"textByText", "longByZigzag"}},
		{"no key and no value of a map by these words", "Torture", `{"textByText":{"a":"b"}}`, `{"textByText":{"a":"b"}}`, []string{"value"}},
		{"groups", "Legacy", `{"needed":1,"pair":{"left":"a","right":{"needed":2}}}`, `{"needed":1,"pair":{"left":"gone","right":{"needed":0}}}`, []string{"Pair", "pair"}},
		{"inside a group", "Legacy", `{"needed":1,"inner":{"data":"YQ=="}}`, `{"needed":1,"inner":{"data":"Z29uZQ=="}}`, []string{"data"}},
		{
			"inside an Any", "Special", `{"any":{"@type":"type.googleapis.com/torture.Special","plain":"a"},"plain":"b"}`,
			`{"any":{"@type":"type.googleapis.com/torture.Special","plain":"gone"},"plain":"gone"}`,
			[]string{"plain"},
		},
		{"inside a Struct", "Special", `{"object":{"key":{"a":[1,"x",null,true]},"b":2}}`, `{"object":{"key":{"a":[0,"gone",null,true]},"b":2}}`, []string{"key"}},
		{"well-known types", "Special", `{"time":"2026-11-20T09:00:00Z","boxed":"7"}`, `{"time":"1970-01-01T00:00:00Z","boxed":"0"}`, []string{"time", "boxed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := named(t, tt.message)
			wire, err := s.AppendWire(nil, []byte(tt.json))
			if err != nil {
				t.Fatal(err)
			}
			edited, err := s.AppendEdited([]byte("before"), wire, &censor{names: tt.hide})
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := s.AppendJSON(nil, bytes.TrimPrefix(edited, []byte("before")))
			if err != nil {
				t.Fatal(err)
			}
			want, _ := s.AppendWire(nil, []byte(tt.want))
			wantJSON, _, _ := s.AppendJSON(nil, want)
			if string(got) != tt.want && !bytes.Equal(got, wantJSON) {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func named(t *testing.T, name string) *Schema {
	for _, md := range types() {
		if string(md.Name()) == name {
			return compiled(md)
		}
	}
	t.Fatalf("there is no message %s", name)
	return nil
}

// The editor decides about data that the schema does not describe; inside a hidden value it is
// hidden too. A map entry is hidden even if its key comes last.
func TestAppendEditedUnknown(t *testing.T) {
	for name, tt := range map[string]struct {
		wire, want string
		unknown    int
	}{
		"a field":               {"\xba\x3e\x07secret!", "\xba\x3e\x01!", 1},
		"a number":              {"\xb8\x3e\x07", "\xb8\x3e\x07", 0},
		"a group":               {"\xbb\x3e\x0a\x07secret!\x10\x05\xbc\x3e", "\xbb\x3e\x0a\x01!\x10\x05\xbc\x3e", 1},
		"of another wire type":  {"\x72\x01a\x70\x05", "\x72\x01a\x70\x05", 0},
		"inside what is hidden": {"\x8a\x01\x05\xba\x3e\x01a\x70", "\x8a\x01\x07", -1},
		"the key comes last":    {"\x92\x03\x08\x12\x01a\x0a\x03key", "\x92\x03\x0b\x12\x04gone\x0a\x03key", 0},
		"padded lengths stay":   {"\x72\x81\x00a", "\x72\x81\x00a", 0},
	} {
		c := &censor{names: []string{"key", "torture"}}
		got, err := named(t, "Torture").AppendEdited(nil, []byte(tt.wire), c)
		switch {
		case tt.unknown < 0 && err == nil:
			t.Errorf("%s: a message that is cut was taken, as %q", name, got)
		case tt.unknown >= 0 && (err != nil || string(got) != tt.want || c.unknown != tt.unknown):
			t.Errorf("%s: %q, %v, %d unknown; want %q, %d", name, got, err, c.unknown, tt.want, tt.unknown)
		}
	}
}

// FuzzAppendEdited edits arbitrary bytes, read as any of the message types. Messages with
// nothing to edit must not change. Editing a hidden message again must change nothing.
func FuzzAppendEdited(f *testing.F) {
	for which, md := range types() {
		for seed := range uint64(20) {
			f.Add(uint8(which), wiregen{rand.New(rand.NewPCG(seed, 5)), 90}.message(md, 2))
		}
	}
	all := &hideAll{}
	f.Fuzz(func(t *testing.T, which uint8, wire []byte) {
		s := compiled(types()[int(which)%len(types())])
		same, err := s.AppendEdited(nil, wire, keepAll{})
		if err != nil {
			return
		}
		if !bytes.Equal(same, wire) {
			t.Fatalf("%x became %x for no reason", wire, same)
		}
		hidden, err := s.AppendEdited(nil, wire, all)
		if err != nil {
			t.Fatalf("%x: %v", wire, err)
		}
		again, err := s.AppendEdited(nil, hidden, all)
		if err != nil || !bytes.Equal(again, hidden) {
			t.Fatalf("%x became %x, which cannot be read again: %v", wire, hidden, err)
		}
	})
}

type keepAll struct{}

func (keepAll) Hides(string) bool                 { return false }
func (keepAll) Text(b []byte, _ bool) []byte      { return b }
func (k keepAll) Unknown(b []byte, _ bool) []byte { return b }

type hideAll struct{}

func (hideAll) Hides(string) bool             { return true }
func (hideAll) Text([]byte, bool) []byte      { return []byte("[redacted]") }
func (h hideAll) Unknown([]byte, bool) []byte { return []byte("[redacted]") }
