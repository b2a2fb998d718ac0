package corpus

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"

	latisv1 "github.com/wirectl/wirectl/protocol/schema/latis/v1"
)

// A grammar appends message number n of a protocol to dst, in size bytes or a
// few less.
type grammar func(t *texter, dst []byte, n int64, size int) []byte

var grammars = map[string]grammar{
	"latis": latis,
	"mcp":   mcp,
}

// An envelope is a JSON message around an id and a text: head, id, middle,
// text, tail.
type envelope struct{ head, middle, tail string }

func (e envelope) len() int { return len(e.head) + len(e.middle) + len(e.tail) }

// The first envelope fits where the others are too large.
var mcpEnvelopes = []envelope{
	{`{"method":"notifications/progress","params":{"progressToken":`, `,"progress":3,"message":"`, `"},"jsonrpc":"2.0"}`},
	{`{"jsonrpc":"2.0","id":`, `,"method":"tools/call","params":{"name":"search","arguments":{"query":"`, `","limit":20,"exact":false}}}`},
	{`{"jsonrpc":"2.0","id":`, `,"result":{"content":[{"type":"text","text":"`, `"}],"isError":false}}`},
}

func mcp(t *texter, dst []byte, n int64, size int) []byte {
	id := strconv.FormatInt(n, 10)
	e := mcpEnvelopes[t.rnd.IntN(len(mcpEnvelopes))]
	if e.len()+len(id) > size {
		e = mcpEnvelopes[0]
	}
	dst = append(append(append(dst, e.head...), id...), e.middle...)
	dst = t.appendText(dst, size-e.len()-len(id), quoted)
	return append(dst, e.tail...)
}

// latisHeaders is the most by which tags and lengths around a text grow with the text.
const latisHeaders = 8

func latis(t *texter, dst []byte, n int64, size int) []byte {
	build := latisMessages[t.rnd.IntN(len(latisMessages))]
	id := strconv.FormatInt(n, 10)
	room := size - proto.Size(build(id, "")) - latisHeaders
	text := string(t.appendText(nil, room, plain))
	dst, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, build(id, text))
	if err != nil {
		panic(fmt.Sprintf("corpus: a message of our own: %v", err))
	}
	return dst
}

// latisMessages are the messages of a streamed answer, mostly chunks.
var latisMessages = []func(id, text string) proto.Message{
	latisChunk, latisChunk, latisChunk, latisChunk, latisPrompt, latisState, latisComplete,
}

func latisChunk(id, text string) proto.Message {
	return &latisv1.ConnectResponse{Id: id, Payload: &latisv1.ConnectResponse_ResponseChunk{
		ResponseChunk: &latisv1.ResponseChunk{RequestId: id, Content: text, Sequence: 17},
	}}
}

func latisPrompt(id, text string) proto.Message {
	return &latisv1.ConnectRequest{Id: id, Payload: &latisv1.ConnectRequest_PromptSend{
		PromptSend: &latisv1.PromptSend{Content: text, Metadata: map[string]string{"model": "large", "lang": "ja"}},
	}}
}

func latisState(id, text string) proto.Message {
	return &latisv1.ConnectResponse{Id: id, Payload: &latisv1.ConnectResponse_StateUpdate{
		StateUpdate: &latisv1.StateUpdate{Busy: true, State: map[string]string{"step": text, "tool": "search"}},
	}}
}

func latisComplete(id, text string) proto.Message {
	return &latisv1.ConnectResponse{Id: id, Payload: &latisv1.ConnectResponse_ResponseComplete{
		ResponseComplete: &latisv1.ResponseComplete{RequestId: id, Metadata: map[string]string{"tokens": "412", "note": text}},
	}}
}
