package a2a

import (
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// form is the content of an answer.
type form uint8

const (
	other    form = iota
	message       // a message without a task
	task          // a task
	status        // an update of its status
	artifact      // a piece of an artifact
)

// state is the state of a task.
type state uint8

const (
	noState     state = iota
	working           // it goes on by itself
	interrupted       // it waits for the client
	completed
	failed
	cancelled
)

// states are the states in JSON: of version 0.3, of version 1.0, and of an SDK of version 0.3
// that spells one differently in REST.
var states = map[string]state{
	"submitted": working, "TASK_STATE_SUBMITTED": working,
	"working": working, "TASK_STATE_WORKING": working,
	"input-required": interrupted, "TASK_STATE_INPUT_REQUIRED": interrupted,
	"auth-required": interrupted, "TASK_STATE_AUTH_REQUIRED": interrupted,
	"completed": completed, "TASK_STATE_COMPLETED": completed,
	"failed": failed, "TASK_STATE_FAILED": failed,
	"rejected": failed, "TASK_STATE_REJECTED": failed,
	"canceled": cancelled, "TASK_STATE_CANCELED": cancelled, "TASK_STATE_CANCELLED": cancelled,
}

// effects are the effects of states on the task.
var effects = [...]protocol.Phase{
	noState: protocol.Open, working: protocol.Open, interrupted: protocol.Open,
	completed: protocol.Close, failed: protocol.Fail, cancelled: protocol.Cancelled,
}

// An event is an answer about a task.
type event struct {
	form          form
	flat          bool // it has a kind, as in version 0.3
	wrapped       bool // it is the only member of an object
	task, context protocol.Token
	state         state
	word          []byte // the state as written
	final         bool
	artifacts     int
	piece         protocol.Piece
}

// Answer fills m from the result of an answer, or from its body in REST.
func Answer(result []byte, m *protocol.Message) {
	var e event
	e.readResult(result)
	e.tell(m)
	switch {
	case e.flat:
		m.Version = v03
		if e.form == status && e.state >= completed && !e.final {
			m.Faults |= protocol.MissingField
		}
	case e.wrapped:
		m.Version = v10
	}
}

// tell fills m.
func (e *event) tell(m *protocol.Message) {
	if e.form == other || e.form == message {
		return
	}
	m.Bind, m.Context, m.Label = e.task, e.context, e.word
	if e.task.IsZero() {
		return
	}
	m.Operation = protocol.Effect{Does: effects[e.state], Of: e.task}
	switch {
	case m.Operation.Does != protocol.Open:
	case e.form == task:
		m.GoesOn, m.Count = true, e.artifacts
	default:
		m.Phase, m.Operation.Does, m.Piece = protocol.Part, protocol.Part, e.piece
	}
}

// wrappers are the members of version 1.0 that hold an event.
var wrappers = map[string]form{"message": message, "task": task, "statusUpdate": status, "artifactUpdate": artifact}

// kinds are the events of version 0.3.
var kinds = map[string]form{"message": message, "task": task, "status-update": status, "artifact-update": artifact}

// readResult reads an event, which may be wrapped. It is not in JSON-RPC of version 0.3, and in
// the answer to a request about a task.
func (e *event) readResult(result []byte) {
	var id, taskID protocol.Token
	var s jsonscan.Scanner
	s.Init(result)
	for ok := s.Object(); ok && s.Next(); {
		key := s.Key()
		if f := wrappers[string(key)]; f != other && s.Peek() == jsonscan.Object {
			e.form, e.wrapped = f, true
			e.readEvent(&s, &id, &taskID)
			continue
		}
		e.readMember(&s, string(key), &id, &taskID)
	}
	_ = s.End()
	if e.form == other && e.state != noState && !id.IsZero() {
		e.form = task // without a wrapper
	}
	e.task = taskID
	if e.form == task {
		e.task = id
	}
}

// readEvent walks the next value, which is an event.
func (e *event) readEvent(s *jsonscan.Scanner, id, taskID *protocol.Token) {
	for ok := s.Object(); ok && s.Next(); {
		e.readMember(s, string(s.Key()), id, taskID)
	}
}

// readMember reads a member of an event.
func (e *event) readMember(s *jsonscan.Scanner, key string, id, taskID *protocol.Token) {
	switch key {
	case "kind":
		if f := kinds[string(jsonwalk.Word(s.Value()))]; f != other {
			e.form, e.flat = f, true
		}
	case "id":
		*id = idToken(s.Value(), protocol.SpaceTask)
	case "taskId":
		*taskID = idToken(s.Value(), protocol.SpaceTask)
	case "contextId":
		e.context = idToken(s.Value(), protocol.SpaceSession)
	case "status":
		e.word = jsonwalk.WordIn(s, "state")
		e.state = states[string(e.word)]
	case "final":
		e.final = isTrue(s)
	case "artifacts":
		for ok := s.Array(); ok && s.Elem(); {
			e.artifacts++
		}
	case "artifact":
		e.piece.Of = jsonwalk.Member(s, "artifactId")
	case "append":
		e.piece.Appends = isTrue(s)
	case "lastChunk":
		e.piece.Last = isTrue(s)
	}
}

func isTrue(s *jsonscan.Scanner) bool { return string(s.Value()) == "true" }
