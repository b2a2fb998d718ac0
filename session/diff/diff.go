// Package diff compares two sessions: which exchanges only one of them has, and where the
// common ones differ.
//
// It compares the content of messages, not their bytes on the wire. Ids may differ, JSON is
// compared as values, and messages of the two sides may cross in any order. A [Session] is fed
// messages; [Compare] returns a [Report] on two sessions.
package diff

import (
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// Options define what counts as a difference.
type Options struct {
	// Ignore lists members of payloads that are not compared, including everything inside
	// them.
	Ignore []jsondiff.Path
	// IgnoreKinds lists kinds of messages that are not compared. For a request, this includes
	// its answers.
	IgnoreKinds []string
	// IgnoreChunks ignores how an answer is split into parts.
	IgnoreChunks bool
	// Latency, if positive, is the factor by which an exchange must take longer in one session
	// than in the other to be reported.
	Latency float64
}

// An exchange is a request with its answers, or a single message that belongs to no request.
// It is in memory only while it is compared.
type exchange struct {
	lane     int
	opener   frame.Dir
	kind, id string
	outcome  session.Outcome
	messages []message
	ending   int // the number of the last message that ended it, from 1
}

// A message is one frame. A batch is one message.
type message struct {
	seq         int64
	dir         frame.Dir
	kind, label string
	phase       protocol.Phase
	time        time.Time
	id          string
	digest      [jsondiff.DigestSize]byte

	spill *spill // has the payload
	at    int64
	size  int
}

// payload returns the JSON form, or the bytes if the payload has no JSON form.
func (m *message) payload() []byte { return m.spill.readAt(make([]byte, m.size), m.at) }

func (e *exchange) first() int64 { return e.messages[0].seq }

// endMessage returns the message that ended the exchange, or nil if it is open.
func (e *exchange) endMessage() *message {
	if e.ending == 0 {
		return nil
	}
	return &e.messages[e.ending-1]
}

// latency returns the time from the request to the end; 0 if that is unknown.
func (e *exchange) latency() time.Duration {
	end := e.endMessage()
	if end == nil || end.time.IsZero() || e.messages[0].time.IsZero() {
		return 0
	}
	return max(0, end.time.Sub(e.messages[0].time))
}
