package protobuf

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// FuzzAppendJSON checks the properties of [checkWire] on arbitrary bytes, read as any of the
// message types.
func FuzzAppendJSON(f *testing.F) {
	for which, md := range types() {
		for seed := range uint64(20) {
			g := wiregen{rand.New(rand.NewPCG(seed, 2)), 90}
			f.Add(uint8(which), g.message(md, 2))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, wire []byte) {
		checkWire(t, types()[int(which)%len(types())], wire)
	})
}

// FuzzAppendWire compares the way from JSON to the wire with the protobuf module.
func FuzzAppendWire(f *testing.F) {
	for which, md := range types() {
		for seed := range uint64(20) {
			g := wiregen{rand.New(rand.NewPCG(seed, 3)), 95}
			text, _, _ := compiled(md).AppendJSON(nil, g.message(md, 2))
			f.Add(uint8(which), text)
		}
	}
	f.Add(uint8(2), []byte(`{"packedInts":[1,2e0,"3"],"packed_bools":[true],"float":1e400,"int32":null,"int32":1}`))
	f.Add(uint8(2), []byte(`{"color":"COLOR_CRIMSON","bytes":"_-8","bytesByBool":{"true":"AA"},"chosenInt":0,"chosenString":null}`))
	f.Add(uint8(2), []byte(`{"textByText":{"a":"","\u0061":"x"},"uint32":-0,"double":"1.5","int64":"+5","uint64":"007"}`))
	f.Add(uint8(2), []byte(`{"int32":2e}`))
	f.Fuzz(func(t *testing.T, which uint8, text []byte) {
		checkJSON(t, compiled(types()[int(which)%len(types())]), text)
	})
}

// checkJSON checks that AppendWire agrees with the protobuf module on which
// texts are messages, and on the resulting messages.
func checkJSON(t tester, s *Schema, text []byte) {
	t.Helper()
	if jsonscan.Valid(text) != nil { // the module does not always detect this: it accepts 2e as a number
		if wire, err := s.AppendWire(nil, text); err == nil {
			t.Fatalf("%s: accepted as %x", text, wire)
		}
		return
	}
	want := dynamicpb.NewMessage(s.md)
	wantErr := protojson.UnmarshalOptions{AllowPartial: true, Resolver: lenient{s.types()}}.Unmarshal(text, want)
	wire, err := s.AppendWire(nil, text)
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("%s: error %v, want %v", text, err, wantErr)
	}
	got := dynamicpb.NewMessage(s.md)
	if err == nil && (unmarshal(wire, got, s.types()) != nil || !proto.Equal(got, want)) {
		t.Fatalf("%s:\n got %v\nwant %v", text, got, want)
	}
}

// FuzzFields checks that the view without a schema is JSON on one line for exactly those
// payloads that are sequences of fields.
func FuzzFields(f *testing.F) {
	for _, md := range types() {
		for seed := range uint64(10) {
			f.Add(wiregen{rand.New(rand.NewPCG(seed, 4)), 90}.message(md, 3))
		}
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		got, err := appendFields(nil, wire)
		if valid := isFields(wire); valid != (err == nil) {
			t.Fatalf("%x: valid %v, but error %v", wire, valid, err)
		}
		if err != nil {
			return
		}
		if !json.Valid(got) || bytes.ContainsAny(got, "\n\r") {
			t.Fatalf("%x: not one line of JSON: %s", wire, got)
		}
	})
}
