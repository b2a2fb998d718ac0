package gemini

import (
	"bytes"
	"slices"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
	"github.com/wirectl/wirectl/protocol/internal/modelapi"
)

// LiveSpec is the Live API, over WebSocket. The kind of a message is its first member. Turns have no
// id: a turn begins when the client's turn is complete or when the model begins to speak, and
// ends with turnComplete.
var LiveSpec = protocol.Spec{
	Protocol: live{},
	About:    "the Live API of Gemini, over WebSocket",
	// A client that speaks before a turn is over may interrupt it.
	Rules: protocol.Rules{
		UniqueIDs: true, MayHangUp: true, LeavingCancels: true, Asks: frame.C2U,
		Cancels: []protocol.CancelRule{{Target: protocol.MayAnswer}},
	},
	Recognize: recognizeLive,
	Live:      protocol.UnnamedTurns,
}

type live struct{ api }

func (live) Name() string { return "gemini-live" }

// members are the members that are kinds of messages, with their senders.
var members = []struct {
	name []byte
	from frame.Dir
}{
	{[]byte("setup"), frame.C2U},
	{[]byte("clientContent"), frame.C2U},
	{[]byte("realtimeInput"), frame.C2U},
	{[]byte("toolResponse"), frame.C2U},
	{[]byte("setupComplete"), frame.U2C},
	{[]byte("serverContent"), frame.U2C},
	{[]byte("toolCall"), frame.U2C},
	{[]byte("toolCallCancellation"), frame.U2C},
	{[]byte("goAway"), frame.U2C},
	{[]byte("sessionResumptionUpdate"), frame.U2C},
	{[]byte("usageMetadata"), frame.U2C},
}

// A liveWire holds the members of a message.
type liveWire struct {
	llm.Event
	kind                          []byte
	answers                       bool // it is the model's
	from                          frame.Dir
	model                         []byte
	complete, interrupted, reason []byte // the names of the first two if they are true
}

// Parse implements [protocol.Protocol].
func (live) Parse(payload []byte, m *protocol.Message) error {
	m.Reset()
	var s jsonscan.Scanner
	s.Init(payload)
	w := liveWire{Event: llm.Event{API: llm.Contents}}
	for ok := s.Object(); ok && s.Next(); {
		w.read(&s)
	}
	if s.End() != nil || w.kind == nil {
		m.Faults |= protocol.UnknownKind
	} else {
		w.interpret(m)
	}
	return jsonwalk.End(&s, m)
}

// read walks the next member of a message.
func (w *liveWire) read(s *jsonscan.Scanner) {
	key := s.Key()
	for _, k := range members {
		if bytes.Equal(k.name, key) && (w.kind == nil || bytes.Equal(w.kind, []byte("usageMetadata"))) {
			w.kind, w.from = k.name, k.from
		}
	}
	switch string(key) {
	case "setup":
		w.model = bytes.TrimPrefix(jsonwalk.WordIn(s, "model"), []byte("models/"))
	case "clientContent":
		for ok := s.Object(); ok && s.Next(); {
			switch string(s.Key()) {
			case "turns":
				w.Text = llm.LastText(s)
			case "turnComplete":
				w.complete = ifTrue(s)
			}
		}
	case "serverContent":
		w.readContent(s)
	case "toolCall":
		w.Read(s)
		w.Brings = true
	case "usageMetadata":
		w.Member(s)
	}
}

// ifTrue walks the next value, and returns its key if it is true.
func ifTrue(s *jsonscan.Scanner) []byte {
	key := s.Key()
	if string(s.Value()) != "true" {
		return nil
	}
	return key
}

// readContent walks the next value, a serverContent.
func (w *liveWire) readContent(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "modelTurn", "outputTranscription":
			w.answers = true
			w.Candidate(s)
		case "generationComplete":
			w.answers = ifTrue(s) != nil || w.answers
		case "turnComplete":
			w.complete = ifTrue(s)
		case "turnCompleteReason":
			w.reason = jsonwalk.Word(s.Value())
		case "interrupted":
			w.interrupted = ifTrue(s)
		}
	}
}

// interpret fills m.
func (w *liveWire) interpret(m *protocol.Message) {
	modelapi.Tell(&w.Event, m)
	m.Kind, m.From, m.Model = w.kind, w.from, w.model
	switch string(w.kind) {
	case "clientContent":
		if w.complete != nil {
			m.Phase = protocol.Open
		}
	case "toolResponse":
		m.Phase = protocol.Open // unless the turn is still open
	case "toolCall":
		m.Phase = protocol.Part
	case "serverContent":
		w.interpretContent(m)
	}
}

// interpretContent sets the effect of a serverContent on its turn.
func (w *liveWire) interpretContent(m *protocol.Message) {
	switch {
	case w.complete != nil:
		m.Phase, m.StopReason = protocol.Close, w.complete
		if w.reason != nil {
			m.StopReason = w.reason
		}
		if w.interrupted != nil {
			m.Phase, m.StopReason = protocol.Cancelled, w.interrupted
		}
		m.Label = m.StopReason
	case w.interrupted != nil:
		m.Phase, m.Empty, m.StopReason, m.Label = protocol.Part, true, w.interrupted, w.interrupted
	case w.answers:
		m.Phase, m.Empty = protocol.Part, !w.Brings
	}
}

// API says that turns are not joined: they are mostly sound.
func (live) API(string) (llm.API, bool) { return llm.Contents, false }

// Answer gathers tool calls. It does not judge the usage, which depends on the model.
func (live) Answer(payload []byte, _ *protocol.Message, t *modelapi.Tools) []protocol.Broken {
	t.Read(llm.Contents, modelapi.Object(payload, "toolCall"), true)
	return nil
}

// own are the shapes of messages that only this API has.
var own = []jsonwalk.Shape{
	{Has: `setup.model"`},
	{Has: "setupComplete{", MayHave: "usageMetadata"},
	{Has: "clientContent.turns["},
	{Has: "clientContent.turnComplete"},
	{Has: "serverContent{", MayHave: "usageMetadata"},
}

func recognizeLive(payload []byte, _ *protocol.Message) protocol.Evidence {
	return protocol.Own(slices.ContainsFunc(own, func(s jsonwalk.Shape) bool { return s.Fits(payload) }))
}
