package agui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
)

// A run judges the events of a request in their order. The zero run has had none.
type run struct {
	started, ended bool
	open           []string // what has started: kinds, and ids as written
	again          bool     // it is not the first of its request
}

// maxOpen bounds what may be open at once, and maxID the length of its id.
const (
	maxOpen = 1 << 10
	maxID   = 256
)

// members are the members that hold the id of an event, by the beginning of its type.
var members = [][2]string{
	{"TEXT_MESSAGE_", "messageId"},
	{"TOOL_CALL_", "toolCallId"},
	{"REASONING_MESSAGE_", "messageId"},
	{"REASONING_", "messageId"},
	{"STEP_", "stepName"},
}

// event judges an event. It reports whether the event is one of a run that begins after
// another in the same answer, or an error after the end.
func (r *run) event(payload []byte, m *protocol.Message) (broken []protocol.Broken, apart bool) {
	kind := string(m.Kind)
	if r.ended && (kind == "RUN_STARTED" || kind == "RUN_ERROR") {
		*r = run{started: true, again: true}
	}
	if !r.started && kind != "RUN_STARTED" && kind != "RUN_ERROR" {
		broken = append(broken, protocol.Broken{Finding: "missing-ack", How: kind + " comes before RUN_STARTED"})
	}
	r.started = true
	switch kind {
	case "RUN_FINISHED":
		if len(r.open) > 0 && !r.ended {
			broken = append(broken, protocol.Broken{Finding: "open-step", How: "these have not ended: " + strings.Join(r.open[:min(len(r.open), 8)], ", ")})
		}
		r.ended = true
	case "RUN_ERROR":
		r.ended = true
	default:
		broken = append(broken, r.step(kind, payload)...)
	}
	return broken, r.again
}

// step judges the start or the end of a step, a message or the like.
func (r *run) step(kind string, payload []byte) []protocol.Broken {
	at := slices.IndexFunc(members, func(m [2]string) bool { return strings.HasPrefix(kind, m[0]) })
	if at < 0 || r.ended {
		return nil
	}
	what, does := members[at][0], strings.TrimPrefix(kind, members[at][0])
	id, _ := jsonscan.Get(payload, members[at][1])
	agent, _ := jsonscan.Get(payload, "subagentRunId")
	if len(id)+len(agent) > maxID {
		return nil
	}
	name := strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(what, "_"), "_", " ")) + " " + string(id)
	if len(agent) > 0 && what == "STEP_" {
		name += " of " + string(agent)
	}
	i := slices.Index(r.open, name)
	switch does {
	case "START", "STARTED":
		if i >= 0 {
			return []protocol.Broken{{Finding: "duplicate-id", How: fmt.Sprintf("%s starts %s, which has not ended", kind, name)}}
		}
		if len(r.open) < maxOpen {
			r.open = append(r.open, name)
		}
	case "CONTENT", "ARGS":
		if i < 0 && len(r.open) < maxOpen {
			return []protocol.Broken{{Finding: "unknown-step", How: fmt.Sprintf("%s goes on with %s, which has not started", kind, name)}}
		}
	case "END", "FINISHED":
		if i < 0 && len(r.open) < maxOpen {
			return []protocol.Broken{{Finding: "unknown-step", How: fmt.Sprintf("%s ends %s, which has not started", kind, name)}}
		}
		if i >= 0 {
			r.open = slices.Delete(r.open, i, i+1)
		}
	}
	return nil
}

// threads are the interrupts that wait for their resume, by thread. The zero threads is
// ready to use.
type threads struct{ open map[string][]string }

// maxThreads bounds the threads that are remembered, and maxInterrupts the interrupts of
// each.
const (
	maxThreads    = 1 << 12
	maxInterrupts = 1 << 8
)

// Begin implements [protocol.Runs].
func (t *threads) Begin() func([]byte, *protocol.Message) ([]protocol.Broken, bool) {
	var r run
	return func(payload []byte, m *protocol.Message) (broken []protocol.Broken, apart bool) {
		if broken, apart = r.event(payload, m); !apart && m.Phase == protocol.Close {
			t.finished(payload)
		}
		return broken, apart
	}
}

// finished notes the interrupts with which a run ended.
func (t *threads) finished(payload []byte) {
	thread, _ := jsonscan.Get(payload, "threadId")
	list, _ := jsonscan.Get(payload, "outcome", "interrupts")
	ids := idsOf(list, "id")
	if len(ids) == 0 || len(ids) > maxInterrupts {
		delete(t.open, string(thread))
		return
	}
	if t.open == nil || len(t.open) >= maxThreads {
		t.open = map[string][]string{}
	}
	t.open[string(thread)] = ids
}

// JudgeRequest judges whether a request resumes the interrupts of its thread. A new run need not.
func (t *threads) JudgeRequest(body []byte) []protocol.Broken {
	thread, _ := jsonscan.Get(body, "threadId")
	list, resumes := jsonscan.Get(body, "resume")
	waiting, known := t.open[string(thread)]
	if !resumes || !known {
		return nil
	}
	delete(t.open, string(thread))
	given := idsOf(list, "interruptId")
	for _, id := range waiting {
		if !slices.Contains(given, id) {
			return []protocol.Broken{{Finding: "wrong-retry", How: "there is no entry for the interrupt " + id}}
		}
	}
	for _, id := range given {
		if !slices.Contains(waiting, id) {
			return []protocol.Broken{{Finding: "wrong-retry", How: "there is no interrupt " + id}}
		}
	}
	return nil
}

// idsOf returns the member of that name of each element of a list.
func idsOf(list []byte, name string) (ids []string) {
	var s jsonscan.Scanner
	s.Init(list)
	for ok := s.Array(); ok && s.Elem(); {
		if id, ok := jsonscan.Get(s.Value(), name); ok {
			ids = append(ids, string(id[:min(len(id), 256)]))
		}
	}
	return ids
}
