package hub

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/journal"
	"github.com/wirectl/wirectl/capture/tap"
)

// beat is how often a sender reports its session, by default.
const beat = 10 * time.Second

// pace is how long records are collected for a segment. A segment costs as much as a
// hundred short frames.
const pace = 40 * time.Millisecond

// A Sending says how sessions are sent to a hub.
type Sending struct {
	Address Address
	Policy  Policy
	Level   history.Level
	// Kind is the command that sends.
	Kind string
	// Control says that the session is going to obey commands.
	Control bool
	// Redaction says what to redact besides known secrets.
	Redaction capture.Redaction
	// State is the folder of the user's state, with the spools.
	State string
	// SpoolBytes bounds the spools for the hub together; 0 is [DefaultSpoolBytes].
	SpoolBytes int64
	// Beat is how often the session is reported, and the connection is checked; 0 is 10 s.
	Beat time.Duration
	// Say tells the user where the session is sent.
	Say func(text string)
	// Warn tells the user about trouble, and its end.
	Warn func(text string)
}

// During sends the session of a unit, whose records work writes.
func (o *Sending) During(unit string, work func(see capture.Writer) error) error {
	j := journal.New(capture.Session{Created: time.Now(), Controller: "controllers", Unit: unit}, journal.Options{Notice: o.Warn})
	sender, err := o.Open(j, o.Kind)
	if err != nil {
		return err
	}
	err = work(j)
	ctx, cancel := context.WithTimeout(context.Background(), lastTime)
	defer cancel()
	return errors.Join(err, j.Close(), sender.Close(ctx))
}

// A Sender sends one session. While the hub cannot be reached, the policy says what happens
// to frames.
type Sender struct {
	o      Sending
	info   Info
	conn   *nats.Conn
	js     jetstream.JetStream
	queue  queue
	spool  *spool // the queue, if it is lossless
	packer packer

	reader *journal.Cursor

	commands   *nats.Subscription
	controller atomic.Pointer[tap.Controller] // nil if commands are refused, or are not obeyed yet

	dropping bool // the last segment was dropped
	whole    bool // the hub has everything; to be read once nothing runs
	mu       sync.Mutex
	notes    []string // to be added to the session
	counts   Info     // only its counts are set, for the segments so far

	ctx     context.Context
	stop    context.CancelFunc
	packed  chan struct{} // closed when the last segment was made
	silent  chan struct{} // closed when the session is no longer reported as live
	done    chan struct{} // closed when all was sent, or ctx has ended
	running sync.WaitGroup
}

// Open begins to send the session of a journal under a name. If the policy is lossy, the sender
// reads it as a viewer does. It is no error that the hub cannot be reached.
func (o Sending) Open(j *journal.Journal, name string) (tap.Sender, error) {
	x := o.redaction()
	s := x.Session(j.Session())
	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	t := &Sender{
		o: o, packed: make(chan struct{}), silent: make(chan struct{}), done: make(chan struct{}),
		info: Info{
			ID: hex.EncodeToString(id[:]), Org: o.Address.Org, Host: host(), Kind: o.Kind, Name: name,
			Started: s.Created, Protocol: s.Protocol, Framing: s.Framing, Controller: s.Controller, Unit: s.Unit,
			Level: o.Level, Policy: o.Policy,
		},
	}
	t.o.Beat = cmp.Or(o.Beat, beat)
	t.ctx, t.stop = context.WithCancel(context.Background())
	options, err := t.o.Address.options()
	if err != nil {
		t.stop()
		return nil, fmt.Errorf("the hub: %w", err)
	}
	t.info.Host = cmp.Or(t.o.Address.host, t.info.Host)
	if err := t.open(j, options); err != nil {
		t.stop()
		return nil, fmt.Errorf("the hub: %w", err)
	}
	t.packer = packer{session: s, put: t.put}
	o.Say(fmt.Sprintf("sending to %s as hub:%s", o.Address.Servers, t.info.ID))
	t.running.Go(func() { t.pack(&s, x) })
	t.running.Go(t.publish)
	t.running.Go(t.beat)
	t.running.Go(t.listen)
	if t.spool != nil {
		t.running.Go(t.adopt)
	}
	return t, nil
}

// lastTime is how long the hub may take for the rest of a session.
const lastTime = 10 * time.Second

// SendAll sends the session of a reader, which may wait for more, to its end or that of ctx. Without a level
// it sends metadata, and without a policy it loses nothing.
func (o Sending) SendAll(ctx context.Context, r capture.Reader, name string) error {
	o.Level, o.Policy = cmp.Or(o.Level, history.Metadata), cmp.Or(o.Policy, Lossless)
	j := journal.New(*r.Session(), journal.Options{Policy: journal.Block, Notice: o.Warn})
	t, err := o.Open(j, name)
	if err != nil {
		return err
	}
	err = capture.Copy(j, r)
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
	defer cancel()
	return errors.Join(err, j.Close(), t.Close(rest))
}

