package protobuf

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wirectl/wirectl/protocol"
)

// unhex parses the hex bytes of a vector. Each line may end in a # comment.
func unhex(t *testing.T, text string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	wire, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

func TestAppendJSON(t *testing.T) {
	tests := []struct {
		name, message, wire, json string
		inexact                   bool
	}{
		{
			name: "a chunk; sequence 0 is not on the wire", message: "latis.v1.ConnectResponse",
			wire: `0a 01 31                  # id "1"
			       a2 01 17                  # response_chunk
			         0a 01 31                # request_id "1"
			         12 12 4563686f3a20616e616c797a652074686973 # content`,
			json: `{"id":"1","responseChunk":{"requestId":"1","content":"Echo: analyze this"}}`,
		},
		{
			name: "a zero that proto3 leaves out", message: "latis.v1.ConnectResponse",
			wire: `a2 01 02 18 00            # response_chunk.sequence 0`,
			json: `{"responseChunk":{}}`, inexact: true,
		},
		{
			name: "an empty message in a oneof", message: "latis.v1.ConnectRequest",
			wire: `0a 01 32  62 00           # id "2", state_get`,
			json: `{"id":"2","stateGet":{}}`,
		},
		{
			name: "members and map entries in an order of their own", message: "latis.v1.ConnectRequest",
			wire: `52 10                     # prompt_send
			         12 06 0a 01 62 12 01 32 # metadata b: 2
			         12 06 0a 01 61 12 01 31 # metadata a: 1
			       0a 01 31                  # id`,
			json: `{"id":"1","promptSend":{"metadata":{"a":"1","b":"2"}}}`, inexact: true,
		},
		{
			name: "the last of two scalars wins", message: "torture.Torture",
			wire: `10 01 10 02               # int32 1, int32 2`,
			json: `{"int32":2}`, inexact: true,
		},
		{
			name: "two messages are merged", message: "torture.Torture",
			wire: `8a 01 02 10 01            # torture.int32 1
			       8a 01 02 08 01            # torture.bool true`,
			json: `{"torture":{"int32":1,"bool":true}}`, inexact: true,
		},
		{
			name: "a later member of a oneof displaces an earlier one", message: "torture.Torture",
			wire: `e0 03 01                  # chosen_int 1
			       ea 03 00                  # chosen_string ""`,
			json: `{"chosenString":""}`, inexact: true,
		},
		{
			name: "packed where the schema says packed", message: "torture.Torture",
			wire: `f2 01 0b 01 ff ff ff ff ff ff ff ff ff 01   # packed_ints 1, -1`,
			json: `{"packedInts":[1,-1]}`,
		},
		{
			name: "loose where the schema says packed", message: "torture.Torture",
			wire: `f0 01 01 f0 01 02         # packed_ints 1, 2`,
			json: `{"packedInts":[1,2]}`, inexact: true,
		},
		{
			name: "a varint with a byte to spare", message: "torture.Torture",
			wire: `10 81 00                  # int32 1`,
			json: `{"int32":1}`, inexact: true,
		},
		{
			name: "a wrong wire type is an unknown field", message: "torture.Torture",
			wire: `12 01 61                  # int32 as a string`,
			json: `{}`, inexact: true,
		},
		{
			name: "of two names for a number the first is written", message: "torture.Torture",
			wire: `80 01 01 aa 01 00 b0 01 63 # color 1, maybe_string "", maybe_color 99`,
			json: `{"color":"COLOR_RED","maybeString":"","maybeColor":99}`,
		},
		{
			name: "numbers that JSON has to quote", message: "torture.Torture",
			wire: `28 ff ff ff ff ff ff ff ff 7f       # int64
			       55 00 00 c0 7f                      # float NaN
			       69 00 00 00 00 00 00 f0 ff          # double -Infinity
			       7a 02 fb ff                         # bytes`,
			json: `{"int64":"9223372036854775807","float":"NaN","double":"-Infinity","bytes":"+/8="}`,
		},
		{
			name: "another NaN than JSON's", message: "torture.Torture",
			wire: `55 01 00 c0 7f            # float`,
			json: `{"float":"NaN"}`, inexact: true,
		},
		{
			name: "a map entry without a value", message: "torture.Torture",
			wire: `92 03 03 0a 01 61         # text_by_text a`,
			json: `{"textByText":{"a":""}}`, inexact: true,
		},
		{
			name: "the same key twice", message: "torture.Torture",
			wire: `92 03 06 0a 01 61 12 01 31
			       92 03 06 0a 01 61 12 01 32`,
			json: `{"textByText":{"a":"2"}}`, inexact: true,
		},
		{
			name: "a member of a oneof before a field with a higher number", message: "torture.Torture",
			wire: `e0 03 00                  # chosen_int 0
			       e2 12 01 61               # renamed "a"`,
			json: `{"chosenInt":0,"a \"name\"":"a"}`,
		},
		{
			name: "groups", message: "torture.Legacy",
			wire: `08 01                     # needed
			       1b 0a 01 61 1c            # Pair { left "a" }
			       23 08 01 08 02 24         # Row { cells 1, 2 }
			       23 24                     # Row {}`,
			json: `{"needed":1,"pair":{"left":"a"},"row":[{"cells":[1,2]},{}]}`,
		},
		{
			name: "an extension", message: "torture.Legacy",
			wire: `a2 06 01 61               # note "a"`,
			json: `{"[torture.note]":"a"}`,
		},
		{
			name: "a delimited message of an edition", message: "torture.Edition",
			wire: `2b 08 00 2c 10 01         # delimited { explicit 0 } implicit 1`,
			json: `{"implicit":1,"delimited":{"explicit":0}}`, inexact: true,
		},
		{
			name: "messages with a JSON form of their own", message: "torture.Special",
			wire: `0a 02 08 01               # time 1 s
			       22 02 08 05               # boxed 5
			       42 01 61                  # plain`,
			json: `{"time":"1970-01-01T00:00:01Z","boxed":"5","plain":"a"}`,
		},
		{
			name: "beside them members and map entries in an order of their own", message: "torture.Special",
			wire: `42 01 61                  # plain
			       4a 06 0a 01 7a 12 01 31   # labels z: 1
			       4a 06 0a 01 61 12 01 32   # labels a: 2
			       52 07 0a 01 7a 12 02 08 01 # times z: 1 s
			       52 05 0a 01 62 12 00      # times b: 0
			       0a 02 08 02               # time 2 s
			       5a 08                     # special
			         22 02 08 05             # boxed 5
			         0a 02 08 03             # time 3 s`,
			json: `{"plain":"a","labels":{"z":"1","a":"2"},` +
				`"times":{"z":"1970-01-01T00:00:01Z","b":"1970-01-01T00:00:00Z"},"time":"1970-01-01T00:00:02Z",` +
				`"special":[{"boxed":"5","time":"1970-01-01T00:00:03Z"}]}`,
			inexact: true,
		},
		{
			name: "around one of them too", message: "torture.Event",
			wire: `22 06 0a 01 7a 12 01 31   # labels z: 1
			       22 06 0a 01 61 12 01 32   # labels a: 2
			       12 02 08 01               # at 1 s
			       0a 01 61                  # name`,
			json: `{"labels":{"z":"1","a":"2"},"at":"1970-01-01T00:00:01Z","name":"a"}`, inexact: true,
		},
		{
			name: "a Struct has its entries in any order", message: "torture.Event",
			wire: `1a 2e                     # detail
			         0a 07 0a 01 7a 12 02 08 00 # z: null
			         0a 23 0a 01 61 12 1e 32 1c # a: a list of
			           0a 02 20 01              #   true and
			           0a 16 2a 14              #   an object with
			             0a 08 0a 01 62 12 03 1a 01 78 # b: "x"
			             0a 08 0a 02 61 61 12 02 20 00 # aa: false`,
			json: `{"detail":{"z":null,"a":[true,{"b":"x","aa":false}]}}`, inexact: true,
		},
		{
			name: "a Struct with its entries as they came", message: "torture.Event",
			wire: `1a 25                     # detail
			         0a 1a 0a 01 7a          # z:
			           12 15 2a 13           #   an object
			             0a 07 0a 01 62 12 02 20 01 # b: true
			             0a 08 12 02 20 00 0a 02 61 61 # aa, behind its value: false
			         0a 07 0a 01 61 12 02 08 00 # a: null`,
			json: `{"detail":{"z":{"b":true,"aa":false},"a":null}}`, inexact: true,
		},
		{
			name: "a Struct that comes in two pieces", message: "torture.Event",
			wire: `1a 09 0a 07 0a 01 7a 12 02 20 01 # detail z: true
			       0a 01 61                  # name
			       1a 12                     # detail again
			         0a 07 0a 01 61 12 02 08 00 # a: null
			         0a 07 0a 01 7a 12 02 20 00 # z: false, which displaces true`,
			json: `{"detail":{"z":false,"a":null},"name":"a"}`, inexact: true,
		},
		{
			name: "what an Any holds stands as on the wire", message: "torture.Event",
			wire: `2a 30                     # any
			         0a 21 747970652e676f6f676c65617069732e636f6d2f746f72747572652e4576656e74 # type.googleapis.com/torture.Event
			         12 0b                   # value
			           22 06 0a 01 7a 12 01 31 # labels z: 1
			           0a 01 61              # name`,
			json: `{"any":{"@type":"type.googleapis.com/torture.Event","labels":{"z":"1"},"name":"a"}}`, inexact: true,
		},
		{
			name: "a member of a oneof that was displaced leaves no place", message: "torture.Event",
			wire: `42 07 0a 01 61 12 02 08 08 # event { name "a", at 8 s }
			       3a 02 20 01               # value true, which displaces it
			       0a 01 62                  # name
			       42 05 12 00 0a 01 63      # event { at 0 s, name "c" }`,
			json: `{"name":"b","event":{"at":"1970-01-01T00:00:00Z","name":"c"}}`, inexact: true,
		},
		{
			name: "an extension among its kind", message: "torture.Legacy",
			wire: `a2 06 01 61               # note "a"
			       3a 00                     # shade as a string, which it is not
			       aa 06 02 08 01            # children { needed 1 }
			       08 01                     # needed
			       aa 06 05 a2 06 00 08 02   # children { note "", needed 2 }
			       38 03                     # shade`,
			json:    `{"[torture.note]":"a","[torture.children]":[{"needed":1},{"[torture.note]":"","needed":2}],"needed":1,"shade":"SHADE_DARK"}`,
			inexact: true,
		},
		{
			name: "a key of every kind that comes twice", message: "torture.Delimited",
			wire: `42 02 08 03 42 02 08 00 42 02 08 03 # by_zigzag -2, 0, -2
			       4a 05 0d 02000000 4a 05 0d 01000000 4a 05 0d 02000000 # by_fixed 2, 1, 2
			       52 09 09 ffffffffffffffff 52 00 52 09 09 ffffffffffffffff # by_long_fixed -1, 0, -1
			       3a 06 08 ffffffff0f 3a 02 08 01 3a 06 08 ffffffff0f # by_word 4294967295, 1, and again
			       32 02 08 07 32 00 32 02 08 07 # by_long 7, 0, 7`,
			json: `{"byZigzag":{"-2":"","0":""},"byFixed":{"2":"","1":""},"byLongFixed":{"-1":0,"0":0},` +
				`"byWord":{"4294967295":false,"1":false},"byLong":{"7":{},"0":{}}}`,
			inexact: true,
		},
		{
			name: "keys that are true and false", message: "torture.Torture",
			wire: `a2 03 07 08 05 12 03 ffffff # bytes_by_bool true
			       a2 03 02 08 00             # false
			       a2 03 05 08 01 12 01 01    # true`,
			json: `{"bytesByBool":{"true":"AQ==","false":""}}`, inexact: true,
		},
		{
			name: "beside what a later field displaces", message: "torture.Torture",
			wire: `92 03 06 0a 01 7a 12 01 31 # text_by_text z: 1
			       92 03 06 0a 01 61 12 01 32 # text_by_text a: 2
			       8a 01 07                   # torture
			         72 01 61                 # string "a"
			         10 01                    # int32 1, which
			         10 02                    # 2 displaces
			       08 01                      # bool`,
			json:    `{"textByText":{"z":"1","a":"2"},"torture":{"string":"a","int32":2},"bool":true}`,
			inexact: true,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := schemaOf(t, test.message)
			wire := unhex(t, test.wire)
			got, exact, err := s.AppendJSON(nil, wire)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != test.json && (!test.inexact || canonicalJSON(t, got) != canonicalJSON(t, []byte(test.json))) {
				t.Errorf("got  %s\nwant %s", got, test.json)
			}
			if exact == test.inexact {
				t.Errorf("exact is %v", exact)
			}
			if back, err := s.AppendWire(nil, got); err != nil || exact && !bytes.Equal(back, wire) {
				t.Errorf("exact is %v, but it leads back to %x, error %v", exact, back, err)
			}
		})
	}
}

