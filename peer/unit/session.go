package unit

import (
	"context"
	"crypto/rand"
	"maps"
	"strconv"
	"sync"
	"time"
)

// maxSessions is how many sessions a unit keeps.
const maxSessions = 4096

// A session is the state that outlives the connections of one controller.
type session struct {
	id       string
	metadata map[string]string
	// over is done when the session has been destroyed.
	over    context.Context
	destroy context.CancelCauseFunc

	// The fields below are guarded by the mutex of sessions.
	prompts  int // answered prompts
	cutOff   int // prompts that lost their connection before the answer
	attached int // connections that use it
	expiry   *time.Timer
}

// sessions are the sessions of a unit.
type sessions struct {
	ttl time.Duration

	mu  sync.Mutex
	all map[string]*session
}

// create makes a session and attaches the caller to it.
func (s *sessions) create(metadata map[string]string) (*session, *Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= maxSessions {
		return nil, errorf(Busy, "there are %d sessions already; destroy some or wait until they expire", len(s.all))
	}
	n := &session{id: "s-" + rand.Text(), metadata: metadata, attached: 1}
	n.over, n.destroy = context.WithCancelCause(context.Background())
	s.all[n.id] = n
	return n, nil
}

// resume attaches the caller to a session and returns its state.
func (s *sessions) resume(id string) (*session, map[string]string, *Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.all[id]
	if n == nil {
		return nil, nil, errorf(UnknownSession, "no session %q", id)
	}
	n.attached++
	if n.expiry != nil {
		n.expiry.Stop()
		n.expiry = nil
	}
	return n, n.state(), nil
}

// leave detaches the caller from a session, which then lives for its TTL.
func (s *sessions) leave(n *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.attached--
	if n.attached > 0 || n.over.Err() != nil {
		return
	}
	if s.ttl <= 0 {
		s.endSession(n)
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(s.ttl, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if n.expiry == timer {
			s.endSession(n)
		}
	})
	n.expiry = timer
}

// remove destroys a session and cancels its prompts.
func (s *sessions) remove(id string) *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.all[id]
	if n == nil {
		return errorf(UnknownSession, "no session %q", id)
	}
	s.endSession(n)
	return nil
}

func (s *sessions) endSession(n *session) {
	if n.expiry != nil {
		n.expiry.Stop()
		n.expiry = nil
	}
	delete(s.all, n.id)
	n.destroy(ErrCancelled)
}

// none reports whether there is no session that could be resumed.
func (s *sessions) none() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all) == 0
}

// ended counts a prompt: as answered, even if the answer was a cancel, or as cut off by the end
// of its connection.
func (s *sessions) ended(n *session, answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answered {
		n.prompts++
	} else {
		n.cutOff++
	}
}

// state returns the state of a session.
func (s *sessions) state(n *session) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return n.state()
}

func (n *session) state() map[string]string {
	state := map[string]string{}
	maps.Copy(state, n.metadata)
	state["session_id"] = n.id
	state["prompts"] = strconv.Itoa(n.prompts)
	if n.cutOff > 0 {
		state["cut_off"] = strconv.Itoa(n.cutOff)
	}
	return state
}
