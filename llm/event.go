package llm

import (
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// An Event is what a body, or an event of a stream, says by itself. One walk reads all APIs: their
// names for a thing differ, but none means another thing elsewhere. Values are as written, strings
// with their quotes, and nil if they are missing. They borrow from the text, so that reading
// allocates nothing.
type Event struct {
	API          API
	Kind, Object []byte // the members type and object
	ID, Model    []byte
	Stop         []byte // why the model stopped
	Status, Why  []byte // of a response, and why it is incomplete or was cancelled
	Usage, Error []byte
	Code         []byte // of an error without an object of its own,
	Message      []byte // and its text, or that of a finish
	Text         []byte // the last text, or piece of arguments
	Tool         []byte // the name of the last tool call
	Tier         []byte // of service
	Asks         []byte // the name of the member that makes it a request
	Failed       bool   // the error is that of the event, rather than of a response in it
	Brings       bool   // it has text or a tool call
	Some         bool   // it has a choice, a candidate, or output,
	Chunk        bool   // or a piece of a choice

	sink *Decoder
}

// Read walks the next value: a body, an event, or an array of events.
func (e *Event) Read(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		e.Member(s)
	}
	for ok := s.Peek() == jsonscan.Array && s.Array(); ok && s.Elem(); {
		e.Read(s)
	}
}

// Member walks the current member of a body or an event.
func (e *Event) Member(s *jsonscan.Scanner) { e.member(s, true) }

// member walks the current member of a body or an event, or of the message or response in it.
func (e *Event) member(s *jsonscan.Scanner, top bool) {
	switch string(s.Key()) {
	case "type":
		if top {
			e.Kind = s.Value()
		}
	case "object":
		if e.Object = s.Value(); top && string(bare(e.Object)) == "error" {
			e.Failed = true
		}
	case "id", "responseId", "response_id":
		e.ID = s.Value()
	case "model", "modelVersion":
		e.Model = s.Value()
	case "messages", "prompt", "input", "contents", "requests":
		e.ask(s)
	case "content":
		switch e.API {
		case Messages:
			e.list(s, fragment{whole: true})
		case Contents:
			e.ask(s)
		}
	case "message", "response":
		if s.Peek() == jsonscan.String {
			e.Message = s.Value()
		}
		for ok := s.Object(); ok && s.Next(); {
			e.member(s, false)
		}
	case "delta", "text", "refusal", "arguments", "transcript":
		if isDelta := string(s.Key()) == "delta"; s.Peek() == jsonscan.String {
			e.piece(s.Value(), isDelta)
		} else if isDelta {
			e.fragment(s, fragment{chunk: true})
		}
	case "content_block":
		e.fragment(s, fragment{begins: true})
	case "item":
		e.fragment(s, fragment{begins: true, mute: true})
	case "output":
		if e.Some = true; e.sink == nil || !e.sink.Chunks || e.sink.isEmpty() {
			e.list(s, fragment{whole: true})
		}
	case "functionCalls":
		e.list(s, fragment{isCall: true, whole: true})
	case "choices":
		for ok := s.Array(); ok && s.Elem(); {
			e.choice(s)
		}
	case "candidates":
		e.Some = e.Some || e.sink == nil
		for i, ok := 0, s.Array(); ok && s.Elem(); i++ {
			if e.Some = true; i == 0 || e.sink == nil || e.sink.Calls { // the first one counts
				e.Candidate(s)
			}
		}
	case "usage", "usageMetadata":
		if usage := s.NotNull(); usage != nil {
			e.Usage = usage
		}
	case "service_tier":
		e.Tier = s.Value()
	case "x_groq":
		if usage := member(s.Value(), "usage"); usage != nil {
			e.Usage = usage
		}
	case "error":
		if fault := s.NotNull(); fault != nil {
			e.Error, e.Failed = fault, e.Failed || top
		}
	case "code":
		e.Code = s.Value()
	case "status":
		e.Status = s.Value()
	case "stop_reason":
		e.Stop = s.Value()
	case "finishMessage":
		e.Message = s.Value()
	case "incomplete_details", "status_details", "promptFeedback":
		for ok := s.Object(); ok && s.Next(); {
			switch string(s.Key()) {
			case "reason":
				e.Why = s.Value()
			case "error":
				e.Error = s.NotNull()
			case "blockReason":
				e.Stop, e.Some = s.Value(), true
			}
		}
	}
}

