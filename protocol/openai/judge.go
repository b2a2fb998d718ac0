package openai

import (
	"bytes"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
	"github.com/wirectl/wirectl/protocol/internal/modelapi"
)

// Request judges whether each tool result is for a call of the conversation. A request that
// continues a conversation at the server may have calls there.
func (api) Request(body []byte) []protocol.Broken {
	var r modelapi.Results
	kept := false
	var s jsonscan.Scanner
	s.Init(body)
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "messages":
			for ok := s.Array(); ok && s.Elem(); {
				readTurn(&s, &r)
			}
		case "input":
			for ok := s.Array(); ok && s.Elem(); {
				kept = readInput(&s, &r) || kept
			}
		case "previous_response_id", "conversation":
			kept = s.NotNull() != nil || kept
		}
	}
	if s.End() != nil || kept {
		return nil
	}
	return r.Broken
}

// readTurn walks the next value, which is a message of Chat Completions.
func readTurn(s *jsonscan.Scanner, r *modelapi.Results) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "tool_call_id":
			r.Result(s.Value())
		case "tool_calls":
			for ok := s.Array(); ok && s.Elem(); {
				for ok := s.Object(); ok && s.Next(); {
					if string(s.Key()) == "id" {
						r.Call(s.Value())
					}
				}
			}
		}
	}
}

// readInput walks the next value, which is an item of the input of Responses. It reports
// whether that only refers to an item.
func readInput(s *jsonscan.Scanner, r *modelapi.Results) bool {
	var kind, id []byte
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "type":
			kind = jsonwalk.Word(s.Value())
		case "call_id":
			id = s.Value()
		}
	}
	switch {
	case id == nil:
	case strings.HasSuffix(string(kind), "_output"):
		r.Result(id)
	default:
		r.Call(id)
	}
	return string(kind) == "item_reference"
}

// Answer judges the usage, and the tool calls of a whole message.
func (api) Answer(payload []byte, m *protocol.Message, t *modelapi.Tools) []protocol.Broken {
	kind := string(m.Kind)
	response := payload
	if strings.HasPrefix(kind, "response.") {
		if kind == "response.output_item.added" {
			gatherName(payload, t)
		}
		if response = modelapi.Object(payload, "response"); response == nil || m.Phase == protocol.Part {
			return nil
		}
	}
	if m.Phase == protocol.Fail {
		return nil
	}
	gather(response, t)
	switch usage := modelapi.Object(response, "usage"); {
	case usage != nil:
		return judgeUsage(usage)
	case m.Phase == protocol.Close && len(m.StopReason) > 0:
		return modelapi.WrongUsage("%s reports no usage", kind)
	}
	return nil
}

func judgeUsage(usage []byte) []protocol.Broken {
	in, out, details := "input_tokens", "output_tokens", "input_tokens_details"
	if _, ok := jsonscan.Get(usage, in); !ok {
		in, out, details = "prompt_tokens", "completion_tokens", "prompt_tokens_details"
	}
	if _, ok := jsonscan.Get(usage, "input_token_details"); ok { // of Realtime
		details = "input_token_details"
	}
	if cached, input := modelapi.Count(usage, details, "cached_tokens"), modelapi.Count(usage, in); cached > input {
		return modelapi.WrongUsage("%d tokens are cached, of %d", cached, input)
	}
	return modelapi.Sum(usage, "total_tokens", in, out)
}

// gather adds the tool calls of an answer, or of a chunk.
func gather(answer []byte, t *modelapi.Tools) {
	if !bytes.Contains(answer, []byte(`"arguments"`)) && !bytes.Contains(answer, []byte(`"name"`)) {
		return
	}
	for _, choice := range modelapi.Elements(answer, "choices") {
		at := modelapi.Count(choice, "index")
		for _, message := range []string{"delta", "message"} {
			for j, call := range modelapi.Elements(choice, message, "tool_calls") {
				index := int64(-1)
				if raw, ok := jsonscan.Get(call, "index"); ok && jsonscan.KindOf(raw) == jsonscan.Number {
					index = jsonwalk.Count(raw)
				} else if j > 0 {
					index = int64(j)
				}
				id, _ := jsonscan.Get(call, "id")
				gatherCall(call, t.Key(at, index, jsonwalk.Word(id)), t, "function")
			}
		}
	}
	for i, item := range modelapi.Elements(answer, "output") {
		gatherCall(item, [2]int64{0, int64(i)}, t)
	}
}

// gatherName adds the name of a tool call that begins.
func gatherName(event []byte, t *modelapi.Tools) {
	if arguments, ok := jsonscan.Get(event, "item", "arguments"); ok && jsonscan.KindOf(arguments) == jsonscan.String {
		name, _ := jsonscan.Get(event, "item", "name")
		t.Add([2]int64{0, modelapi.Count(event, "output_index")}, jsonwalk.Word(name), nil)
	}
}

// gatherCall adds a tool call whose name and arguments are members below a path.
func gatherCall(call []byte, key [2]int64, t *modelapi.Tools, path ...string) {
	name, _ := jsonscan.Get(call, append(path, "name")...)
	arguments, _ := jsonscan.Get(call, append(path, "arguments")...)
	switch jsonscan.KindOf(arguments) {
	case jsonscan.Object: // as some servers write them
		t.AddWhole(jsonwalk.Word(name), arguments)
	case jsonscan.String, jsonscan.Null:
		t.Add(key, jsonwalk.Word(name), jsonwalk.Word(arguments))
	default:
		if len(jsonwalk.Word(name)) > 0 {
			t.Add(key, jsonwalk.Word(name), nil)
		}
	}
}
