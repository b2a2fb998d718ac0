package share

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/llm"
)

// WorkOptions are the options of a worker.
type WorkOptions struct {
	URL    string
	Broker *broker.Broker // makes the calls
	// Publisher shows the calls on the tap; it may be nil.
	Publisher *observe.Publisher
	// Models are the names and patterns of the models that are offered.
	Models []string
	// Parallel is how many calls may run at once.
	Parallel int
	Warn     func(string)
}

// A Worker makes calls for brokers.
type Worker struct {
	options WorkOptions
	conn    *hub.Conn
	id      string
	subject string // of its calls, without their number

	mu     sync.Mutex
	jobs   map[string]*job // by the number of the call
	number int
	takes  []*nats.Subscription // of offers; nil while there is no free slot
	ending bool

	others  []*nats.Subscription
	ctx     context.Context // of all calls
	cancel  context.CancelCauseFunc
	stop    chan struct{}
	running sync.WaitGroup
}

// errBrokerGone says that the broker of a call is silent.
var errBrokerGone = fmt.Errorf("%w: its broker has been silent for %v", broker.ErrGone, deadTime)

// Work starts a worker.
func Work(o WorkOptions) (*Worker, error) {
	a, err := hub.ParseAddress(o.URL)
	if err != nil {
		return nil, err
	}
	conn, err := hub.Dial(a, nats.MaxReconnects(-1), nats.ReconnectWait(beat), nats.ReconnectBufSize(-1), nats.IgnoreAuthErrorAbort(),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				o.Warn(fmt.Sprintf("the hub does not answer (%v): no calls arrive until it does", err))
			}
		}), nats.ReconnectHandler(func(*nats.Conn) { o.Warn("the hub answers again") }))
	if err != nil {
		return nil, err
	}
	w := &Worker{options: o, conn: conn, id: conn.Host() + "-" + random(), jobs: map[string]*job{}, stop: make(chan struct{})}
	w.subject = subject(conn, "call", conn.Host(), w.id)
	w.ctx, w.cancel = context.WithCancelCause(context.Background())
	calls, err1 := conn.NATS().Subscribe(w.subject+".*", w.message)
	who, err2 := conn.NATS().Subscribe(subject(conn, "who"), func(*nats.Msg) { w.say(o.Models) })
	w.others = []*nats.Subscription{calls, who}
	w.mu.Lock()
	err3 := w.open()
	w.mu.Unlock()
	if err := errors.Join(err1, err2, err3); err != nil {
		conn.Close()
		return nil, err
	}
	w.running.Go(w.keep)
	return w, nil
}

// ID returns the name of the worker.
func (w *Worker) ID() string { return w.id }

// Offered returns the models that the worker offers.
func (w *Worker) Offered() []string { return w.options.Models }

// say reports which models the worker offers.
func (w *Worker) say(models []string) {
	_ = w.conn.NATS().Publish(subject(w.conn, "here"), marshal(presence{w.id, models})) // if it fails, the next report does it
}

// keep reports the presence of the worker again and again, and ends calls whose brokers are
// silent.
func (w *Worker) keep() {
	ticks := time.Tick(hereTime)
	for {
		w.say(w.options.Models)
		select {
		case <-w.stop:
			return
		case <-ticks:
		}
		w.mu.Lock()
		for number, j := range w.jobs {
			silent := time.Since(j.heard)
			switch {
			case j.running && silent > deadTime:
				j.cancel(errBrokerGone)
			case !j.running && silent > claimTime:
				w.drop(number)
			}
		}
		w.mu.Unlock()
	}
}

// open subscribes to offers; the mutex is held. A worker without a free slot is not
// subscribed, so that offers go to others.
func (w *Worker) open() error {
	if w.takes != nil || w.ending {
		return nil
	}
	for _, pattern := range w.options.Models {
		take := subject(w.conn, "take", encode(pattern))
		sub, err := w.conn.NATS().QueueSubscribe(take, "workers", w.offered)
		if err != nil {
			return err
		}
		w.takes = append(w.takes, sub)
	}
	return nil
}

func (w *Worker) shut() {
	for _, sub := range w.takes {
		_ = sub.Unsubscribe() // it fails if the connection is closed
	}
	w.takes = nil
}