// ask notes that the next value makes the event a request.
func (e *Event) ask(s *jsonscan.Scanner) {
	if k := s.Peek(); e.sink == nil && (k == jsonscan.String || k == jsonscan.Array || string(s.Key()) == "content") {
		e.Asks, e.Text = s.Key(), LastText(s)
	}
}

// LastText walks the next value, and returns the last text in it, such as that of the last
// message of a conversation; nil if there is none.
func LastText(s *jsonscan.Scanner) (text []byte) {
	switch s.Peek() {
	case jsonscan.String:
		text = s.Value()
	case jsonscan.Array:
		for ok := s.Array(); ok && s.Elem(); {
			if t := LastText(s); t != nil {
				text = t
			}
		}
	case jsonscan.Object:
		for ok := s.Object(); ok && s.Next(); {
			switch string(s.Key()) {
			case "content", "parts", "text", "output":
				if t := LastText(s); t != nil {
					text = t
				}
			}
		}
	}
	return text
}

// choice walks the next value, which is a choice: whole, or a piece of one.
func (e *Event) choice(s *jsonscan.Scanner) {
	var f fragment
	if d := e.sink; d != nil {
		choice := s.Value()
		n := place(member(choice, "index"))
		switch {
		case d.Calls:
			d.offset = n << 20
		case d.Chunks && n > 0, !d.Chunks && e.Some: // the first one counts
			return
		}
		s = new(jsonscan.Scanner)
		s.Init(choice)
	}
	e.Some = true
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "finish_reason":
			if reason := s.NotNull(); len(reason) > len(`""`) {
				e.Stop = reason
			}
		case "error":
			if fault := s.NotNull(); fault != nil {
				e.Error, e.Failed = fault, true
			}
		case "usage":
			if usage := s.NotNull(); usage != nil {
				e.Usage = usage
			}
		case "text": // of the older Completions
			e.addText(s.Value(), false)
		case "delta", "message":
			f.chunk = string(s.Key()) == "delta"
			e.Chunk = e.Chunk || f.chunk
			e.fragment(s, f)
		}
	}
}

// Candidate walks the next value, which is a candidate of Gemini, its content, or a transcription.
func (e *Event) Candidate(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "finishReason":
			if reason := s.NotNull(); len(reason) > len(`""`) {
				e.Stop = reason
			}
		case "finishMessage":
			e.Message = s.Value()
		case "text": // of a transcription
			e.addText(s.Value(), false)
		case "content":
			e.Candidate(s)
		case "parts":
			e.list(s, fragment{whole: true})
		}
	}
}

// list walks the next value: fragments or texts, or one of them.
func (e *Event) list(s *jsonscan.Scanner, f fragment) {
	switch s.Peek() {
	case jsonscan.Array:
		for i, ok := 0, s.Array(); ok && s.Elem(); i++ {
			if f.index = i; s.Peek() != jsonscan.Array {
				e.list(s, f)
			}
		}
	case jsonscan.Object:
		e.fragment(s, f)
	case jsonscan.String, jsonscan.Number, jsonscan.True, jsonscan.False:
		if raw := s.Value(); !f.isCall {
			f.text = raw
			e.emit(&f)
		}
	}
}

// A fragment is a part of an answer in any API: a block, an item, a part, a delta, or a tool call.
type fragment struct {
	kind, id, callID, name, text, thought, arguments, signature []byte

	index     int  // of the fragment in the answer or the list
	indexed   bool // which it tells itself
	chunk     bool // it is a piece
	whole     bool // it has all of its call
	begins    bool // its arguments may follow
	mute      bool // its text comes otherwise
	isCall    bool
	isThought bool
	custom    bool
	refuses   bool
}

