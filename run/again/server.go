package again

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/peer/replay"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/run/agent"
	"github.com/wirectl/wirectl/session/jsondiff"
	"github.com/wirectl/wirectl/transport"
)

// PlayServer plays a server over stdio, in the process that its agent has started instead. The answers are first those
// of the start with the same number in the record.
func PlayServer(ctx context.Context, s *agent.Servers, name string, n int, client transport.Conn, note func(agent.ServerNote)) error {
	files := s.FilesOf(name)
	if len(files) == 0 {
		return fmt.Errorf("%s is not in the record, and a replay starts no other server; --tools %s=live would", name, name)
	}
	n %= len(files)
	var scripts []*replay.Script
	requests := map[int64]string{}
	for i, file := range slices.Concat(files[n:], files[:n]) {
		list, found, err := scriptsIn(ctx, file)
		if err != nil {
			return err
		}
		if scripts = append(scripts, list...); i == 0 {
			requests = found
		}
	}
	if len(scripts) == 0 {
		return fmt.Errorf("the record of %s has no answer", name)
	}
	note(agent.ServerNote{Name: name, Recorded: requests})
	o := replay.Options{Side: frame.U2C, Match: replay.Matcher{Exact: true, Ignore: ignored}}
	o.Trace = func(e replay.Event) {
		if e.Dir == frame.C2U && e.Recorded > 0 && e.ID != "" {
			note(agent.ServerNote{Name: name, Played: e.Recorded})
		}
	}
	o.Diverged = func(d *replay.Divergence) {
		note(agent.ServerNote{Name: name, Refused: name + ": " + render.Clip(d.Text, 1000)})
	}
	_, err := replay.NewRepeater(scripts, ignored).Run(ctx, client, o)
	return err
}

// ignored are members of requests that say nothing about what is asked.
var ignored = []jsondiff.Path{{"params", "_meta"}, {"params", "capabilities"}, {"params", "protocolVersion"}}

// scriptsIn returns the scripts in a record of a server, and its requests by their frames.
func scriptsIn(ctx context.Context, file string) (scripts []*replay.Script, requests map[int64]string, err error) {
	o := &source.Opener{Getenv: func(string) string { return "" }}
	cfg := decode.Config{Workers: 1, Resync: true, Wire: true}
	in, err := o.Session(ctx, file, cfg, false)
	if err != nil {
		return nil, nil, err
	}
	requests = map[int64]string{}
	defer in.Close()
	session := new(replay.Session)
	cfg.Event = session.Event
	_, err = decode.Run(ctx, in.Input, io.Discard, cfg, func() decode.View {
		return func(dst []byte, it *decode.Item) ([]byte, error) {
			if it.Frame.Dir == frame.C2U && it.Err == nil && it.Message.Phase == protocol.Open && len(requests) < maxNamed {
				requests[it.Seq] = strings.TrimSpace(string(it.Message.Kind) + " " + string(it.Message.Label))
			}
			session.Add(replay.Record{Seq: it.Seq, Time: it.Time, Frame: it.Frame, Framing: it.Framing, Protocol: it.Protocol})
			return dst, nil
		}
	})
	scripts = slices.DeleteFunc(session.Scripts(frame.U2C), func(s *replay.Script) bool { return !s.Has(frame.U2C) })
	if len(scripts) > 0 {
		return scripts, requests, nil // of a record that was cut
	}
	return nil, nil, err
}

// maxNamed bounds the requests of which a run is told whether they were asked.
const maxNamed = 10_000