func schemaOf(t *testing.T, message string) *Schema {
	t.Helper()
	for _, md := range types() {
		if string(md.FullName()) == message {
			return compiled(md)
		}
	}
	t.Fatalf("no message %s", message)
	return nil
}

func TestAppendJSONErrors(t *testing.T) {
	tests := []struct{ name, message, wire, want string }{
		{"a string cut short", "latis.v1.ConnectResponse", "0a 05 31", "id at byte 1: truncated"},
		{"a message cut short", "latis.v1.ConnectResponse", "a2 01 05 0a 01", "response_chunk at byte 2: truncated"},
		{"a tag cut short", "latis.v1.ConnectResponse", "0a 01 31 a2", "latis.v1.ConnectResponse at byte 3: truncated"},
		{"not UTF-8", "latis.v1.ConnectResponse", "a2 01 07 0a 01 31 12 02 61 ff", "response_chunk.content at byte 9: invalid UTF-8"},
		{"not UTF-8 in a map", "latis.v1.ConnectRequest", "52 06 12 04 0a 02 ff 61", "prompt_send.metadata at byte 6: invalid UTF-8"},
		{"field number 0", "latis.v1.ConnectRequest", "00 00", "latis.v1.ConnectRequest at byte 0: invalid field number"},
		{"a wire type that is none", "latis.v1.ConnectRequest", "0f", "latis.v1.ConnectRequest at byte 1: cannot parse reserved wire type"},
		{"a varint too long", "latis.v1.ConnectResponse", "a2 01 0c 18 ffffffffffffffffffff01", "response_chunk.sequence at byte 4: variable length integer overflow"},
		{"an end without a group", "torture.Legacy", "0c", "torture.Legacy at byte 1: mismatching end group marker"},
		{"a group without an end", "torture.Legacy", "1b 0a 00", "pair at byte 3: truncated"},
		{"a fault in a message that has to be merged", "torture.Torture", "10 01 10 02 8a 01 02 10 ff", "torture.int32 at byte 8: truncated"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dst, _, err := schemaOf(t, test.message).AppendJSON([]byte("kept"), unhex(t, test.wire))
			if err == nil || err.Error() != test.want {
				t.Errorf("got error %v\nwant      %s", err, test.want)
			}
			if string(dst) != "kept" {
				t.Errorf("dst became %q", dst)
			}
		})
	}
}

