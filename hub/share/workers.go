package share

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/internal/wait"
)

// Workers are the workers that offer models to a group. They are a [provider.Provider].
type Workers struct {
	conn *hub.Conn
	id   string // of the broker
	here *nats.Subscription

	mu    sync.Mutex
	known map[string]worker // by id
	came  chan struct{}     // closed when the first worker is known
}

// A worker is a worker that has reported its presence.
type worker struct {
	models []string
	seen   time.Time
}

// meetTime is how long a broker that joins waits for workers to report.
const meetTime = 200 * time.Millisecond

func newWorkers(g *Group) (*Workers, error) {
	w := &Workers{conn: g.conn, id: g.id, known: map[string]worker{}, came: make(chan struct{})}
	var err error
	if w.here, err = g.conn.NATS().Subscribe(subject(g.conn, "here"), w.meet); err != nil {
		return nil, err
	}
	if g.conn.NATS().IsConnected() {
		if err := g.conn.NATS().Publish(subject(g.conn, "who"), nil); err != nil {
			return nil, err
		}
		select {
		case <-w.came:
		case <-time.After(meetTime):
		}
	}
	return w, nil
}

func (w *Workers) close() { _ = w.here.Unsubscribe() } // it fails if the connection is closed

// meet notes the presence of a worker.
func (w *Workers) meet(m *nats.Msg) {
	var p presence
	if json.Unmarshal(m.Data, &p) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(p.Models) == 0 {
		delete(w.known, p.ID)
		return
	}
	if len(w.known) == 0 {
		select {
		case <-w.came:
		default:
			close(w.came)
		}
	}
	if w.known[p.ID].models == nil && len(w.known) >= maxWorkers {
		return
	}
	w.known[p.ID] = worker{p.Models, time.Now()}
}

// Offered returns the names and patterns of models that workers offer.
func (w *Workers) Offered() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []string
	for id, one := range w.known {
		if time.Since(one.seen) > awayTime {
			delete(w.known, id)
			continue
		}
		list = append(list, one.models...)
	}
	return list
}

// match returns the longest pattern of the workers that a model matches; "" if there is
// none.
func (w *Workers) match(model string) string {
	return broker.Closest(slices.Values(w.Offered()), model)
}

// Offers reports whether a worker offers the model.
func (w *Workers) Offers(model string) bool { return w.match(model) != "" }

// Complete implements [provider.Provider].
func (w *Workers) Complete(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	return w.call(ctx, complete, r, c)
}

// CountTokens implements [provider.Counter].
func (w *Workers) CountTokens(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	return w.call(ctx, count, r, c)
}

// Embed implements [provider.Embedder].
func (w *Workers) Embed(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	return w.call(ctx, embed, r, c)
}

// A call is the broker's side of a call at a worker.
type call struct {
	*Workers
	request    *provider.Request
	completion *provider.Completion
	started    time.Time
	inbox      string
	sub        *nats.Subscription

	claim    claim // the worker's
	heard    time.Time
	number   int    // of the last message of the worker
	began    bool   // parts were emitted
	answer   []byte // pieces of the end
	offers   int
	messages chan *nats.Msg
}

// Inboxes of a call: the last word says what a message answers. A worker with a token may
// publish to an inbox only within a minute of a message that has named it.
const (
	toOffer = ".o"
	toBegin = ".b"
	toPing  = ".p"
	toCall  = ".c"
)

func (w *Workers) call(ctx context.Context, what ask, r *provider.Request, c *provider.Completion) error {
	one := &call{Workers: w, request: r, completion: c, started: time.Now(), inbox: w.conn.NATS().NewInbox(), messages: make(chan *nats.Msg, 4*window)}
	sub, err := w.conn.NATS().ChanSubscribe(one.inbox+".*", one.messages)
	if err != nil {
		return &provider.Error{Cause: provider.Unreachable, Err: fmt.Errorf("the hub: %w", err)}
	}
	one.sub = sub
	defer func() { _ = sub.Unsubscribe() }() // it fails if the connection is closed
	body := marshal(request{
		Ask: what, From: w.id, Model: r.Model, Prompt: r.Prompt, Body: r.Body, API: r.API, Before: r.Before, Header: r.Header,
		Choices: r.Choices, Stream: r.Emit != nil, Traceparent: r.Traceparent,
	})
	for {
		if err := one.offer(ctx); err != nil {
			return err
		}
		if again, err := one.run(ctx, body); !again {
			return err
		}
		_ = wait.For(ctx, busyTime) // a worker may claim calls and leave again and again
	}
}

