package again

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/peer/replay"
	"github.com/wirectl/wirectl/run/agent"
	"github.com/wirectl/wirectl/session/jsondiff"
	"github.com/wirectl/wirectl/transport"
)

// PlayServer plays a server over stdio, in the process that its agent has started instead. The answers are first those
// of the start with the same number in the record.
func PlayServer(ctx context.Context, s *agent.Servers, name string, n int, client transport.Conn) (agent.ServerResult, error) {
	files := s.Files[name]
	if len(files) == 0 {
		return agent.ServerResult{}, fmt.Errorf("%s is not in the record, and a replay starts no other server; --tools %s=live would", name, name)
	}
	n %= len(files)
	var scripts []*replay.Script
	for _, file := range slices.Concat(files[n:], files[:n]) {
		list, err := scriptsIn(ctx, file)
		if err != nil {
			return agent.ServerResult{}, err
		}
		scripts = append(scripts, list...)
	}
	if len(scripts) == 0 {
		return agent.ServerResult{}, fmt.Errorf("the record of %s has no answer", name)
	}
	repeater := replay.NewRepeater(scripts, ignored)
	result, err := repeater.Run(ctx, client, replay.Options{Side: frame.U2C, Match: replay.Matcher{Exact: true, Ignore: ignored}, Cases: true})
	out := agent.ServerResult{Played: result.Matched}
	for _, d := range result.Divergences {
		out.Refused = append(out.Refused, cmp.Or(d.Text, "a message")+" (server "+name+")")
	}
	for _, c := range result.Cases {
		if c.Skipped && c.Divergence == nil {
			out.Never = append(out.Never, render.Clip(c.Name, 200))
		}
	}
	return out, err
}

// ignored are members of requests that say nothing about what is asked.
var ignored = []jsondiff.Path{{"params", "_meta"}, {"params", "capabilities"}, {"params", "protocolVersion"}}

func scriptsIn(ctx context.Context, file string) ([]*replay.Script, error) {
	o := &source.Opener{Getenv: func(string) string { return "" }}
	cfg := decode.Config{Workers: 1, Resync: true, Wire: true}
	in, err := o.Session(ctx, file, cfg, false)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	session := new(replay.Session)
	_, err = decode.Run(ctx, in.Input, io.Discard, cfg, func() decode.View {
		return func(dst []byte, it *decode.Item) ([]byte, error) {
			session.Add(replay.Record{Seq: it.Seq, Time: it.Time, Frame: it.Frame, Framing: it.Framing, Protocol: it.Protocol})
			return dst, nil
		}
	})
	scripts := slices.DeleteFunc(session.Scripts(frame.U2C), func(s *replay.Script) bool { return !s.Has(frame.U2C) })
	if len(scripts) > 0 {
		return scripts, nil // of a record that was cut
	}
	return nil, err
}