// Messages may be nested exactly as deep as the protobuf module allows: a payload of a few
// kilobytes must not exhaust the stack.
func TestDepth(t *testing.T) {
	s := schemaOf(t, "torture.Torture")
	var wire []byte
	for range maxDepth - 1 {
		wire = protowire.AppendBytes(protowire.AppendTag(nil, 17, protowire.BytesType), wire)
	}
	if _, _, err := s.AppendJSON(nil, wire); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	wire = protowire.AppendBytes(protowire.AppendTag(nil, 17, protowire.BytesType), wire)
	if _, _, err := s.AppendJSON(nil, wire); err == nil || !strings.HasSuffix(err.Error(), "messages are nested too deep") {
		t.Errorf("beyond the limit: error %.100v", err)
	}
}

func TestAppendWireReadsWhatPeopleWrite(t *testing.T) {
	tests := []struct{ name, message, json, wire string }{
		{"names of the schema", "latis.v1.ConnectResponse", `{"response_chunk":{"request_id":"1"}}`, "a2 01 03 0a 01 31"},
		{"white space and escapes", "latis.v1.ConnectResponse", "{ \"\\u0069d\" : \"\\u0031\" }\n", "0a 01 31"},
		{"null is absent", "latis.v1.ConnectResponse", `{"id":null,"ack":null}`, ""},
		{"integers as strings, floats or with exponents", "torture.Torture", `{"int32":"1","uint32":2.0,"packedInts":[1e1]}`, "10 01 20 02 f2 01 01 0a"},
		{"64-bit integers as numbers", "torture.Torture", `{"int64":-1}`, "28 ffffffffffffffffff01"},
		{"URL-safe base64 without padding", "torture.Torture", `{"bytes":"-_8"}`, "7a 02 fb ff"},
		{"the second name of an enum value", "torture.Torture", `{"color":"COLOR_CRIMSON"}`, "80 01 01"},
		{"a zero", "torture.Torture", `{"int32":0,"maybeInt":0}`, "a0 01 00"},
		{"an extension", "torture.Legacy", `{"[torture.note]":"a"}`, "a2 06 01 61"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := schemaOf(t, test.message).AppendWire([]byte{0xEE}, []byte(test.json))
			if want := append([]byte{0xEE}, unhex(t, test.wire)...); err != nil || !bytes.Equal(got, want) {
				t.Errorf("got %x, error %v\nwant %x", got, err, want)
			}
		})
	}
}