// passed shows a hop on the tap.
func (c *call) passed(format string, args ...any) {
	if x := c.request.Exchange; x != nil {
		x.Passed(fmt.Sprintf(format, args...) + fmt.Sprintf(", %v after the call came", time.Since(c.started).Round(10*time.Microsecond)))
	}
}

// publish sends a message to the worker, or about an offer.
func (c *call) publish(to, reply, kind string, body []byte) error {
	if err := c.conn.NATS().PublishMsg(message(to, reply, kind, body)); err != nil {
		return &provider.Error{Cause: provider.Unreachable, Err: fmt.Errorf("the hub: %w", err)}
	}
	return nil
}

// busyTime is how long to wait before an offer that nobody takes is repeated.
const busyTime = 20 * time.Millisecond

// offer offers the call until a worker claims it.
func (c *call) offer(ctx context.Context) error {
	for {
		pattern := c.match(c.request.Model)
		if pattern == "" {
			return &provider.Error{Cause: provider.Unreachable, Err: fmt.Errorf("no worker offers the model %q: start one with wirectl serve --worker", c.request.Model)}
		}
		if err := c.publish(subject(c.conn, "take", encode(pattern)), c.inbox+toOffer, kindOffer, nil); err != nil {
			return err
		}
		if c.offers++; c.offers == 1 {
			c.passed("offered to the workers of %s", pattern)
		}
		claimed, err := c.claimed(ctx)
		if err != nil || claimed {
			return err
		}
	}
}

// claimed waits for a claim, and reports whether one came.
func (c *call) claimed(ctx context.Context) (bool, error) {
	timer := time.NewTimer(offerTime)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-timer.C:
			return false, nil
		case m := <-c.messages:
			switch {
			case nobody(m), kindOf(m) == kindBusy:
				timer.Reset(busyTime)
			case kindOf(m) != kindClaim || json.Unmarshal(m.Data, &c.claim) != nil:
			case !strings.HasPrefix(c.claim.Subject, subject(c.conn, "call")+"."):
				// A worker must not make a broker publish elsewhere.
			default:
				c.passed("claimed by worker %s", c.claim.ID)
				return true, nil
			}
		}
	}
}

// run makes the worker make the call. If it has certainly not begun, it may be offered
// again.
func (c *call) run(ctx context.Context, body []byte) (again bool, err error) {
	if ctx.Err() != nil {
		_ = c.publish(c.claim.Subject, "", kindCancel, nil)
		return false, context.Cause(ctx)
	}
	if err := c.publish(c.claim.Subject, c.inbox+toCall, kindPing, nil); err != nil {
		return false, err
	}
	if err := send(body, kindBegin, kindRun, func(n int, kind string, piece []byte) error {
		return c.conn.NATS().PublishMsg(numbered(message(c.claim.Subject, c.inbox+toBegin, kind, piece), n))
	}); err != nil {
		return false, &provider.Error{Cause: provider.Unreachable, Began: true, Err: fmt.Errorf("the hub: %w", err)}
	}
	if x := c.request.Exchange; x != nil {
		sent := c.request.Body
		if sent == nil {
			sent = c.request.Prompt
		}
		x.Sent("nats:"+c.claim.ID, sent)
	}
	c.heard = time.Now()
	pings := time.Tick(pingTime)
	defer c.stayHere()()
	for {
		select {
		case <-ctx.Done():
			c.cancel("cancel")
			return false, context.Cause(ctx)
		case <-pings:
			if time.Since(c.heard) > deadTime {
				return false, c.died("it has been silent for %v", deadTime)
			}
			// If it fails, the worker is silent.
			_ = c.publish(c.claim.Subject, c.inbox+toPing, kindPing, fmt.Append(nil, c.number))
		case m := <-c.messages:
			done, again, err := c.message(m)
			if done || again || err != nil {
				return again, err
			}
		}
	}
}

// died returns the error for a worker that has gone. The call is not made again, because it
// may cost money.
func (c *call) died(format string, args ...any) error {
	c.passed("worker %s died during the call", c.claim.ID)
	return &provider.Error{Cause: provider.Unreachable, Began: true, Err: fmt.Errorf("worker %s died during the call: "+format, append([]any{c.claim.ID}, args...)...)}
}

