package protobuf

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

func TestAppendFields(t *testing.T) {
	tests := []struct{ name, wire, want string }{
		{"nothing", "", `[]`},
		{"a varint", "08 96 01", `[{"field":1,"wire":"varint","value":150}]`},
		{
			"the last integer that is safe, and the first that is not",
			"08 ff ff ff ff ff ff ff 0f  08 80 80 80 80 80 80 80 10",
			`[{"field":1,"wire":"varint","value":9007199254740991},{"field":1,"wire":"varint","value":"9007199254740992"}]`,
		},
		{
			"fixed sizes", "0d 01 00 00 00  11 ff ff ff ff ff ff ff ff",
			`[{"field":1,"wire":"i32","value":1},{"field":2,"wire":"i64","value":"18446744073709551615"}]`,
		},
		{"text", "0a 05 68 65 6c 6c 6f", `[{"field":1,"wire":"len","text":"hello"}]`},
		{"empty", "0a 00", `[{"field":1,"wire":"len","text":""}]`},
		{"text of two lines is not a message", "0a 03 61 0a 62", `[{"field":1,"wire":"len","text":"a\nb"}]`},
		{
			"a message that begins like a line break and a space",
			"0a 22 0a 20 " + strings.Repeat("61", 32),
			`[{"field":1,"wire":"len","message":[{"field":1,"wire":"len","text":"` + strings.Repeat("a", 32) + `"}]}]`,
		},
		{"a message", "0a 02 08 01", `[{"field":1,"wire":"len","message":[{"field":1,"wire":"varint","value":1}]}]`},
		{"bytes", "0a 04 de ad be ef", `[{"field":1,"wire":"len","bytes":"3q2+7w=="}]`},
		{"a group", "0b 10 01 0c", `[{"field":1,"wire":"group","message":[{"field":2,"wire":"varint","value":1}]}]`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := appendFields([]byte("> "), unhex(t, test.wire))
			if err != nil || string(got) != "> "+test.want {
				t.Errorf("got  %s, error %v\nwant > %s", got, err, test.want)
			}
		})
	}
}

func TestAppendFieldsErrors(t *testing.T) {
	tests := []struct{ name, wire, want string }{
		{"cut in a value", "08 01 12 05 61", "field 2 at byte 3: truncated"},
		{"cut in a tag", "08 01 80", "byte 2: truncated"},
		{"cut in a group in a group", "0b 13 08", "field 1.2.1 at byte 3: truncated"},
		{"an end without a group", "0c", "field 1 at byte 1: mismatching end group marker"},
		{"text", "6e 6f 74 20", "field 13 at byte 1: cannot parse reserved wire type"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dst, err := appendFields([]byte("kept"), unhex(t, test.wire))
			if err == nil || err.Error() != test.want {
				t.Errorf("got error %v\nwant      %s", err, test.want)
			}
			if string(dst) != "kept" {
				t.Errorf("dst became %q", dst)
			}
		})
	}
}

// Beyond the depth limit a message is shown as bytes. A megabyte of nesting costs no more than
// its depth times its size.
func TestAppendFieldsBoundsDepth(t *testing.T) {
	wire := []byte{0x08, 0x01}
	for len(wire) < 1<<20 {
		wire = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), wire)
		wire = append(wire, 0x08, 0x01)
		if len(wire) > 1000 {
			wire = append(wire, wire...)
		}
	}
	got, err := appendFields(nil, wire)
	if err != nil || !bytes.Contains(got, []byte(`"bytes":`)) || bytes.Count(got, []byte(`[`)) == 0 {
		t.Errorf("%.200s, error %v", got, err)
	}

	groups := bytes.Repeat([]byte{0x0b}, 100)
	groups = append(groups, bytes.Repeat([]byte{0x0c}, 100)...)
	if got, err := appendFields(nil, groups); err != nil || !bytes.Contains(got, []byte(`"bytes":`)) {
		t.Errorf("%s, error %v", got, err)
	}
}
