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

// An answer holds the members of an event, which may be wrapped. It is not in JSON-RPC of version 0.3,
// and in the answer to a request about a task.
type answer struct {
	message        []byte `at:"message"`
	task           []byte `at:"task"`
	statusUpdate   []byte `at:"statusUpdate"`
	artifactUpdate []byte `at:"artifactUpdate"`

	members `at:"message|task|statusUpdate|artifactUpdate"`
}

type members struct {
	kind      []byte `at:"kind,word"`
	id        []byte `at:"id"`
	taskID    []byte `at:"taskId"`
	contextID []byte `at:"contextId"`
	state     []byte `at:"status.state,word"`
	final     bool   `at:"final,true"`
	artifacts int    `at:"artifacts[]"`
	artifact  []byte `at:"artifact.artifactId"`
	appends   bool   `at:"append,true"`
	last      bool   `at:"lastChunk,true"`
}

var paths = jsonwalk.PathsOf[answer]()

// kinds are the events of version 0.3.
var kinds = map[string]form{"message": message, "task": task, "status-update": status, "artifact-update": artifact}

// readResult reads an event.
func (e *event) readResult(result []byte) {
	var a answer
	var s jsonscan.Scanner
	s.Init(result)
	paths.Read(&s, &a)
	_ = s.End()
	e.word, e.state, e.final, e.artifacts = a.state, states[string(a.state)], a.final, a.artifacts
	e.context, e.piece = idToken(a.contextID, protocol.SpaceSession), protocol.Piece{Of: a.artifact, Appends: a.appends, Last: a.last}
	for f, wrapped := range [...][]byte{message: a.message, task: a.task, status: a.statusUpdate, artifact: a.artifactUpdate} {
		if jsonscan.KindOf(wrapped) == jsonscan.Object {
			e.form, e.wrapped = form(f), true
		}
	}
	if f := kinds[string(a.kind)]; f != other {
		e.form, e.flat = f, true
	}
	id := idToken(a.id, protocol.SpaceTask)
	if e.form == other && e.state != noState && !id.IsZero() {
		e.form = task // without a wrapper
	}
	if e.task = idToken(a.taskID, protocol.SpaceTask); e.form == task {
		e.task = id
	}
}