// fragment walks the next value.
func (e *Event) fragment(s *jsonscan.Scanner, f fragment) {
	inner := fragment{mute: f.mute, chunk: f.chunk, isThought: f.isThought}
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "type":
			f.kind = s.Value()
		case "index":
			if raw := s.NotNull(); raw != nil {
				f.index, f.indexed = place(raw), true
			}
		case "id":
			f.id = s.Value()
		case "call_id":
			f.callID = s.Value()
		case "name":
			f.name = s.Value()
		case "text":
			f.text = s.Value()
		case "refusal":
			if refusal := s.NotNull(); len(refusal) > len(`""`) {
				f.text, f.refuses = refusal, true
			}
		case "thinking", "reasoning", "reasoning_content":
			if s.Peek() == jsonscan.Array {
				inner.isThought = true
				e.list(s, inner)
			} else if thought := s.Value(); len(f.thought) <= len(`""`) {
				f.thought = thought
			}
		case "thought":
			f.isThought = s.Peek() == jsonscan.True
		case "arguments", "args", "input", "partial_json":
			f.arguments = s.Value()
		case "thoughtSignature":
			f.signature = s.Value()
		case "function", "functionCall", "custom":
			if s.Peek() == jsonscan.Object {
				f.isCall, f.custom = true, string(s.Key()) == "custom"
				f.describe(s)
			}
		case "stop_reason":
			e.Stop = s.Value()
		case "content", "summary":
			switch k := s.Peek(); {
			case e.API == Messages: // of a tool that the provider runs
			case k == jsonscan.Array, k == jsonscan.Object:
				e.list(s, inner)
			default:
				if text := s.NotNull(); len(text) > len(`""`) || !f.refuses && text != nil {
					f.text = text
				}
			}
		case "tool_calls", "function_call":
			e.emit(&f) // text comes before
			f.text, f.thought = nil, nil
			e.list(s, fragment{isCall: true, whole: !f.chunk})
		case "inlineData", "images":
			if k := s.Peek(); e.sink != nil && (k == jsonscan.Object || k == jsonscan.Array && string(s.NotNull()) != "[]") {
				e.sink.Answer.Media = true
			}
			e.Brings = true
		case "executableCode", "codeExecutionResult":
			e.Brings = true
		}
	}
	e.emit(&f)
}

// describe walks the next value, which describes a tool call.
func (f *fragment) describe(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "name":
			f.name = s.Value()
		case "arguments", "args", "input":
			f.arguments = s.Value()
		case "id":
			f.id = s.Value()
		}
	}
}

// emit passes a fragment on.
func (e *Event) emit(f *fragment) {
	kind := bare(f.kind)
	if !f.isThought {
		f.isThought = string(kind) == "summary_text" || string(kind) == "reasoning_text"
	}
	if !f.mute || e.sink == nil {
		e.addText(f.thought, true)
		if e.sink != nil && f.refuses {
			e.sink.Answer.Refused = true
		}
		if k := jsonscan.KindOf(f.text); e.sink != nil && (k == jsonscan.Number || k == jsonscan.True || k == jsonscan.False) {
			f.text = Quote(string(f.text))
		}
		if !f.begins || len(f.text) > len(`""`) {
			e.addText(f.text, f.isThought)
		}
	}
	ownTool := false // it is a call of a tool of the provider
	switch string(kind) {
	case "tool_use", "function_call", "custom_tool_call":
		f.isCall = true
	case "input_json_delta":
	case "mcp_call":
		ownTool = true
	default:
		ownTool = strings.HasSuffix(string(kind), "tool_use")
	}
	switch {
	case e.sink != nil && (f.isCall || string(kind) == "input_json_delta" || ownTool && e.sink.Calls):
		e.sink.addCall(f, string(kind))
	case e.sink != nil:
	case f.isCall || ownTool:
		if len(f.name) > len(`""`) {
			e.Tool, e.Brings = f.name, true
		} else if e.Tool == nil {
			e.addText(f.arguments, false)
		}
	case jsonscan.KindOf(f.arguments) == jsonscan.String:
		e.addText(f.arguments, false)
	}
}

// bare returns a string without its quotes, with its escapes; nil for anything else.
func bare(token []byte) []byte {
	if jsonscan.KindOf(token) != jsonscan.String {
		return nil
	}
	return token[1 : len(token)-1]
}

// addText adds a text, if it is one.
func (e *Event) addText(token []byte, isThought bool) {
	if jsonscan.KindOf(token) != jsonscan.String {
		return
	}
	if len(token) > len(`""`) {
		e.Text, e.Brings = token, true
	}
	switch {
	case e.sink == nil || e.sink.Calls:
	case isThought:
		e.sink.thinking(token)
	default:
		e.sink.text(token)
	}
}

// piece adds a string of an event of Responses: a delta, or the whole that ends it.
func (e *Event) piece(token []byte, isDelta bool) {
	if e.sink == nil || !isDelta {
		if len(token) > len(`""`) {
			e.Text, e.Brings = token, true
		}
		return
	}
	switch kind := string(bare(e.sink.kind)); {
	case strings.Contains(kind, "reasoning"):
		e.addText(token, true)
	case strings.Contains(kind, "arguments"), strings.Contains(kind, "_input."):
		e.sink.addCall(&fragment{arguments: token}, "input_json_delta")
	case strings.Contains(kind, "refusal"):
		e.sink.Answer.Refused = true
		e.addText(token, false)
	case strings.Contains(kind, "text"):
		e.addText(token, false)
	}
}
