package track_test

import (
	"context"
	"io"
	"testing"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/frame"
)

// A script is a session of records.
type script struct {
	session capture.Session
	records []capture.Record
}

func (s *script) Session() *capture.Session { return &s.session }

func (s *script) Next(rec *capture.Record) error {
	if len(s.records) == 0 {
		return io.EOF
	}
	*rec, s.records = s.records[0], s.records[1:]
	return nil
}

// http is a body on a connection of its own.
func http(conn int, dir frame.Dir, protocol, body string) capture.Record {
	return capture.Record{Protocol: protocol, Framing: frame.HTTP, Frame: frame.Frame{
		Conn: conn, Dir: dir, Raw: []byte(body), End: len(body), Meta: &frame.Meta{Framing: frame.HTTP},
	}}
}

// What a broker asks its provider over HTTP is not judged by the rules of the
// door, be that HTTP too.
func TestTwoProtocolsOverHTTP(t *testing.T) {
	s := &script{records: []capture.Record{
		http(1, frame.C2U, "nexus", `{"jsonrpc":"2.0","id":1,"method":"send","params":{"content":"hi"}}`),
		http(2, frame.C2U, "", `{"model":"m","messages":[]}`),
		http(2, frame.U2C, "", `{"error":{"message":"no"}}`),
		http(1, frame.U2C, "nexus", `{"jsonrpc":"2.0","id":1,"result":{"content":"hi","request_id":"r"}}`),
	}}
	var ts track.Trackers
	in, cfg := decode.Input{Capture: s}, decode.Config{Workers: 1}
	f := track.NewFollower(&ts, in, cfg)
	if _, err := decode.Run(context.Background(), in, io.Discard, cfg, func() decode.View { return f.View }); err != nil {
		t.Fatal(err)
	}
	f.End()
	frames := map[string]int64{}
	for _, tr := range ts.List {
		frames[tr.Protocol.Name()] = tr.Stats().Frames
		if n := tr.Stats().Findings; len(n) > 0 {
			t.Errorf("%s: findings %v", tr.Protocol.Name(), n)
		}
	}
	if frames["nexus"] != 2 || frames["json"] != 2 {
		t.Errorf("frames were judged as %v", frames)
	}
}
