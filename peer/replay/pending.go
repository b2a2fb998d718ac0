package replay

import "time"

// expectToSend adds a frame of ours and its preconditions.
func (r *run) expectToSend(i int) {
	r.unsent++
	r.moved[i] = r.started
	for _, need := range r.order.needs[i] {
		r.lacks[i]++
		r.waiters[need] = append(r.waiters[need], i)
	}
	if before := r.order.before[i]; before >= 0 {
		r.lacks[i]++
		r.after[before] = append(r.after[before], i)
	}
	if r.lacks[i] == 0 {
		r.ready = append(r.ready, i)
	}
}

// pass marks a frame of ours as sent.
func (r *run) pass(st *step) {
	r.unsent--
	for _, i := range r.after[st.index] {
		r.supply(i)
	}
}

// supply marks one precondition of a frame of ours as met.
func (r *run) supply(i int) {
	r.moved[i] = time.Now()
	if r.lacks[i]--; r.lacks[i] == 0 {
		r.ready = append(r.ready, i)
	}
}

// consume marks a frame of the peer as arrived, or as no longer expected.
func (r *run) consume(st *step) {
	if r.came[st.index] {
		return
	}
	r.came[st.index] = true
	r.left--
	for len(r.theirs) > 0 && r.came[r.theirs[0].index] {
		r.theirs = r.theirs[1:]
	}
	for _, i := range r.waiters[st.index] {
		r.supply(i)
	}
}

// missing yields the frames of the peer that have not arrived, in order.
func (r *run) missing(yield func(*step) bool) {
	for _, st := range r.theirs {
		if !r.came[st.index] && !yield(st) {
			return
		}
	}
}

// first returns the first missing frame for which may is true.
func (r *run) first(may func(*step) bool) *step {
	for st := range r.missing {
		if may(st) {
			return st
		}
	}
	return nil
}

// expected returns the missing frames of an exchange; some after the first may have
// arrived.
func (r *run) expected(exchange int) []*step {
	q := r.queues[exchange]
	for len(q) > 0 && r.came[q[0].index] {
		q = q[1:]
	}
	r.queues[exchange] = q
	return q
}

// expects reports whether frames of an exchange are missing.
func (r *run) expects(exchange int) bool { return len(r.expected(exchange)) > 0 }
