package agent

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/journal"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/decode/pin"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/relay"
	relayhttp "github.com/wirectl/wirectl/relay/httpproxy"
)

// A Recorder writes one capture of a run, without known secrets.
type Recorder struct {
	// Sink gets the records.
	Sink *relay.Fan

	journal  *journal.Journal
	recorder *journal.Recorder
	file     *history.RunCapture
	taps     *relayhttp.Taps
	follower *pin.Follower // or nil
	refuses  *pin.Watch    // of servers over HTTP whose changed tools are refused; nil for none

	mu     sync.Mutex
	number int // of connections
}

// Record begins the capture with that name in the folder of a run. Further secrets may be named, such as
// the token of the run. It calls warn if recording fails, which ends the recording only. Pins, if not nil, sees the
// connections over HTTP.
func Record(folder, name string, s capture.Session, level history.Level, warn func(text string), pins *pin.Watch, secrets ...string) (*Recorder, error) {
	x := Secrets(secrets...)
	x.Outline = level == history.Metadata
	s = x.Session(s)
	r := &Recorder{journal: journal.New(s, journal.Options{Bytes: 1, Notice: warn})}
	var err error
	if r.file, err = history.CreateCapture(folder, name); err != nil {
		return nil, err
	}
	if r.recorder, err = r.journal.RecordTo(r.file, journal.Config{Label: convert.Labels(nil)}); err != nil {
		return nil, errors.Join(err, r.file.Close())
	}
	sinks := []capture.Writer{capture.Redact(r.journal, &s, x)}
	switch {
	case pins == nil:
	case pins.Mode == pin.Refuse:
		r.refuses = pins
	default:
		r.follower = pins.Follow(s, func(note *capture.Record) { r.Sink.Write(note) })
		sinks = append(sinks, r.follower)
	}
	r.Sink = relay.NewFan(warn, sinks...)
	r.taps = relayhttp.NewTaps(r.Sink.Write, 0)
	return r, nil
}

// Secrets returns the redaction of a run's records.
func Secrets(more ...string) capture.Redaction {
	x := capture.Secrets()
	for _, secret := range more {
		if secret != "" {
			x.Values = append(x.Values, regexp.MustCompile(regexp.QuoteMeta(secret)))
		}
	}
	return x
}

// connect starts recording a connection over HTTP, which all bytes pass. A nil Recorder records nothing.
func (r *Recorder) connect(kind carrier.Kind, name string) (*relayhttp.Tap, passFunc) {
	if r == nil {
		return nil, nil
	}
	number := r.next()
	tap := r.taps.ConnectOver(kind, number, capture.Record{Kind: capture.Opened, Time: time.Now(), Text: []byte(name)})
	return tap, r.guard(kind, number, name)
}

// A passFunc has bytes of a direction pass; see [pin.Guard].
type passFunc = func(dir frame.Dir, data []byte) ([]byte, error)

// guard returns what the bytes of a connection pass before they are forwarded; nil if nothing is refused.
func (r *Recorder) guard(kind carrier.Kind, number int, name string) passFunc {
	if r == nil || r.refuses == nil {
		return nil
	}
	return r.refuses.Guard(kind, number, name, func(note *capture.Record) { r.Sink.Write(note) }).Pass
}

func (r *Recorder) next() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	return r.number
}

// closing is how long the rest of a capture may take to be written.
const closing = 10 * time.Second

// Close ends the capture, once all connections have ended.
func (r *Recorder) Close() error {
	if r == nil {
		return nil
	}
	r.taps.Close()
	if r.follower != nil {
		r.follower.Close()
	}
	if r.refuses != nil {
		r.refuses.Close()
	}
	r.journal.Close()
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	return errors.Join(r.recorder.Close(ctx), r.file.Close())
}

// A renumbered writer gives connections numbers that are free in the capture that they join.
type renumbered struct {
	to      *Recorder
	mu      sync.Mutex
	numbers map[int]int
}

func (w *renumbered) number(conn int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	number, ok := w.numbers[conn]
	if !ok {
		number = w.to.next()
		w.numbers[conn] = number
	}
	return number
}

func (w *renumbered) Write(r *capture.Record) error {
	own := *r // which others get, too
	own.Conn = w.number(r.Conn)
	w.to.Sink.Write(&own)
	return nil
}