// A job is a call at its worker.
type job struct {
	ctx    context.Context
	cancel context.CancelCauseFunc

	// The worker's mutex guards these.
	heard   time.Time
	running bool
	body    []byte
	pieces  int

	mu      sync.Mutex
	number  int           // of the last message that was sent
	acked   int           // of the last message that the broker has used
	more    chan struct{} // wakes room when acked has grown
	stopped time.Time     // when the cancel came
}

// offered claims a call, if there is a slot for it.
func (w *Worker) offered(m *nats.Msg) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ending || len(w.jobs) >= w.options.Parallel {
		_ = w.conn.NATS().PublishMsg(message(m.Reply, "", kindBusy, nil)) // the broker asks again
		return
	}
	w.number++
	number := strconv.Itoa(w.number)
	j := &job{heard: time.Now(), more: make(chan struct{}, 1)}
	j.ctx, j.cancel = context.WithCancelCause(w.ctx)
	w.jobs[number] = j
	if len(w.jobs) >= w.options.Parallel {
		w.shut()
	}
	_ = w.conn.NATS().PublishMsg(message(m.Reply, "", kindClaim, marshal(claim{w.id, w.subject + "." + number})))
}

// drop forgets a job; the mutex is held.
func (w *Worker) drop(number string) {
	if j := w.jobs[number]; j != nil {
		j.cancel(nil)
		delete(w.jobs, number)
	}
	if err := w.open(); err != nil {
		w.options.Warn(fmt.Sprintf("no more calls arrive: %v", err))
	}
}

// message handles a message of a broker about a call.
func (w *Worker) message(m *nats.Msg) {
	number := m.Subject[len(w.subject)+1:]
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.jobs[number]
	if j == nil {
		if kindOf(m) == kindPing && strings.HasSuffix(m.Reply, toPing) || kindOf(m) == kindRun { // the claim has lapsed
			w.end(m.Reply, 1, end{Failure: &failure{Cause: provider.Unreachable, Text: "it no longer knows the call"}})
		}
		return
	}
	j.heard = time.Now()
	switch kindOf(m) {
	case kindBegin, kindRun:
		if j.running {
			return
		}
		if j.pieces++; numberOf(m) != j.pieces || len(j.body)+len(m.Data) > maxBody {
			w.end(m.Reply, 1, end{Failure: &failure{Cause: provider.Unreachable, Text: "a part of the call was lost, or the call is too large"}})
			w.drop(number)
			return
		}
		if j.body = append(j.body, m.Data...); kindOf(m) == kindRun {
			j.running = true
			w.running.Go(func() { w.run(number, j, m.Reply) })
		}
	case kindAck, kindPing:
		if n, err := strconv.Atoi(string(m.Data)); err == nil {
			j.ack(n)
		}
		if kindOf(m) == kindPing && strings.HasSuffix(m.Reply, toPing) {
			_ = w.conn.NATS().PublishMsg(message(m.Reply, "", kindPong, nil)) // if it is lost, the broker asks again
		}
	case kindCancel:
		j.mu.Lock()
		j.stopped = time.Now()
		j.mu.Unlock()
		j.cancel(broker.ErrCancelled)
		if !j.running {
			w.drop(number)
		}
	}
}

func (j *job) ack(n int) {
	j.mu.Lock()
	j.acked = max(j.acked, n)
	j.mu.Unlock()
	select {
	case j.more <- struct{}{}:
	default:
	}
}

// room waits until another message may be sent, and returns its number.
func (j *job) room() (int, error) {
	for {
		j.mu.Lock()
		if j.number-j.acked < window {
			j.number++
			n := j.number
			j.mu.Unlock()
			return n, nil
		}
		j.mu.Unlock()
		select {
		case <-j.more:
		case <-j.ctx.Done():
			return 0, context.Cause(j.ctx)
		}
	}
}

