package unit

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/internal/nearest"
	latisv1 "github.com/wirectl/wirectl/protocol/schema/latis/v1"
)

// A Misbehaviour is a rule that a unit breaks on purpose, to test whether others notice. Except
// for the last two, it has the name of the finding that it causes.
type Misbehaviour struct {
	Name, About string

	// send sends a response in its own way.
	send func(d *deviation, m *latisv1.ConnectResponse)
	// first is sent before the first response, and last after everything else.
	first, last []byte
	// deaf ignores cancels.
	deaf bool
}

func isPart(m *latisv1.ConnectResponse) bool      { return m.GetResponseChunk() != nil }
func isComplete(m *latisv1.ConnectResponse) bool  { return m.GetResponseComplete() != nil }
func isCancelled(m *latisv1.ConnectResponse) bool { return m.GetResponseCancelled() != nil }

// twice sends some responses twice.
func twice(some func(*latisv1.ConnectResponse) bool) func(*deviation, *latisv1.ConnectResponse) {
	return func(d *deviation, m *latisv1.ConnectResponse) {
		d.out.addMessage(m)
		if some(m) {
			d.out.addMessage(m)
		}
	}
}

// drop does not send some responses.
func drop(some func(*latisv1.ConnectResponse) bool) func(*deviation, *latisv1.ConnectResponse) {
	return func(d *deviation, m *latisv1.ConnectResponse) {
		if !some(m) {
			d.out.addMessage(m)
		}
	}
}

// alter changes some responses.
func alter(some func(*latisv1.ConnectResponse) bool, change func(*latisv1.ConnectResponse)) func(*deviation, *latisv1.ConnectResponse) {
	return func(d *deviation, m *latisv1.ConnectResponse) {
		if some(m) {
			change(m)
		}
		d.out.addMessage(m)
	}
}

// Misbehaviours are all misbehaviours, in the order of the findings.
var Misbehaviours = []*Misbehaviour{
	{Name: "orphan", About: "answers a request that nobody made", first: []byte("\x00\x00\x00\x11\x0a\x0cnobody-asked\xfa\x01\x00")},
	{Name: "after-end", About: "ends each prompt twice", send: twice(isComplete)},
	{Name: "sequence-gap", About: "counts parts from 1", send: alter(isPart, func(m *latisv1.ConnectResponse) { m.GetResponseChunk().Sequence++ })},
	{Name: "sequence-repeat", About: "sends each part twice", send: twice(isPart)},
	{Name: "wrong-side", About: "sends a request, which only controllers do and nobody answers", first: []byte("\x00\x00\x00\x09\x0a\x05stray\x62\x00")},
	{Name: "unanswered", About: "does not end prompts", send: drop(isComplete)},
	{Name: "cancel-ignored", About: "continues a cancelled prompt", deaf: true},
	{Name: "cancel-silent", About: "does not confirm a cancel", send: drop(isCancelled)},
	{Name: "both-answers", About: "ends each prompt both as complete and as cancelled", send: func(d *deviation, m *latisv1.ConnectResponse) {
		if m.GetResponseComplete() != nil {
			const length = 4
			complete, cancelled := appendFrame(nil, m), appendFrame(nil, response(m.Id, &latisv1.ResponseCancelled{}))
			both := append(complete[length:], cancelled[length:]...)
			d.out.addRaw(append(binary.BigEndian.AppendUint32(nil, uint32(len(both))), both...))
			return
		}
		d.out.addMessage(m)
	}},
	{Name: "unknown-kind", About: "sends a message that the protocol does not have", first: []byte("\x00\x00\x00\x0a\x0a\x05stray\x9a\x06\x00")},
	{Name: "missing-field", About: "leaves out the id at the end of each prompt", send: alter(isComplete, func(m *latisv1.ConnectResponse) { m.Id = "" })},
	{Name: "bad-id", About: "gives parts a request_id that is not their id", send: alter(isPart, func(m *latisv1.ConnectResponse) { m.Id = "not-" + m.Id })},
	{Name: "malformed", About: "sends a frame that is not a message", first: []byte("\x00\x00\x00\x03\x0a\x7fx")},
	{Name: "oversize", About: "ends with a frame that is over the limit", last: []byte("\x01\x00\x00\x01\x0a\x01x")},
	{Name: "truncated", About: "ends inside a frame", last: []byte("\x00\x00\x00\x10\x0a\x01")},
	{Name: "chunk-after-cancel", About: "continues after a cancel and confirms it at the end: no finding, but parts after the cancel", deaf: true, send: func(d *deviation, m *latisv1.ConnectResponse) {
		if m.GetResponseComplete() != nil && d.ignored(m.Id) {
			m = response(m.Id, &latisv1.ResponseCancelled{})
		}
		d.out.addMessage(m)
	}},
	{Name: "log-line", About: "writes a log line before the frames, which reads as a frame that is over the limit", first: []byte("2026-01-02T03:04:05Z INFO unit is ready\n")},
}

// MisbehaviourNames returns the names of all misbehaviours, separated by commas.
func MisbehaviourNames() string { return strings.Join(misbehaviourNames(), ", ") }

func misbehaviourNames() (names []string) {
	for _, m := range Misbehaviours {
		names = append(names, m.Name)
	}
	return names
}

// MisbehaviourNamed returns the misbehaviour of that name.
func MisbehaviourNamed(name string) (*Misbehaviour, error) {
	if i := slices.Index(misbehaviourNames(), name); i >= 0 {
		return Misbehaviours[i], nil
	}
	return nil, fmt.Errorf("unknown rule %q%s; there are: %s", name, nearest.Question(name, misbehaviourNames()), MisbehaviourNames())
}

// A deviation is a misbehaviour on one connection.
type deviation struct {
	rule *Misbehaviour
	out  *outbox
	once sync.Once

	mu       sync.Mutex
	unheeded map[string]bool // ids of prompts whose cancel was ignored
}

func (d *deviation) respond(m *latisv1.ConnectResponse) {
	d.once.Do(func() { d.out.addRaw(d.rule.first) })
	if d.rule.send == nil {
		d.out.addMessage(m)
		return
	}
	d.rule.send(d, m)
}

// ignore reports whether to ignore the cancel of a prompt.
func (d *deviation) ignore(id string) bool {
	if d == nil || !d.rule.deaf {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unheeded[id] = true
	return true
}

func (d *deviation) ignored(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unheeded[id]
}
