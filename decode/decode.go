// Package decode is the pipeline from a byte stream to a view of its frames: scan, detect,
// parse, show. It spreads the work over the cores and keeps the order. The packages below
// define frames and messages.
package decode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/ndjson"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/internal/prices"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/source"
	forms "github.com/wirectl/wirectl/source/all"
)

// Config says how to read a stream.
type Config struct {
	// Framing and Protocol are those of the stream; nil means to detect them.
	Framing  frame.Framing
	Protocol protocol.Protocol
	// Carrier carries the frames. Auto detects it, unless a framing is given: then the
	// stream is plain.
	Carrier carrier.Kind
	// Calls knows the messages of gRPC calls by the paths of the calls; nil knows only
	// Latis. A Protocol that is given wins over it.
	Calls *all.Calls
	// Limit is the largest payload in bytes; 0 is the default of the pairing.
	Limit int
	// Resync makes decoding go on after a fault of the framing.
	Resync bool
	// Prices are those of the tokens of models, for providers that do not tell the cost.
	Prices prices.Book
	// Compression names how compressed gRPC messages are; "" is gzip.
	Compression string
	// Keylog and Field are for files of other programs; see source.File.
	Keylog, Field string
	// Counter, if not nil, counts the items, instead of a view.
	Counter *Counter
	// Match, if not nil, chooses the items that are shown. It is called from
	// several goroutines.
	Match func(*Item) bool
	// Skip passes over that many matching items, and Head, if positive, ends
	// after that many more.
	Skip, Head int64
	// Lines says that everything that a fault makes unreadable counts as one item, as
	// [Text] shows it, even if it comes in several pieces.
	Lines bool
	// FirstSeq is the number of the first frame, and Conn that of the connection; 0 if
	// there is only one.
	FirstSeq int64
	Conn     int
	// Workers is how many goroutines parse and show; 1 works without any.
	Workers int
	// InOrder says that one view sees all items, in their order. Workers read and parse
	// them before.
	InOrder bool
	// Around, if not nil, is called for each batch and must call show. It does once for all
	// items what each would need, such as locking.
	Around func(show func())
	// Wire means that the bytes of a wire are wanted; so a session without them is an error.
	Wire bool
	// Reframe makes the frames of NDJSON records that have no raw bytes.
	Reframe ndjson.Reframe
	// Interrupt, if not nil, makes a waiting read of the input return. With workers it is
	// called when the run is over, even if the input is not, and at once when one of them
	// fails.
	Interrupt func()
	// Notice, if not nil, is called with the detected format of a stream and the reason.
	Notice func(text string)
	// Note, if not nil, is called for each note in a capture, with the number of the
	// next frame. It is called before earlier frames are viewed, and must not keep
	// the record.
	Note func(seq int64, rec *capture.Record)
	// Event, if not nil, is called for each record of a capture that is not a frame,
	// between the views of the frames before and after it. The record has the end of a long
	// text. Event requires that frames are viewed in order.
	Event func(rec *capture.Record)
}

func (cfg *Config) around(show func()) {
	if cfg.Around == nil {
		show()
	} else {
		cfg.Around(show)
	}
}

// A View appends the output for an item to dst. Each worker has a View
// of its own.
type View func(dst []byte, it *Item) ([]byte, error)

// Result describes the stream after a run.
type Result struct {
	Frames  int64 // frames read, gaps not counted
	Faults  int64 // frames that do not parse, flaws, and faults skipped over
	First   error // fault, and where it is: a [*Fault] or a [*frame.Error]; nil if there is none
	Skipped frame.Skipped
	Passed  int64         // matching items that Skip passed over
	Shown   int64         // items shown, if Skip or Head was set
	Framing frame.Framing // as named or detected; nil if the input was empty
	NextSeq int64         // the number of the frame that would come next
	Enough  bool          // all items that were asked for were shown, even if there are more

	head *source.Head // of a file that has none of the known forms; or nil
}

