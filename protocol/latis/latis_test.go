package latis_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/latis"
	latisv1 "github.com/wirectl/wirectl/protocol/schema/latis/v1"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

// message returns the wire form of the message that the JSON describes.
func message(t testing.TB, m proto.Message, json string) string {
	t.Helper()
	if err := protojson.Unmarshal([]byte(json), m); err != nil {
		t.Fatal(err)
	}
	wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(wire)
}

func request(t testing.TB, json string) string {
	return message(t, &latisv1.ConnectRequest{}, json)
}

func response(t testing.TB, json string) string {
	return message(t, &latisv1.ConnectResponse{}, json)
}

func unhex(t testing.TB, s string) string {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestVectors(t *testing.T) { prototest.Vectors(t, latis.Protocol) }

func TestParse(t *testing.T) {
	prototest.Cases(t, latis.Protocol, []prototest.Case{
		{request(t, `{"id":"1","promptSend":{"content":"hi","metadata":{"a":"b"}}}`), `PROMPT_SEND open from=c2u id=1`},
		{request(t, `{"id":"3","promptCancel":{"targetId":"1"}}`), `PROMPT_CANCEL cancel from=c2u id=3 ref=1 ref-space=id`},
		{request(t, `{"id":"2","stateGet":{}}`), `STATE_GET open from=c2u id=2`},
		{request(t, `{"id":"2","stateSubscribe":{"unsubscribe":true}}`), `STATE_SUBSCRIBE open from=c2u id=2`},
		{request(t, `{"id":"2","sessionCreate":{}}`), `SESSION_CREATE open from=c2u id=2`},
		{request(t, `{"id":"2","sessionResume":{"sessionId":"s"}}`), `SESSION_RESUME open from=c2u id=2 ref=s ref-space=session`},
		{request(t, `{"id":"2","sessionDestroy":{"sessionId":"s"}}`), `SESSION_DESTROY open from=c2u id=2 ref=s ref-space=session`},
		{request(t, `{"id":"2","ping":{"timestamp":"5"}}`), `PING open from=c2u id=2`},
		{response(t, `{"id":"1","responseChunk":{"requestId":"1","content":"x"}}`), `RESPONSE_CHUNK part from=u2c id=1 seq=0`},
		{response(t, `{"id":"1","responseChunk":{"requestId":"1","content":"x","sequence":7}}`), `RESPONSE_CHUNK part from=u2c id=1 seq=7`},
		{response(t, `{"id":"1","responseComplete":{"requestId":"1"}}`), `RESPONSE_COMPLETE close from=u2c id=1`},
		{response(t, `{"id":"1","responseCancelled":{"requestId":"1"}}`), `RESPONSE_CANCELLED cancelled from=u2c id=1`},
		{response(t, `{"id":"2","stateUpdate":{"busy":true}}`), `STATE_UPDATE close from=u2c id=2`},
		{response(t, `{"id":"1","error":{"requestId":"1","code":"UNKNOWN_TARGET","message":"x"}}`), `ERROR fail from=u2c id=1 label=UNKNOWN_TARGET`},
		{response(t, `{"id":"1","ack":{"requestId":"1","sessionId":"s"}}`), `ACK close from=u2c id=1 label=s`},
		{response(t, `{"id":"2","pong":{"pingTimestamp":"5"}}`), `PONG close from=u2c id=2`},

		// An answer without an id is matched by its request_id; one with
		// another id says two things.
		{response(t, `{"responseComplete":{"requestId":"1"}}`), `RESPONSE_COMPLETE close from=u2c id=1 faults=missing-field`},
		{response(t, `{"id":"2","responseComplete":{"requestId":"1"}}`), `RESPONSE_COMPLETE close from=u2c id=2 ref=1 ref-space=id faults=bad-id`},

		{request(t, `{"stateGet":{}}`), `STATE_GET open from=c2u faults=missing-field`},
		{request(t, `{"id":"3","promptCancel":{}}`), `PROMPT_CANCEL cancel from=c2u id=3 faults=missing-field`},
		{unhex(t, "0a01ff6200"), "STATE_GET open from=c2u id=\xff faults=bad-id"},
		{request(t, `{"id":"1"}`), `unknown note id=1 faults=unknown-kind`},
		{unhex(t, "0a0131820800"), `unknown note id=1 faults=unknown-kind`}, // field 128
		{unhex(t, "0a01316001"), `unknown note id=1 faults=unknown-kind`},   // field 12, but a varint
		{"", `unknown note faults=unknown-kind,missing-field`},

		// As in every protobuf message, the last one counts, a payload in
		// pieces is one payload, and fields stand in any order.
		{unhex(t, "62000a0132"), `STATE_GET open from=c2u id=2`},
		{unhex(t, "0a01310a01326200"), `STATE_GET open from=c2u id=2`},
		{unhex(t, "0a01325a030a01316200"), `STATE_GET open from=c2u id=2 faults=both-answers`},
		{unhex(t, "0a0131a201030a0131a201021803"), `RESPONSE_CHUNK part from=u2c id=1 seq=3`},
	})
}

func TestText(t *testing.T) {
	prototest.Texts(t, latis.Protocol, map[string]string{
		request(t, `{"id":"1","promptSend":{"content":"hi"}}`):                          "hi",
		response(t, `{"id":"1","responseChunk":{"requestId":"1","content":"x"}}`):       "x",
		response(t, `{"id":"1","error":{"requestId":"1","code":"C","message":"oops"}}`): "oops",
	})
}

// An error names the payload and the byte.
func TestMalformed(t *testing.T) {
	for wire, want := range map[string]string{
		"0a0131a2":             "byte 3: truncated",
		"0a01":                 "byte 0: truncated",
		"0a01315a030a0531":     "PROMPT_CANCEL at byte 5: truncated",
		"0a01315a0307":         "byte 3: truncated",
		"0a01316201":           "byte 3: truncated",
		"0a01310f":             "byte 3: cannot parse reserved wire type",
		"0a013162020fff":       "STATE_GET at byte 5: cannot parse reserved wire type",
		"0a0131ffffffffffffff": "byte 3: truncated",
		"0a0131808080803000":   "byte 3: invalid field number", // 1610612736 is above 536870911

		"0a0131" + strings.Repeat("0b", 10_002): "byte 3: groups nested deeper than 10000",
	} {
		var m protocol.Message
		if err := latis.Protocol.Parse([]byte(unhex(t, wire)), &m); err == nil || err.Error() != want {
			t.Errorf("%.40s: %v, want %s", wire, err, want)
		}
	}
}

// The JSON form is that of protojson, and gives back the bytes.
func TestTranscode(t *testing.T) {
	vectors, err := fixtures.Vectors("latis")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		want := v.Header["json"]
		if want == "" {
			continue
		}
		json, exact, err := latis.Protocol.AppendJSON(nil, v.Bytes)
		if err != nil || string(json) != want {
			t.Errorf("%s: %s, %v, want %s", v.Name, json, err, want)
		}
		wire, err := latis.Protocol.AppendPayload(nil, json)
		if err != nil || exact != bytes.Equal(wire, v.Bytes) {
			t.Errorf("%s: %s is % x, %v, want % x; exact is %v", v.Name, json, wire, err, v.Bytes, exact)
		}
	}
}