// message handles a message of the worker.
func (c *call) message(m *nats.Msg) (done, again bool, err error) {
	switch {
	case nobody(m) && strings.HasSuffix(m.Subject, toBegin):
		c.passed("worker %s left before the call began: offering it again", c.claim.ID)
		return false, true, nil
	case nobody(m) && strings.HasSuffix(m.Subject, toPing):
		return false, false, c.died("nothing listens there any more")
	case nobody(m):
		return false, false, nil
	case strings.HasSuffix(m.Subject, toOffer): // of another offer
		var late claim
		if json.Unmarshal(m.Data, &late) == nil && strings.HasPrefix(late.Subject, subject(c.conn, "call")+".") {
			_ = c.publish(late.Subject, "", kindCancel, nil)
		}
		return false, false, nil
	}
	c.heard = time.Now()
	kind := kindOf(m)
	data := kind == kindPart || kind == kindPiece || kind == kindEnd
	if c.number++; !data {
		c.number--
	} else if numberOf(m) != c.number {
		return false, false, c.died("one of its messages was lost")
	}
	switch kind {
	case kindBegun:
		c.passed("begun by worker %s", c.claim.ID)
	case kindPart:
		err = c.part(m.Data)
	case kindPiece:
		if c.answer = append(c.answer, m.Data...); len(c.answer) > maxBody {
			err = c.malformed(&provider.TooLargeError{Part: "the answer of a worker", Limit: maxBody})
		}
	case kindEnd:
		return true, false, c.end(append(c.answer, m.Data...))
	}
	if err == nil && data && c.number%(window/4) == 0 {
		err = c.publish(c.claim.Subject, c.inbox+toPing, kindAck, fmt.Append(nil, c.number))
	}
	if err != nil {
		c.cancel("failure of the client")
	}
	return false, false, err
}

// stayHere pings the worker until stop is called, so that it does not take the broker for
// dead while a slow client delays its parts.
func (c *call) stayHere() (stop func()) {
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		ticks := time.Tick(4 * pingTime)
		for {
			select {
			case <-done:
				return
			case <-ticks:
				_ = c.publish(c.claim.Subject, c.inbox+toCall, kindPing, nil)
			}
		}
	})
	return func() {
		close(done)
		running.Wait()
	}
}

func (c *call) part(text []byte) error {
	var p part
	if err := checked(text, &p); err != nil {
		return c.malformed(err)
	}
	if c.request.Emit == nil {
		return c.malformed(errors.New("it streams an answer that was requested whole"))
	}
	c.began = true
	c.completion.Choices = p.Choices
	if x := c.request.Exchange; x != nil {
		if p.Event != nil {
			x.Event(200, p.Event)
		} else {
			x.Event(200, fmt.Appendf(nil, `{"text":%s}`, firstOf(p.Text, p.Thought, []byte("null"))))
		}
	}
	return c.request.Emit(p.Part)
}

func firstOf(all ...[]byte) []byte {
	for _, one := range all {
		if one != nil {
			return one
		}
	}
	return nil
}

func (c *call) malformed(err error) error {
	return &provider.Error{Cause: provider.Overloaded, Began: true, Err: fmt.Errorf("worker %s: invalid answer: %w", c.claim.ID, err)}
}

func (c *call) end(text []byte) error {
	var e end
	if err := checked(text, &e); err != nil {
		return c.malformed(err)
	}
	*c.completion = e.Completion
	if e.Failure != nil {
		return e.Failure.error(c.claim.ID)
	}
	if x := c.request.Exchange; x != nil && !c.began {
		x.Received(200, firstOf(e.Completion.Body, e.Completion.Text))
	}
	c.passed("ended by worker %s", c.claim.ID)
	return nil
}

// cancel cancels the call at the worker, and waits a moment for the confirmation.
func (c *call) cancel(why string) {
	sent := time.Now()
	c.passed("%s sent to worker %s", why, c.claim.ID)
	if c.publish(c.claim.Subject, c.inbox+toPing, kindCancel, nil) != nil {
		return
	}
	timer := time.NewTimer(stopTime)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			c.passed("worker %s has not confirmed the %s within %v", c.claim.ID, why, stopTime)
			return
		case m := <-c.messages:
			if nobody(m) && strings.HasSuffix(m.Subject, toPing) {
				c.passed("worker %s left before the %s arrived", c.claim.ID, why)
				return
			}
			if kindOf(m) == kindBegun {
				c.passed("begun by worker %s", c.claim.ID)
			}
			var e end
			if kindOf(m) == kindEnd && json.Unmarshal(m.Data, &e) == nil {
				c.passed("worker %s stopped its %s %v after the %s came there and %v after it was sent",
					c.claim.ID, cmp.Or(e.Hop, "call"), e.Stopped.Round(time.Microsecond), why, time.Since(sent).Round(time.Microsecond))
				return
			}
		}
	}
}
