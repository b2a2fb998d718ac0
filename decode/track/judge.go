package track

import (
	"context"
	"io"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
	"github.com/wirectl/wirectl/session/lint"
)

// Judge returns the calls and the findings of a whole session, or of one that goes on: then nothing
// is held against requests that are open.
func Judge(ctx context.Context, r capture.Reader, goesOn bool) (list []*calls.Call, findings []session.Finding, err error) {
	log := &calls.Log{Show: func(c *calls.Call) { list = append(list, c) }}
	ts := &Trackers{Forms: true, Asked: true, Watcher: log}
	safety := new(lint.Safety)
	cfg := decode.Config{Workers: 1, Resync: true}
	in := decode.Stored(r)
	f := NewFollower(ts, in, cfg)
	cfg.Event = f.Event
	_, err = decode.Run(ctx, in, io.Discard, cfg, func() decode.View {
		return func(dst []byte, it *decode.Item) ([]byte, error) {
			log.First = it.First
			safety.AddFrame(it.Seq, all.Of(it.Protocol), it.Frame, &it.Message, it.Payload, "")
			return f.View(dst, it)
		}
	})
	if goesOn {
		f.Release()
	} else {
		f.End()
	}
	log.Finish(f.Last)
	var s lint.Session
	for _, t := range ts.List {
		s.Add(t.Protocol.Name(), t.Tracker)
	}
	s.AddSafety(safety)
	return list, s.Findings, err
}
