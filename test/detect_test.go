package test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/source"
	forms "github.com/wirectl/wirectl/source/all"
)

// JSON of other programs is JSON without findings, wherever its lines begin, as a stream unless that is
// a file of a known form, as what either program wrote, and as bodies of HTTP.
func TestForeignJSON(t *testing.T) {
	text, err := os.ReadFile("testdata/foreign.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range strings.Split(string(text), "\n-- ")[1:] {
		name, lines, _ := strings.Cut(file, " --\n")
		t.Run(name, func(t *testing.T) {
			for rest := strings.SplitAfter(strings.TrimSpace(lines)+"\n", "\n"); len(rest) > 1; rest = rest[1:] {
				stream := strings.Join(rest, "")
				if p, _ := all.Recognize([]byte(rest[0])); p != opaque.JSON {
					t.Errorf("%s is taken for %s", rest[0], p.Name())
				}
				if forms.Detect(&source.Head{Bytes: []byte(stream), Whole: true}) == nil {
					checkForeign(t, followStream(t, stream))
				}
				checkForeign(t, follow(t, posted(rest[0])))
				for _, side := range []string{"c2s.bin", "s2c.bin"} {
					checkForeign(t, follow(t, fstest.MapFS{
						"c2s.bin": {}, "s2c.bin": {}, side: {Data: []byte(stream)},
					}))
				}
			}
		})
	}
}

// posted returns the recording of a POST of a body.
func posted(body string) fs.FS {
	request := fmt.Sprintf("POST /x HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return fstest.MapFS{
		"c2s.bin": {Data: []byte(request)},
		"s2c.bin": {Data: []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")},
	}
}

// checkForeign fails for anything that is not JSON without findings.
func checkForeign(t *testing.T, list []track.Tracker) {
	t.Helper()
	for _, tr := range list {
		if tr.Protocol != opaque.JSON && tr.Protocol != carried.HTTP {
			t.Errorf("it is taken for %s", tr.Protocol.Name())
		}
		for f := range tr.Findings() {
			t.Errorf("a finding: %s %v", f.Name, f.Frames)
		}
	}
}

// followStream returns the trackers of one direction of a connection.
func followStream(t *testing.T, stream string) []track.Tracker {
	t.Helper()
	var ts track.Trackers
	cfg := decode.Config{Workers: 1, Resync: true}
	in, err := decode.Open(strings.NewReader(stream), cfg)
	if err != nil {
		t.Fatal(err)
	}
	f := track.NewFollower(&ts, in, cfg)
	if _, err := decode.Run(context.Background(), in, io.Discard, cfg, func() decode.View { return f.View }); err != nil {
		t.Fatal(err)
	}
	f.End()
	return ts.List
}

// No part of a recorded session is taken for another protocol: neither any of its messages
// alone, nor its beginning, wherever that is cut. Only its whole streams need be enough to
// tell the protocol.
func TestSessionsAreThemselves(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing after another: the race detector has nothing to find")
	}
	for name, fsys := range recordings(t) {
		golden, err := os.ReadFile("testdata/recordings.golden/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(golden), "\n")
		own, _, _ := strings.Cut(first, " ")
		p, err := all.Named(own)
		if err != nil || fixtures.Carrier(name) != "" {
			continue // what is in a carrier, the golden files show
		}
		t.Run(name, func(t *testing.T) {
			for _, file := range []string{"c2s.bin", "s2c.bin"} {
				if stream, err := fs.ReadFile(fsys, file); err == nil && carrier.Detect(stream, true).Kind == carrier.Plain {
					checkStream(t, file, stream, p)
				}
			}
		})
	}
}

// checkStream checks the messages and the beginnings of a stream of protocol p.
func checkStream(t *testing.T, name string, stream []byte, p protocol.Protocol) {
	t.Helper()
	general := []protocol.Protocol{p, opaque.JSON, opaque.Bytes, nil}
	if _, ok := p.(*jsonrpc.Dialect); ok {
		general = append(general, jsonrpc.Plain)
	}
	check := func(what string, is protocol.Protocol) {
		if p.Encoding() == protocol.JSON && !slices.Contains(general, is) {
			t.Errorf("%s: %s is taken for %s", name, what, is.Name())
		}
	}
	for n := range min(len(stream), 1000) {
		var g all.Guess
		g.Detect(stream[:n], true)
		check(string(stream[:n]), g.Protocol)
	}
	var g all.Guess
	g.Detect(stream, true)
	if len(stream) == 0 || g.Framing == nil {
		return
	}
	is, refiner := g.Protocol, g.Refiner()
	s := frame.NewScanner(strings.NewReader(string(stream)), g.Framing)
	for s.Scan() {
		payload := s.Frame().Payload()
		alone, _ := all.Recognize(payload)
		check(string(payload), alone)
		if refiner != nil {
			if is, _, _ = refiner.Refine(payload); is != nil {
				check(string(payload), is)
			}
		}
	}
	if is != p && is != protocol.Protocol(jsonrpc.Plain) {
		t.Errorf("%s is taken for %s, not %s", name, is.Name(), p.Name())
	}
}
