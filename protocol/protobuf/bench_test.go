package protobuf

import (
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	latisv1 "github.com/wirectl/wirectl/protocol/schema/latis/v1"
)

// latisFrames returns frames of a session: chunks of 80 bytes to 5 KiB of text with a character
// beyond ASCII or an escape every 36 bytes, and the short messages around them. They total
// megabytes, and no two texts are alike, so that the processor cannot learn their branches.
func latisFrames(tb testing.TB) [][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	var frames [][]byte
	add := func(m proto.Message) {
		wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			tb.Fatal(err)
		}
		frames = append(frames, wire)
	}
	for i := range 4096 {
		text := prose(random, 80<<(i%6)+random.IntN(80<<(i%6)))
		add(&latisv1.ConnectResponse{Id: "1", Payload: &latisv1.ConnectResponse_ResponseChunk{
			ResponseChunk: &latisv1.ResponseChunk{RequestId: "1", Content: text, Sequence: uint32(i)},
		}})
	}
	add(&latisv1.ConnectResponse{Id: "2", Payload: &latisv1.ConnectResponse_StateUpdate{
		StateUpdate: &latisv1.StateUpdate{Busy: true, State: map[string]string{"model": "m", "turn": "7"}},
	}})
	add(&latisv1.ConnectResponse{Id: "1", Payload: &latisv1.ConnectResponse_ResponseComplete{
		ResponseComplete: &latisv1.ResponseComplete{RequestId: "1"},
	}})
	return frames
}

// prose returns text of about n bytes.
func prose(random *rand.Rand, n int) string {
	const plain = "a line of text that is cut after some of its sixty or so bytes"
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(plain[:8+random.IntN(len(plain)-8)])
		b.WriteString([]string{"é", "\n", "日", "\"", "\\", "🙂"}[random.IntN(6)])
	}
	return b.String()
}

// BenchmarkAppendJSON compares writing latis frames as JSON with the protobuf module, that is,
// generated code and protojson.
func BenchmarkAppendJSON(b *testing.B) {
	frames := latisFrames(b)
	s := Compile((&latisv1.ConnectResponse{}).ProtoReflect().Descriptor())
	size := 0
	for _, wire := range frames {
		size += len(wire)
		got, exact, err := s.AppendJSON(nil, wire)
		if err != nil || !exact || canonicalJSON(b, got) != canonicalJSON(b, protojsonOf(b, wire)) {
			b.Fatalf("%x: %s, exact %v, error %v", wire, got, exact, err)
		}
	}
	b.Run("direct", func(b *testing.B) {
		b.SetBytes(int64(size))
		b.ReportAllocs()
		var dst []byte
		for b.Loop() {
			for _, wire := range frames {
				dst, _, _ = s.AppendJSON(dst[:0], wire)
			}
		}
	})
	b.Run("protojson", func(b *testing.B) {
		b.SetBytes(int64(size))
		b.ReportAllocs()
		for b.Loop() {
			for _, wire := range frames {
				protojsonOf(b, wire)
			}
		}
	})
}

func protojsonOf(tb testing.TB, wire []byte) []byte {
	var m latisv1.ConnectResponse
	if err := proto.Unmarshal(wire, &m); err != nil {
		tb.Fatal(err)
	}
	text, err := protojson.Marshal(&m)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// BenchmarkAppendWire compares the opposite direction with protojson.
func BenchmarkAppendWire(b *testing.B) {
	s := Compile((&latisv1.ConnectResponse{}).ProtoReflect().Descriptor())
	var texts [][]byte
	size := 0
	for _, wire := range latisFrames(b) {
		text, _, _ := s.AppendJSON(nil, wire)
		texts = append(texts, text)
		size += len(text)
	}
	b.Run("direct", func(b *testing.B) {
		b.SetBytes(int64(size))
		b.ReportAllocs()
		var dst []byte
		for b.Loop() {
			for _, text := range texts {
				dst, _ = s.AppendWire(dst[:0], text)
			}
		}
	})
	b.Run("protojson", func(b *testing.B) {
		b.SetBytes(int64(size))
		b.ReportAllocs()
		for b.Loop() {
			for _, text := range texts {
				var m latisv1.ConnectResponse
				if err := protojson.Unmarshal(text, &m); err != nil {
					b.Fatal(err)
				}
				if _, err := proto.Marshal(&m); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// BenchmarkSpecials converts a message with special google.protobuf types in both directions.
func BenchmarkSpecials(b *testing.B) {
	s := Compile(load("Event"))
	text := []byte(`{"name":"started","at":"2026-01-31T12:00:00.500Z","detail":{"z":[{"y":null,"b":1.5}],"a":"x"}}`)
	wire, err := s.AppendWire(nil, text)
	if err != nil {
		b.Fatal(err)
	}
	var dst []byte
	b.Run("to JSON", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dst, _, _ = s.AppendJSON(dst[:0], wire)
		}
	})
	b.Run("to JSON by the module", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := viaModule(s, wire); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("to the wire", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dst, _ = s.AppendWire(dst[:0], text)
		}
	})
}
