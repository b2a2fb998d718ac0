// Package opaque has protocols for payloads of no known protocol: JSON texts of which only the
// kind is known, and bytes.
package opaque

import (
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// JSON treats every JSON text as a message. Its kind is that of the value: object, array,
// string, number, true, false or null.
var JSON protocol.Protocol = jsonText{"json"}

// Bytes treats every payload as a message of the kind bytes.
var Bytes protocol.Protocol = anything{}

// The specs of these. Payloads of no known protocol have no rules.
var (
	JSONSpec  = protocol.Spec{Protocol: JSON, About: "any other JSON"}
	BytesSpec = protocol.Spec{Protocol: Bytes, About: "anything else"}
)

type jsonText struct{ jsonwalk.Named }

// Parse validates payload. It implements [protocol.Protocol].
func (jsonText) Parse(payload []byte, m *protocol.Message) error {
	m.Reset()
	var s jsonscan.Scanner
	s.Init(payload)
	kind := kindNames[s.Peek()]
	if err := s.End(); err != nil {
		m.Faults = protocol.UnknownKind
		return err
	}
	m.Kind, m.Text, m.Multiline = kind, payload, s.Newline()
	if _, _, ok := s.Duplicate(); ok {
		m.Faults = protocol.DuplicateKey
	}
	if _, ok := s.Unpaired(); ok {
		m.Faults |= protocol.LoneSurrogate
	}
	return nil
}

var kindNames = [...][]byte{
	jsonscan.Object: []byte("object"),
	jsonscan.Array:  []byte("array"),
	jsonscan.String: []byte("string"),
	jsonscan.Number: []byte("number"),
	jsonscan.True:   []byte("true"),
	jsonscan.False:  []byte("false"),
	jsonscan.Null:   []byte("null"),
}

// KindBytes is the kind of every message of [Bytes].
var KindBytes = []byte("bytes")

type anything struct{}

func (anything) Name() string                { return "bytes" }
func (anything) Encoding() protocol.Encoding { return protocol.Opaque }

// Parse accepts any payload. It returns no error.
func (anything) Parse(payload []byte, m *protocol.Message) error {
	m.Reset()
	m.Kind, m.Text = KindBytes, payload
	return nil
}
