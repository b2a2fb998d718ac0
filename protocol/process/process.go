// Package process defines what a run of an agent tells about its processes: that one has started or
// ended. No such message was on a wire.
package process

import (
	"bytes"
	"fmt"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// Spec is the grammar: a process is a call that its exit answers. The kind of a start is what started:
// an agent, a server or a command of the shell, which is named by its command.
var Spec = protocol.Spec{
	Protocol: events{"process"},
	About:    "processes of a run of an agent",
	Rules: protocol.Rules{
		NoWire:    true,
		NoOutput:  true,
		Varies:    []string{"time", "parent"},
		LooseRefs: true,
		MayLeave:  true,
		Outlined:  true,
		Endless:   []string{"agent", "server"},
		Asks:      frame.C2U,
	},
	Recognize: own.Recognize,
	Kept:      []string{"event", "time", "pid", "parent", "what", "status", "signal"},
	Labels:    protocol.Tools,
	Joins:     []protocol.Join{{As: protocol.CarriesOut, Path: "keys//call"}},
}

type events struct{ jsonwalk.Named }

type line struct {
	event   []byte `at:"event,word"`
	pid     []byte `at:"pid"`
	what    []byte `at:"what,word"`
	name    []byte `at:"name,word"`
	command []byte `at:"command"`
	status  []byte `at:"status"`
	signal  []byte `at:"signal,word"`
}

var paths = jsonwalk.PathsOf[line]()

// Parse implements [protocol.Protocol].
func (events) Parse(payload []byte, m *protocol.Message) error {
	var l line
	return paths.Parse(payload, m, &l, func() { l.interpret(m) })
}

func (l *line) interpret(m *protocol.Message) {
	m.ID = jsonwalk.Token(l.pid, protocol.SpaceID)
	switch string(l.event) {
	case "start":
		m.Kind, m.Phase, m.From = l.event, protocol.Open, frame.C2U
		m.Label, m.Text = l.name, l.command
		switch string(l.what) {
		case "agent", "server":
			m.Kind = l.what
		case "shell":
			m.Kind = l.what
			if command := jsonwalk.Word(l.command); len(command) > 0 {
				m.Label = firstOf(command)
			}
		}
	case "exit":
		m.Kind, m.Phase, m.From = l.event, protocol.Close, frame.U2C
		m.Reason = l.signal
		switch string(l.signal) {
		case "":
			if n := jsonwalk.Count(l.status); n > 0 || bytes.HasPrefix(l.status, []byte("-")) {
				m.ToolError, m.Label, m.Reason = true, l.status, statuses[min(n, maxStatus)]
			}
		case "SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE", "SIGKILL", "interrupt", "terminated", "hangup", "broken pipe", "killed": // somebody has ended it
			m.Phase = protocol.Cancelled
		default:
			m.Phase, m.Label = protocol.Fail, l.signal
		}
	default:
		m.Faults |= protocol.UnknownKind
	}
	if m.ID.IsZero() && m.Faults&protocol.UnknownKind == 0 {
		m.Faults |= protocol.MissingField
	}
}

// statuses are texts for the statuses of exits; the first and the last are for others.
const maxStatus = 256

var statuses = func() (list [maxStatus + 1][]byte) {
	for n := range list {
		list[n] = fmt.Appendf(nil, "exit status %d", n)
	}
	list[0], list[maxStatus] = []byte("exit status"), []byte("exit status")
	return list
}()

// firstOf returns the beginning of a command: of its first line, with whole escapes.
func firstOf(command []byte) []byte {
	const most = 60
	first, _, _ := bytes.Cut(command, []byte(`\n`))
	if len(first) <= most {
		return first
	}
	first = render.Clip(first, most)
	const escape = len(`\u000`)
	if i := bytes.LastIndexByte(first, '\\'); i >= len(first)-escape {
		first = first[:i]
	}
	return bytes.TrimRight(first, `\ `)
}

const startMay = "parent name command keys"

// own are the shapes of events that no other protocol has.
var own = jsonwalk.Shapes{
	"agent":  {{Has: `event" time" pid what"`, MayHave: startMay}},
	"server": {{Has: `event" time" pid what"`, MayHave: startMay}},
	"shell":  {{Has: `event" time" pid what"`, MayHave: startMay}},
	"exit":   {{Has: `event" time" pid status`, MayHave: "signal"}},
}