// Unknown describes the content of a file whose messages belong to no protocol: what it is most like.
func (r *Result) Unknown() string {
	if r.head != nil {
		if form := forms.Nearest(r.head); form != nil {
			return "this is like " + form.About + ", but lacks some of its members: " + form.Instead
		}
	}
	return render.Count(r.Frames, "frame") + " of no protocol that wirectl knows: name it with --protocol, or take the messages out first (jq -c .FIELD FILE | wirectl calls)"
}

// Merge adds the counts of a batch, or of another input, to the result.
func (r *Result) Merge(seen *Result) {
	r.Frames += seen.Frames
	r.Faults += seen.Faults
	r.Skipped.Faults += seen.Skipped.Faults
	r.Skipped.Bytes += seen.Skipped.Bytes
	if r.First == nil {
		r.First = seen.First
	}
}

// FaultCount says how many of the decoded items are faulty.
func (r *Result) FaultCount() string {
	s := fmt.Sprintf("%s in %s", render.Count(r.Faults, "fault"), render.Count(r.Frames, "frame"))
	if r.Skipped.Bytes > 0 {
		s += "; " + render.Count(r.Skipped.Bytes, "byte") + " skipped"
	}
	return s
}

// FaultError also says where the first fault is, because the view may not show it.
func (r *Result) FaultError() error {
	count := r.FaultCount()
	switch {
	case r.First == nil:
		return errors.New(count)
	case r.Faults > 1:
		count += "; the first"
	}
	return fmt.Errorf("%s: %w", count, r.First)
}

// Run reads all of in and writes the output of the views from newView to w, in the order of
// the input; newView may be nil if there is a Counter. The error of a fault in the framing
// is a [*frame.Error], that of a capture a [*capture.Error]; everything before it has then
// been written.
func Run(ctx context.Context, in Input, w io.Writer, cfg Config, newView func() View) (Result, error) {
	from := in.feed(cfg)
	p := &pipeline{cfg: cfg, feed: from, out: w, newView: newView}
	err := p.run(ctx)
	p.result.Framing, p.result.NextSeq = from.state()
	p.result.head = in.head
	switch {
	case errors.Is(err, errEnough): // the rest does not matter, faulty or not
		p.result.Enough = true
		return p.result, nil
	case err == nil:
		err = from.err()
	}
	return p.result, err
}

// A feed yields the frames of a session in batches.
type feed interface {
	// nextBatch fills b with the frames that are available, at least one. It returns
	// false when there are no more.
	nextBatch(b *batch) bool
	// err returns why there are no more; nil after a clean end.
	err() error
	// state returns the framing, nil if there are several, and the number of the next
	// frame.
	state() (f frame.Framing, next int64)
}

// A batch is a run of frames, with the way to read them.
type batch struct {
	frame.Batch
	first int64   // the number of the first item
	since []since // at least one, the first from index 0
	fault []int   // the indexes of gaps that begin a fault
	clock clock   // before the first frame
	times []times // of each frame, if known
	place []int64 // of each frame in its capture, if known
	among []event // if Config.Event wants them
	arena []byte  // of the bytes of frames that are taken from a capture
}

// An event is a record that is not a frame, before the frame of that index.
type event struct {
	index  int
	record capture.Record
}

// endOfRun returns the index after the last frame that since[run] applies to.
func (b *batch) endOfRun(run int) int {
	if run+1 < len(b.since) {
		return b.since[run+1].index
	}
	return len(b.Frames)
}

// holds reports whether the frames have at least n bytes.
func (b *batch) holds(n int) bool {
	for i := range b.Frames {
		if n -= len(b.Frames[i].Raw); n <= 0 {
			return true
		}
	}
	return false
}

// since holds the framing, the protocol and the session's flags from a frame of a batch on.
type since struct {
	index                       int
	framing                     frame.Framing
	protocol                    protocol.Protocol
	redacted, outlined, altered bool
}

// addSince records how the next frame is read.
func (b *batch) addSince(s since) {
	if n := len(b.since); n > 0 {
		last := b.since[n-1]
		last.index = s.index
		if last == s {
			return
		}
	}
	b.since = append(b.since, s)
}

