package protobuf

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	latisv1 "github.com/wirectl/wirectl/protocol/schema/latis/v1"
)

// types are the message types used to test the properties.
var types = sync.OnceValue(func() []protoreflect.MessageDescriptor {
	all := []protoreflect.MessageDescriptor{
		(&latisv1.ConnectRequest{}).ProtoReflect().Descriptor(),
		(&latisv1.ConnectResponse{}).ProtoReflect().Descriptor(),
	}
	for _, name := range []string{"Torture", "Legacy", "Edition", "Special", "Delimited", "Event"} {
		all = append(all, load(name))
	}
	return all
})

// load returns a message type of the schemas in testdata.
func load(name string) protoreflect.MessageDescriptor {
	files, err := filepath.Glob("testdata/*.proto")
	if err != nil {
		panic(err)
	}
	md, _, err := LoadSchema(context.Background(), SchemaSource{Proto: files}, "torture."+name)
	if err != nil {
		panic(err)
	}
	return md
}

var schemas sync.Map

// compiled returns the same schema each time for a type.
func compiled(md protoreflect.MessageDescriptor) *Schema {
	s, _ := schemas.LoadOrStore(md, Compile(md))
	return s.(*Schema)
}

// TestJSONProperties checks the properties of [checkWire] on messages from tidy to wild.
func TestJSONProperties(t *testing.T) {
	for _, md := range types() {
		t.Run(string(md.FullName()), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				seed := rapid.Uint64().Draw(t, "seed")
				tidy := rapid.SampledFrom([]int{100, 100, 98, 90, 50}).Draw(t, "tidy")
				g := wiregen{rand.New(rand.NewPCG(seed, 0)), tidy}
				checkWire(t, md, g.message(md, 3))
			})
		})
	}
}

// TestOrderlyMessagesAreExact checks that exactness is reported at all; otherwise it would hold
// trivially.
func TestOrderlyMessagesAreExact(t *testing.T) {
	for _, md := range types() {
		t.Run(string(md.FullName()), func(t *testing.T) {
			for seed := range uint64(500) {
				g := wiregen{rand.New(rand.NewPCG(seed, 1)), 100}
				m := dynamicpb.NewMessage(md)
				if partial.Unmarshal(g.message(md, 2), m) != nil {
					continue
				}
				if _, err := moduleJSON(compiled(md), m); err != nil {
					continue // such as a time in the year 60,000
				}
				wire, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				sortFields(wire, md)
				json, exact, err := compiled(md).AppendJSON(nil, wire)
				if err != nil || !exact {
					t.Fatalf("%x:\n%s\nexact %v, error %v", wire, json, exact, err)
				}
			}
		})
	}
}

var partial = proto.UnmarshalOptions{AllowPartial: true}

type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkWire checks that AppendJSON agrees with the protobuf module on which messages are valid
// and on their value in JSON, and that an exact form restores the same bytes.
func checkWire(t tester, md protoreflect.MessageDescriptor, wire []byte) {
	t.Helper()
	s := compiled(md)
	prefix := []byte("prefix")
	got, exact, err := s.AppendJSON(prefix, wire)
	if !bytes.HasPrefix(got, prefix) || err != nil && len(got) != len(prefix) {
		t.Fatalf("%x: what stood before is lost: %q", wire, got)
	}
	got = got[len(prefix):]
	want, wantErr := viaModule(s, wire)
	if err != nil && strings.HasSuffix(err.Error(), "invalid UTF-8") && !bytes.Equal(wire, bytes.ToValidUTF8(wire, nil)) && md.Syntax() != protoreflect.Proto3 {
		return // proto2 and editions may displace a string that is not UTF-8
	}
	if err != nil && strings.HasSuffix(err.Error(), tooDeep) {
		return // the module writes JSON that no reader accepts
	}
	if errors.Is(wantErr, errOdd) {
		return // generated code and the direct way treat the odd key as unknown
	}
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("%x: error %v, want %v", wire, err, wantErr)
	}
	if err != nil {
		return
	}
	if canonicalJSON(t, got) != canonicalJSON(t, want) {
		t.Fatalf("%x:\n got %s\nwant %s", wire, got, want)
	}
	if compact := jsontext.Value(bytes.Clone(got)); compact.Compact() != nil || !bytes.Equal(compact, got) {
		t.Fatalf("%x: not compact: %s", wire, got)
	}
	back, err := s.AppendWire(nil, got)
	if err != nil {
		t.Fatalf("%x: no way back from %s: %v", wire, got, err)
	}
	if exact && !bytes.Equal(back, wire) {
		t.Fatalf("not exact:\n%x\n%x\n%s", wire, back, got)
	}
	if md.Name() == "Special" {
		return // JSON has one null for every number of google.protobuf.NullValue
	}
	again := dynamicpb.NewMessage(md)
	if err := (proto.UnmarshalOptions{AllowPartial: true, Resolver: s.types()}).Unmarshal(back, again); err != nil {
		t.Fatalf("%x: written %x: %v", wire, back, err)
	}
	if text, err := moduleJSON(s, again); err != nil || canonicalJSON(t, text) != canonicalJSON(t, want) {
		t.Fatalf("%x: written %x, which means\n%s\nwant\n%s", wire, back, text, want)
	}
}

func viaModule(s *Schema, wire []byte) ([]byte, error) {
	m := dynamicpb.NewMessage(s.md)
	if err := unmarshal(wire, m, s.types()); err != nil {
		return nil, err
	}
	return moduleJSON(s, m)
}

// unmarshal reads wire into m. The module panics on some wires; see [Schema.caught].
func unmarshal(wire []byte, m proto.Message, types resolver) (err error) {
	defer func() {
		if recover() != nil {
			err = errOdd
		}
	}()
	return proto.UnmarshalOptions{AllowPartial: true, Resolver: types}.Unmarshal(wire, m)
}

func moduleJSON(s *Schema, m proto.Message) ([]byte, error) {
	return protojson.MarshalOptions{AllowPartial: true, Resolver: lenient{s.types()}}.Marshal(m)
}

// canonicalJSON returns text in a form in which equal values are equal. It fails on duplicate
// members.
func canonicalJSON(t tester, text []byte) string {
	t.Helper()
	v := jsontext.Value(bytes.Clone(text))
	if err := v.Canonicalize(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return string(v)
}