// redaction returns everything that is redacted.
func (o *Sending) redaction() capture.Redaction {
	x := capture.Secrets()
	x.Outline = o.Level == history.Metadata
	x.Keys = append(x.Keys, o.Redaction.Keys...)
	x.Values = append(x.Values, o.Redaction.Values...)
	x.Protocol, x.Calls, x.Blind = o.Redaction.Protocol, o.Redaction.Calls, capture.BlindSpot(o.Warn)
	return x
}

// open opens the queue, the connection, and the reader.
func (t *Sender) open(j *journal.Journal, options []nats.Option) (err error) {
	if t.o.Policy == Lossless {
		if t.spool, err = newSpool(t.o.spoolDir(), t.info, cmp.Or(t.o.SpoolBytes, DefaultSpoolBytes)); err != nil {
			return err
		}
		t.queue = t.spool
	} else {
		t.queue = newMemory(t.ctx.Done())
	}
	d := &dialer{}
	t.conn, err = nats.Connect(t.o.Address.Servers, append(options,
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(retryFirst*4), nats.ReconnectJitter(retryFirst, retryFirst), nats.PingInterval(t.o.Beat), nats.Timeout(dialTime),
		nats.SetCustomDialer(d), nats.SkipHostLookup(),
	)...)
	d.patient.Store(true)
	if err == nil {
		t.js, err = jetstream.New(t.conn)
	}
	if err == nil {
		t.commands, err = t.conn.SubscribeSync(Commands + t.info.Key())
	}
	switch {
	case err != nil:
		if t.spool != nil {
			err = errors.Join(err, t.spool.remove())
		}
		return err
	case t.o.Policy == Lossless:
		t.reader = j.Follow()
		t.reader.Pace = pace
	default:
		t.reader = tap.View(j)
	}
	return nil
}

// A dialer waits only briefly for a hub while the session starts, and longer later.
type dialer struct{ patient atomic.Bool }

// Dial connects.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	most := 4 * retryFirst
	if d.patient.Load() {
		most = dialTime
	}
	return (&net.Dialer{Timeout: most}).DialContext(context.Background(), network, address)
}

// spoolDir returns the folder of the spools for the hub.
func (o *Sending) spoolDir() string {
	sum := sha256.Sum256([]byte(o.Address.Servers + "/" + o.Address.Org))
	return filepath.Join(o.State, "spool", hex.EncodeToString(sum[:6]))
}

// Info describes the session. Its counts are zero.
func (t *Sender) Info() Info { return t.info }

// pack makes segments of the records.
func (t *Sender) pack(s *capture.Session, x capture.Redaction) {
	defer close(t.packed)
	defer t.queue.close()
	w := capture.Redact(&t.packer, s, x)
	var rec capture.Record
	for {
		if err := t.reader.Next(&rec); err != nil {
			break
		}
		if t.reader.Session().Altered {
			t.warnOf(t.packer.alter())
		}
		if n, ok := tap.ParseNote(&rec); ok && n.Tap != tap.Lost {
			continue // it is for viewers of the tap
		}
		t.warnOf(w.Write(&rec))
		if !t.reader.Buffered() {
			t.writeNotes()
			t.warnOf(t.packer.flush())
		}
	}
	t.writeNotes()
	t.warnOf(t.packer.endSegment())
}

// errDropped says that a segment was dropped; the user was told.
var errDropped = errors.New("frames are dropped")

// warnOf warns of what cannot be sent.
func (t *Sender) warnOf(err error) {
	if err != nil && !errors.Is(err, errDropped) {
		t.o.Warn(fmt.Sprintf("the hub: %v", err))
	}
}

// writeNotes adds the notes about the hub to the session.
func (t *Sender) writeNotes() {
	t.mu.Lock()
	notes := t.notes
	t.notes = nil
	t.mu.Unlock()
	for _, text := range notes {
		t.warnOf(t.packer.addNote(text))
	}
}

// put adds a segment to the queue.
func (t *Sender) put(seg segment) error {
	if err := t.queue.enqueue(seg); err != nil {
		if !t.dropping && t.ctx.Err() == nil {
			t.o.Warn(fmt.Sprintf("the hub: frames are dropped from now on: %v", err))
		}
		t.dropping = true
		return fmt.Errorf("%w: %w", errDropped, err)
	}
	t.dropping = false
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Frames, t.counts.Bytes, t.counts.Lost = seg.Frames, seg.Bytes, seg.Lost
	return nil
}

// publish sends the queue.
func (t *Sender) publish() {
	defer close(t.done)
	p := publisher{
		nats: t.conn, js: t.js, key: t.info.Key(), queue: t.queue,
		trouble: t.trouble, relief: t.relief,
	}
	err := p.run(t.ctx)
	if err == io.EOF && !t.packer.last.End {
		return // the last segment was dropped; the user was told
	}
	if err == io.EOF {
		<-t.silent // a report that the session is live would undo its end
		err = p.finish(t.ctx, t.summary(time.Now()))
		t.whole = err == nil
	}
	if err != nil && t.ctx.Err() == nil {
		t.o.Warn(fmt.Sprintf("sending this session to the hub ended: %v", err))
	}
}

func (t *Sender) trouble(err error) {
	what := "frames that come too late are dropped"
	if t.spool != nil {
		what = "what passes waits in " + t.spool.dir
	}
	t.o.Warn(fmt.Sprintf("the hub at %s accepts nothing: %v; %s", t.o.Address.Servers, advice(err), what))
}