// run makes a call.
func (w *Worker) run(number string, j *job, reply string) {
	defer func() {
		w.mu.Lock()
		w.drop(number)
		w.mu.Unlock()
	}()
	inbox := reply[:max(0, len(reply)-len(toBegin))] + toCall
	_ = w.conn.NATS().PublishMsg(message(inbox, "", kindBegun, nil)) // the broker does not need it
	var r request
	if err := checked(j.body, &r); err != nil {
		w.end(inbox, 1, end{Failure: &failure{Cause: provider.Internal, Text: fmt.Sprintf("the call is invalid: %v", err)}})
		return
	}
	j.body = nil
	c := &broker.Call{
		Door: "worker", Client: r.From, Ref: number, Model: r.Model, Prompt: r.Prompt, Body: r.Body, API: r.API, Before: r.Before,
		Header: r.Header, Choices: r.Choices, Parent: r.Traceparent,
	}
	if r.Stream {
		c.Emit = func(p provider.Part) error {
			n, err := j.room()
			if err != nil {
				return err
			}
			return w.conn.NATS().PublishMsg(numbered(message(inbox, "", kindPart, marshal(part{p, c.Completion.Choices})), n))
		}
	}
	conn := w.options.Publisher.Open("worker "+w.id+", call of broker "+r.From, "json", frame.HTTP)
	c.Tap = conn.Tap()
	conn.HTTP(frame.C2U, "POST nats:"+w.id+" HTTP/1.1", firstOf(r.Body, r.Prompt))
	err := w.do(j.ctx, r.Ask, c)
	e := end{Completion: c.Completion, Failure: newFailure(err)}
	j.mu.Lock()
	if !j.stopped.IsZero() {
		e.Stopped = time.Since(j.stopped)
		if e.Hop = "call"; len(c.Hops) > 0 {
			e.Hop = "provider " + c.Hops[len(c.Hops)-1].Provider
		}
		conn.Note("cancel of broker %s: the %s stopped %v after it came", r.From, e.Hop, e.Stopped)
		conn.Left()
	}
	j.mu.Unlock()
	if err == nil {
		conn.Response(200, firstOf(c.Completion.Body, c.Completion.Text))
	} else {
		conn.Note("call %d ended: %v", c.ID, err)
		conn.Response(502, marshal(map[string]string{"error": broker.Message(err)}))
	}
	conn.Close()
	w.answerCall(j, inbox, e)
}

func (w *Worker) do(ctx context.Context, what ask, c *broker.Call) error {
	switch what {
	case complete:
		return w.options.Broker.Do(ctx, c)
	case count:
		return w.options.Broker.Count(ctx, c)
	case embed:
		return w.options.Broker.Embed(ctx, c)
	}
	return &provider.Error{Cause: provider.Unsupported, Err: fmt.Errorf("this worker does not know %q: install the wirectl version of its broker", what)}
}

// answerCall sends the end of a call. If it was cancelled, nobody waits for its completion.
func (w *Worker) answerCall(j *job, inbox string, e end) {
	if j.ctx.Err() != nil {
		e.Completion = provider.Completion{Answer: llm.Answer{Usage: e.Completion.Usage}}
		j.mu.Lock()
		n := j.number + 1
		j.mu.Unlock()
		w.end(inbox, n, e)
		return
	}
	_ = send(marshal(e), kindPiece, kindEnd, func(_ int, kind string, piece []byte) error {
		n, err := j.room()
		if err != nil {
			return err
		}
		return w.conn.NATS().PublishMsg(numbered(message(inbox, "", kind, piece), n))
	}) // if it fails, the broker hears nothing any more
}

// end sends an end in one message.
func (w *Worker) end(inbox string, n int, e end) {
	_ = w.conn.NATS().PublishMsg(numbered(message(inbox, "", kindEnd, marshal(e)), n))
}

// Running returns how many calls the worker has.
func (w *Worker) Running() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.jobs)
}

// Close takes no more calls. It waits for running calls until ctx ends, and then cancels
// them. It may be called again.
func (w *Worker) Close(ctx context.Context) {
	w.mu.Lock()
	again := w.ending
	w.ending = true
	w.shut()
	w.mu.Unlock()
	if again {
		return
	}
	w.say(nil)
	defer context.AfterFunc(ctx, func() { w.cancel(broker.ErrShutdown) })()
	close(w.stop)
	w.running.Wait()
	w.cancel(nil)
	_ = w.conn.NATS().FlushTimeout(askTime) // so that the last answers are not lost
	for _, sub := range w.others {
		_ = sub.Unsubscribe()
	}
	w.conn.Close()
}

// Offers returns the models that a worker offers: the named ones, which the broker must
// have, or else all models of the broker.
func Offers(b *broker.Broker, named []string) ([]string, error) {
	if len(named) == 0 {
		return b.Models(), nil
	}
	for _, name := range named {
		if slices.Contains(b.Models(), name) {
			continue
		}
		if err := b.Find(strings.ReplaceAll(name, "*", "x")); err != nil {
			return nil, fmt.Errorf("the configuration has no model for --models %s: %w", name, err)
		}
	}
	return named, nil
}
