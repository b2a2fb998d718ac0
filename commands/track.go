package commands

import (
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/advice"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/protocol"
)

// readThrough shows all of a session to one view, in order. A fault of the
// framing does not end it, and a capture that is cut is read up to there, which
// is said to people.
func readThrough(inv *invocation, c *cli.Context, name string, cfg decode.Config, newView func(decode.Input, decode.Config) decode.View) (result decode.Result, cut bool, err error) {
	cfg.Workers, cfg.Resync = 1, true
	cfg.Notice = inv.notice(c, name)
	src, err := inv.openSession(c.Context, name, cfg, c.Bool("follow"))
	if err != nil {
		return decode.Result{}, false, err
	}
	defer src.Close()
	view := newView(src.Input, cfg)
	result, err = decode.Run(c.Context, src.Input, inv.Stdout, cfg, func() decode.View { return view })
	if errors.Is(err, capture.ErrCut) {
		inv.say(name, err.Error())
		return result, true, nil
	}
	if err == nil {
		tellEmpty(&result, cfg.Notice)
	}
	return result, false, located(name, result.Framing, err)
}

// tellEmpty tells people that there was nothing in an input, unless notice is nil.
func tellEmpty(result *decode.Result, notice func(text string)) {
	if notice != nil && result.Frames == 0 && result.Faults == 0 && result.Framing == nil {
		notice(noFrames)
	}
}

const noFrames = "the input has no frames"

// trackSession feeds ts with a session, of which see is shown each frame before, if it is
// not nil. What is open where a capture is cut, or reading was interrupted, is not taken
// for unanswered. It returns when the last frame was read, too.
func trackSession(inv *invocation, c *cli.Context, name string, cfg decode.Config, ts *track.Trackers, see func(*decode.Item) error) (decode.Result, time.Time, error) {
	var f *track.Follower
	cfg.Event = func(rec *capture.Record) { f.Event(rec) }
	result, cut, err := readThrough(inv, c, name, cfg, func(in decode.Input, cfg decode.Config) decode.View {
		f = track.NewFollower(ts, in, cfg)
		if see == nil {
			return f.View
		}
		return func(dst []byte, it *decode.Item) ([]byte, error) {
			if err := see(it); err != nil {
				return dst, err
			}
			return f.View(dst, it)
		}
	})
	switch {
	case f == nil:
		return result, time.Time{}, err
	case cut || c.Context.Err() != nil:
		f.Release()
	default:
		f.End()
	}
	return result, f.Last, err
}

// isMessage reports whether an item has a message.
func isMessage(it *decode.Item) bool {
	return !it.Frame.Gap && (it.Err == nil || it.Err == it.Frame.Flaw)
}

// unread is the error for a session with faults of which no message was read, so that what is told of it
// would be empty; nil for any other.
func unread(name string, result *decode.Result, some bool, ts *track.Trackers) error {
	for _, tr := range ts.List {
		for range tr.Exchanges() { // its messages may be over several lines
			some = true
		}
	}
	if some || result.Faults == 0 {
		return nil
	}
	if result.First != nil {
		result.First = advice.OnPassed(fmt.Errorf("%s: %w", label(name), result.First), result.Framing)
	}
	return &faultError{result.FaultError()}
}

// messages returns what tells of each message that is shown to it.
func messages(tell func(seq int64, m *protocol.Message, payload []byte)) func(*decode.Item) error {
	return func(it *decode.Item) error {
		if isMessage(it) {
			tell(it.Seq, &it.Message, it.Payload)
		}
		return nil
	}
}