func (t *Sender) relief(after time.Duration) {
	after = after.Round(time.Millisecond)
	t.mu.Lock()
	t.notes = append(t.notes, fmt.Sprintf("the hub could not be reached for %v", after))
	t.mu.Unlock()
	t.o.Warn(fmt.Sprintf("the hub accepts the session again, after %v", after))
}

// summary describes the session as it is now.
func (t *Sender) summary(ended time.Time) Info {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.info
	i.Frames, i.Bytes, i.Lost, i.Ended = t.counts.Frames, t.counts.Bytes, t.counts.Lost, ended
	return i
}

// beat reports until its end that the session is live.
func (t *Sender) beat() {
	defer close(t.silent)
	tick := time.Tick(t.o.Beat)
	connected := t.conn.StatusChanged(nats.CONNECTED)
	defer t.conn.RemoveStatusListener(connected)
	for {
		t.sayLive()
		select {
		case <-tick:
		case <-connected:
		case <-t.packed:
			return
		case <-t.ctx.Done():
			return
		}
	}
}

// sayLive renews the entries of the session. Without a connection, the next beat does it.
func (t *Sender) sayLive() {
	text, err := json.Marshal(t.summary(time.Time{}))
	if err != nil {
		return
	}
	for _, bucket := range []string{Summaries, Presence} {
		_, subjects := Bucket(bucket)
		_ = t.conn.Publish(subjects+t.info.Key(), text)
	}
}

// unreached is how long the end of a session waits for a hub that cannot be reached.
const unreached = 500 * time.Millisecond

// Close sends the rest. It gives up when ctx ends or the hub cannot be reached; a spool then
// stays for the next process that sends to the hub.
func (t *Sender) Close(ctx context.Context) error {
	if t.spool != nil {
		select {
		case <-t.packed:
		case <-ctx.Done():
		}
	}
	t.await(ctx)
	t.stop()
	t.reader.Close()
	t.running.Wait()
	t.conn.Close()
	if t.spool == nil {
		if i := t.summary(time.Time{}); !t.whole || i.Lost > 0 {
			t.o.Warn(fmt.Sprintf("the hub lacks a part of the session %s: %d frames were dropped, and the last ones may be missing", i.ID, i.Lost))
		}
		return nil
	}
	if t.whole {
		return t.spool.remove()
	}
	t.o.Warn(fmt.Sprintf("the hub lacks a part of the session %s, which waits in %s: the next relay or broker that sends there losslessly sends it", t.info.ID, t.spool.dir))
	return t.spool.release()
}

// await waits until everything was sent.
func (t *Sender) await(ctx context.Context) {
	for {
		select {
		case <-t.done:
			return
		case <-ctx.Done():
			return
		case <-time.After(unreached):
			if !t.conn.IsConnected() {
				return
			}
		}
	}
}

// adopt sends the spools of processes that have ended.
func (t *Sender) adopt() {
	dirs, err := os.ReadDir(t.o.spoolDir())
	if err != nil {
		return // the sender's own spool reports the trouble
	}
	for _, dir := range dirs {
		path := filepath.Join(t.o.spoolDir(), dir.Name())
		if path == t.spool.dir {
			continue
		}
		if err := t.adoptOne(path); err != nil && t.ctx.Err() == nil {
			t.o.Warn(fmt.Sprintf("the hub: the spool in %s: %v", path, err))
		}
	}
}

func (t *Sender) adoptOne(dir string) error {
	s, err := openSpool(dir)
	if err != nil || s == nil {
		return err
	}
	info, last, err := s.finish()
	if err == nil {
		quiet := func(error) {} // the sender's own session reports trouble
		p := publisher{
			nats: t.conn, js: t.js, key: info.Key(), queue: s, at: s.at,
			trouble: quiet, relief: func(time.Duration) {},
		}
		if err = p.run(t.ctx); err == io.EOF {
			info.Frames, info.Bytes, info.Lost = last.Frames, last.Bytes, last.Lost
			info.Ended = cmp.Or(info.Ended, time.Now())
			err = p.finish(t.ctx, info)
		}
	}
	if err != nil {
		return errors.Join(err, s.release())
	}
	t.o.Warn(fmt.Sprintf("the hub now has the rest of the session %s, whose process was killed", info.ID))
	return s.remove()
}

// finish completes the spool of a process that has ended, and returns the head of its
// last segment.
func (s *spool) finish() (Info, head, error) {
	info, last := s.info, s.newest
	if !last.End {
		info.Cut = true
		p := packer{session: capture.Session{Created: info.Started, Redacted: true}, put: s.enqueue, last: last, kept: last}
		p.session.Protocol, p.session.Framing, p.session.Controller, p.session.Unit = info.Protocol, info.Framing, info.Controller, info.Unit
		if err := errors.Join(p.addNote("the process that sent this session was killed here: its last frames may be missing"), p.endSegment()); err != nil {
			return info, last, err
		}
		last = p.last
	}
	s.close()
	return info, last, nil
}
