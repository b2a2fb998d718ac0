package a2a

import (
	"embed"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/protocol/protobuf"
)

// Messages of gRPC are read by field number. Except for requests, lf.a2a.v1 and the older
// a2a.v1 have the same numbers.

// fields walks a message, and calls bytes or number for each field, until the message ends or
// is malformed.
func fields(wire []byte, bytes func(protowire.Number, []byte), number func(protowire.Number, uint64)) {
	for len(wire) > 0 {
		field, typ, size := protowire.ConsumeField(wire)
		if size < 0 {
			return
		}
		_, _, tag := protowire.ConsumeTag(wire)
		raw := wire[tag:size]
		wire = wire[size:]
		switch {
		case typ == protowire.BytesType:
			value, _ := protowire.ConsumeBytes(raw)
			bytes(field, value)
		case typ == protowire.VarintType && number != nil:
			value, _ := protowire.ConsumeVarint(raw)
			number(field, value)
		}
	}
}

// textIn returns the first field of that number.
func textIn(wire []byte, number protowire.Number) (text []byte) {
	fields(wire, func(n protowire.Number, value []byte) {
		if n == number && text == nil {
			text = value
		}
	}, nil)
	return text
}

// quoted returns the token of an id as in JSON, so that a task has the same token in all
// bindings.
func quoted(id []byte, space protocol.Space) protocol.Token {
	if len(id) == 0 {
		return protocol.Token{}
	}
	return protocol.Token{Space: space, Text: jsonscan.AppendQuote(nil, id)}
}

// named returns the task that a request names. Before version 1.0 requests had no tenant, so
// field numbers were one lower, and fields held resource names instead of ids.
func (c *Call) named(body []byte) protocol.Token {
	var id []byte
	switch {
	case c.Message:
		if id = textIn(textIn(body, 2), 3); id == nil && string(c.Version) < V10 {
			id = textIn(textIn(body, 1), 3)
		}
	case string(c.Version) < V10:
		for _, field := range []protowire.Number{1, 2} {
			if name, ok := strings.CutPrefix(string(textIn(body, field)), "tasks/"); ok {
				name, _, _ = strings.Cut(name, "/")
				id = []byte(name)
			}
		}
	case c.Newer == "CreateTaskPushNotificationConfig":
		id = textIn(body, 3)
	case c.About, c.Config:
		id = textIn(body, 2)
	}
	return quoted(id, protocol.SpaceTask)
}

// answerProto fills m from a message of the server: a task, or a wrapper with one field, whose
// number tells the form.
func (c *Call) answerProto(body []byte, m *protocol.Message) {
	var e event
	switch {
	case c.Newer == "GetTask" || c.Newer == "CancelTask":
		e.form = task
		e.readProto(body)
	case c.Message || c.Newer == "SubscribeToTask":
		fields(body, func(n protowire.Number, value []byte) {
			if n <= 4 {
				e.form = [...]form{other, task, message, status, artifact}[n]
				e.readProto(value)
			}
		}, nil)
	}
	e.tell(m)
}

// protoStates are the words of the states, by their numbers.
var protoStates = [...]string{
	"TASK_STATE_UNSPECIFIED", "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED", "TASK_STATE_FAILED",
	"TASK_STATE_CANCELED", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_REJECTED", "TASK_STATE_AUTH_REQUIRED",
}

// readProto reads a task, or an update of its status or its artifacts.
func (e *event) readProto(wire []byte) {
	fields(wire, func(n protowire.Number, value []byte) {
		switch {
		case n == 1:
			e.task = quoted(value, protocol.SpaceTask)
		case n == 2:
			e.context = quoted(value, protocol.SpaceSession)
		case n == 3 && e.form == artifact:
			e.piece.Of = quoted(textIn(value, 1), protocol.SpaceID).Text
		case n == 3:
			fields(value, func(protowire.Number, []byte) {}, func(n protowire.Number, v uint64) {
				if n == 1 && v < uint64(len(protoStates)) {
					e.word = []byte(protoStates[v])
					e.state = states[protoStates[v]]
				}
			})
		case n == 4 && e.form == task:
			e.artifacts++
		}
	}, func(n protowire.Number, v uint64) {
		if e.form == artifact {
			e.piece.Appends = e.piece.Appends || n == 4 && v != 0
			e.piece.Last = e.piece.Last || n == 5 && v != 0
		}
	})
}

//go:embed v03.proto v10.proto
var schemas embed.FS

// methods are compiled on first use.
var methods = sync.OnceValue(func() *protobuf.Methods {
	files, err := protobuf.EmbeddedFile(schemas, "v03.proto", "v10.proto")
	if err != nil {
		panic(err) // a test compiles them
	}
	return protobuf.NewMethods(files...)
})

// Messages returns the protocols of the requests and answers of gRPC calls to that path, or
// false if it is not of A2A.
func Messages(path string) (request, answer protocol.Protocol, ok bool) {
	service, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if services[service] == nil {
		return nil, nil, false
	}
	request, answer, ok = methods().Messages(path)
	if ok {
		request, answer = overGRPC{request.(typed)}, overGRPC{answer.(typed)}
	}
	return request, answer, ok
}

// REST is the protocol of the bodies over REST, which do not name their methods.
var REST protocol.Protocol = rest{opaque.JSON}

type rest struct{ protocol.Protocol }

func (rest) Name() string { return Name }

// overGRPC is the protocol of a message over gRPC.
type overGRPC struct{ typed }

type typed interface {
	protocol.Transcoder
	protobuf.Edited
}

func (overGRPC) Name() string { return Name }