func TestAppendWireErrors(t *testing.T) {
	tests := []struct{ name, json, want string }{
		{"an unknown field", `{"response_chunk":{"text":"a"}}`, `response_chunk at byte 26: latis.v1.ResponseChunk has no field "text"`},
		{"a misspelt field", `{"responseChunk":{"contnet":"a"}}`, `latis.v1.ResponseChunk has no field "contnet" (did you mean content?)`},
		{"a wrong type", `{"responseChunk":{"sequence":"x"}}`, `latis.v1.ConnectResponse: (line 1:30): invalid value for uint32 field sequence: "x"`},
		{"a number too large", `{"responseChunk":{"sequence":4294967296}}`, `latis.v1.ConnectResponse: (line 1:30): invalid value for uint32 field sequence: 4294967296`},
		{"one field by both its names", `{"responseChunk":{},"response_chunk":{}}`, `latis.v1.ConnectResponse: (line 1:21): duplicate field "response_chunk"`},
		{"two members of a oneof", `{"responseChunk":{},"ack":{}}`, `latis.v1.ConnectResponse: (line 1:21): error parsing "ack", oneof latis.v1.ConnectResponse.payload is already set`},
		{"a map key twice", `{"ack":{"state":{"a":"","a":""}}}`, `latis.v1.ConnectResponse: (line 1:25): duplicate map key "a"`},
		{"not JSON", `{"id":1,}`, `invalid JSON at byte 8`},
		{"not an object", `[]`, `latis.v1.ConnectResponse: syntax error (line 1:1): unexpected token [`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dst, err := schemaOf(t, "latis.v1.ConnectResponse").AppendWire([]byte("kept"), []byte(test.json))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v\nwant      %s", err, test.want)
			}
			if string(dst) != "kept" {
				t.Errorf("dst became %q", dst)
			}
		})
	}
}