// times are when a frame had been read, and when it had been written to the
// other side; the zero time is unknown.
type times struct{ read, written time.Time }

// A clock knows when the first and the last frame of a session were read.
type clock struct{ first, previous time.Time }

// pass notes that a frame was read.
func (c *clock) pass(read time.Time) {
	if c.first.IsZero() {
		c.first = read
	}
	c.previous = read
}

// Raw shows the bytes of an item as they were on the wire.
func Raw() View {
	return func(dst []byte, it *Item) ([]byte, error) {
		it.CheckForm()
		return append(dst, it.Frame.Raw...), nil
	}
}

// Payload shows the payload of an item alone, without its compression.
func Payload() View {
	return func(dst []byte, it *Item) ([]byte, error) {
		it.CheckForm()
		return append(dst, it.Payload...), nil
	}
}

// A limited reader refuses, or skips, frames whose payload is over a limit.
type limited struct {
	capture.Reader
	limit  int
	resync bool
	seq    int64          // of the frame at hand
	gap    capture.Record // the rest of one that is skipped
	err    error
}

// gapSize is how many bytes a gap has at most.
const gapSize = 64 << 10

// Next reads the next record; see [capture.Reader].
func (l *limited) Next(rec *capture.Record) error {
	if len(l.gap.Raw) > 0 {
		l.piece(rec)
		return nil
	}
	if l.err == nil {
		l.err = l.Reader.Next(rec)
	}
	if l.err == nil && rec.Kind == capture.Frame {
		l.err = l.judge(rec)
	}
	if l.err != nil {
		*rec = capture.Record{}
	}
	return l.err
}

// judge makes a frame over the limit an error or, to resync, the first of some gaps.
func (l *limited) judge(rec *capture.Record) error {
	f := &rec.Frame
	l.seq++
	if f.Gap || f.Size() <= l.limit || carried.Of(f) != nil {
		return nil
	}
	err := &frame.Error{
		Err: frame.ErrTooLarge, Frame: l.seq, Offset: f.Offset,
		Detail: fmt.Sprintf("length %d is over the limit of %d", f.Size(), l.limit),
	}
	if !l.resync {
		return err
	}
	l.gap = *rec
	l.gap.Frame = frame.Frame{Raw: f.Raw, Conn: f.Conn, Stream: f.Stream, Dir: f.Dir, Offset: f.Offset, Gap: true, Flaw: err}
	l.piece(rec)
	return nil
}

// piece makes rec the next piece of a gap.
func (l *limited) piece(rec *capture.Record) {
	*rec = l.gap
	rec.Raw = rec.Raw[:min(len(rec.Raw), gapSize)]
	l.gap.Raw = l.gap.Raw[len(rec.Raw):]
	l.gap.Offset += int64(len(rec.Raw))
}

// A fault of the framing has two numbers: a told one counts frames as its reader does; a
// shown one is the number of the first item that it spoils, because items, also gaps, are
// numbered over all inputs and directions. All pieces that one fault makes unreadable share
// it.
type fault struct{ told, shown error }

// is reports whether the error of a gap is that fault.
func (f *fault) is(told error) bool {
	return f.told != nil && (f.told == told || f.told.Error() == told.Error())
}

// numbered returns a fault of the framing with the number of the item that shows it. It
// leaves told as it is, because earlier items may show that too.
func numbered(told error, seq int64) error {
	if e := (*frame.Error)(nil); errors.As(told, &e) && told == error(e) {
		shown := *e
		shown.Frame = seq
		return &shown
	}
	if place, ok := placeOf(told.Error()); ok {
		return frame.Recall(fmt.Sprintf("frame %d%s", seq, place))
	}
	return told
}

// placeOf returns the part after the number in the words of a fault of the framing.
func placeOf(words string) (place string, ok bool) {
	words, ok = strings.CutPrefix(words, "frame ")
	place = strings.TrimLeft(words, "0123456789")
	return place, ok && strings.HasPrefix(place, " at byte ")
}