// Names as in the source are read too, as protojson reads them.
func TestAppendPayloadBySourceName(t *testing.T) {
	wire, err := latis.Protocol.AppendPayload(nil, []byte(`{"id":"1","response_complete":{"request_id":"1"}}`))
	if want := unhex(t, "0a0131aa01030a0131"); err != nil || string(wire) != want {
		t.Errorf("% x, %v, want % x", wire, err, want)
	}
}

func TestNoAllocs(t *testing.T) {
	prototest.NoAllocs(t, latis.Protocol,
		request(t, `{"id":"1","promptSend":{"content":"hi","metadata":{"a":"b"}}}`),
		request(t, `{"id":"3","promptCancel":{"targetId":"1"}}`),
		response(t, `{"id":"1","responseChunk":{"requestId":"1","content":"x","sequence":300}}`))
}

// walk is what makes a payload well-formed: fields all the way, and fields
// inside each of the payloads.
func walk(wire []byte) error {
	for len(wire) > 0 {
		num, typ, n, err := consumeField(wire)
		if err != nil {
			return err
		}
		if typ == protowire.BytesType && num != 1 && latis.Knows(num) {
			_, _, tag := protowire.ConsumeTag(wire)
			inner, _ := protowire.ConsumeBytes(wire[tag:])
			for len(inner) > 0 {
				_, _, n, err := consumeField(inner)
				if err != nil {
					return err
				}
				inner = inner[n:]
			}
		}
		wire = wire[n:]
	}
	return nil
}

// consumeField is protowire's, which takes numbers that are too large.
func consumeField(wire []byte) (num protowire.Number, typ protowire.Type, n int, err error) {
	num, typ, n = protowire.ConsumeField(wire)
	if n < 0 {
		return 0, 0, 0, protowire.ParseError(n)
	}
	if !num.IsValid() {
		return 0, 0, 0, errors.New("invalid field number")
	}
	return num, typ, n, nil
}

func FuzzParse(f *testing.F) { prototest.Fuzz(f, latis.Protocol, walk) }

func BenchmarkParse(b *testing.B) {
	prose := prototest.Prose(4000)
	prototest.Bench(b, latis.Protocol, map[string]string{
		"chunk-100B":  response(b, `{"id":"42","responseChunk":{"requestId":"42","content":"`+prototest.Prose(80)+`","sequence":17}}`),
		"chunk-4KiB":  response(b, `{"id":"42","responseChunk":{"requestId":"42","content":"`+prose+`","sequence":17}}`),
		"prompt-4KiB": request(b, `{"id":"42","promptSend":{"content":"`+prose+`","metadata":{"model":"m"}}}`),
	})
}