// A protocol with a schema names its messages by their full name, and reports exactness as the
// schema does.
func TestMessageProtocol(t *testing.T) {
	p := Message(schemaOf(t, "latis.v1.ConnectResponse").md)
	wire := unhex(t, "0a 01 31 a2 01 03 0a 01 31")
	var m protocol.Message
	if err := p.Parse(wire, &m); err != nil || string(m.Kind) != "latis.v1.ConnectResponse" || string(m.Text) != "1" || m.Phase != protocol.Note {
		t.Errorf("kind %s, text %s, error %v", m.Kind, m.Text, err)
	}
	json, exact, err := p.AppendJSON(nil, wire)
	if err != nil || !exact {
		t.Errorf("%s, exact %v, error %v", json, exact, err)
	}
	if back, err := p.AppendPayload(nil, json); err != nil || !bytes.Equal(back, wire) {
		t.Errorf("%x, error %v", back, err)
	}
	var fault *Error
	if err := p.Parse(wire[:5], &m); !errors.As(err, &fault) || fault.Offset != 5 {
		t.Errorf("error %v for a message cut short", err)
	}
}

func TestSchemalessProtocol(t *testing.T) {
	var m protocol.Message
	if err := (Schemaless{}).Parse(unhex(t, "08 01 0b 0c"), &m); err != nil || string(m.Kind) != "message" {
		t.Errorf("kind %s, error %v", m.Kind, err)
	}
	if err := (Schemaless{}).Parse([]byte("not protobuf"), &m); err == nil {
		t.Error("text passes for protobuf")
	}
	deep := bytes.Repeat([]byte{0x0b}, protowire.DefaultRecursionLimit+2)
	if err := (Schemaless{}).Parse(deep, &m); err == nil || err.Error() != "byte 1: groups nested deeper than 10000" {
		t.Errorf("deep groups: error %v", err)
	}
	if _, exact, err := (Schemaless{}).AppendJSON(nil, nil); exact || err != nil {
		t.Errorf("exact %v, error %v", exact, err)
	}
	if _, err := (Schemaless{}).AppendPayload(nil, []byte("[]")); err == nil || !strings.Contains(err.Error(), "--proto") {
		t.Errorf("error %v does not say what to try", err)
	}
}
