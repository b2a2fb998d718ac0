package commands

import (
	"errors"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/frame"
)

// readThrough shows all of a session to one view, in order. A fault of the
// framing does not end it, and a capture that is cut is read up to there, which
// is said to people.
func readThrough(inv *invocation, c *cli.Context, name string, cfg decode.Config, newView func(decode.Input, decode.Config) decode.View) (result decode.Result, cut bool, err error) {
	cfg.Workers, cfg.Resync = 1, true
	cfg.Notice = inv.notice(c, name)
	src, err := inv.openSession(c.Context, name, cfg, false)
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
	return result, false, located(name, result.Framing, err)
}

// trackSession feeds ts with a session. What is open where a capture is cut is not
// taken for unanswered.
func trackSession(inv *invocation, c *cli.Context, name string, cfg decode.Config, ts *track.Trackers) (decode.Result, error) {
	var f *track.Follower
	cfg.Ended = func(conn int, dir frame.Dir, at time.Time) { f.Ended(conn, dir, at) }
	result, cut, err := readThrough(inv, c, name, cfg, func(in decode.Input, cfg decode.Config) decode.View {
		f = track.NewFollower(ts, in, cfg)
		return f.View
	})
	switch {
	case f == nil:
	case cut:
		f.Release()
	default:
		f.End()
	}
	return result, err
}
