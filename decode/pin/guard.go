package pin

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
)

// A Guard keeps the client of one HTTP connection from lists of tools that have changed. All bytes of the connection
// pass it before they are forwarded. It may be used by a goroutine for each direction.
type Guard struct {
	watch *Watch
	note  func(*capture.Record)
	kind  carrier.Kind
	conn  int

	mu      sync.Mutex
	carrier *carrier.Carrier
	places  places
	asked   bool   // the client has asked for a list, and nothing of the answer has passed
	held    []byte // of the answer
}

// Guard returns the guard of the connection with that number to a server. Note gets the notes for the session's records.
func (w *Watch) Guard(kind carrier.Kind, conn int, server string, note func(*capture.Record)) *Guard {
	g := &Guard{watch: w, note: note, kind: kind, conn: conn, carrier: carrier.New(carrier.Options{Kind: kind}), places: newPlaces()}
	g.places.names[conn] = server
	return g
}

// ErrRefused is the error of a list of tools that has changed.
var ErrRefused = errors.New("the tools have changed since they were pinned")

// maxHeld bounds what is held of an answer, in bytes.
const maxHeld = 2 * maxListing

// Pass takes in bytes that follow in a direction, and returns those that may be forwarded now. No bytes are the end of
// the direction. With [ErrRefused] the connection has to end after what is returned: the answer of HTTP/1 to the client
// or, if a part of the server's answer has passed, nothing.
func (g *Guard) Pass(dir frame.Dir, data []byte) ([]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var frames []frame.Frame
	if len(data) > 0 {
		frames = g.carrier.Feed(dir, data)
	} else {
		frames = g.carrier.End(dir)
	}
	drift, hasMessage := g.see(frames)
	switch {
	case dir == frame.C2U:
		return data, nil
	case drift != nil && drift.Instead == nil: // it is only to be told
	case drift != nil && g.asked:
		g.asked, g.held = false, nil
		return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(drift.Instead), drift.Instead), ErrRefused
	case drift != nil:
		return nil, ErrRefused
	case g.asked && !hasMessage && len(data) > 0 && len(g.held)+len(data) <= maxHeld:
		g.held = append(g.held, data...)
		return nil, nil
	}
	out := data
	if len(g.held) > 0 {
		out = append(g.held, data...)
	}
	g.asked, g.held = false, nil
	return out, nil
}

// see shows the watch frames. It reports whether the server has sent something besides the beginning of a stream of events.
func (g *Guard) see(frames []frame.Frame) (drift *Drift, hasMessage bool) {
	for ; len(frames) > 0; frames = g.carrier.More() {
		for i := range frames {
			f := &frames[i]
			f.Conn = g.conn
			at, payload := g.places.placeOf(f), f.Payload()
			if f.Dir == frame.C2U {
				if !bytes.Contains(payload, []byte("jsonrpc")) {
					continue // such as a prompt
				}
				g.asked = g.asked || g.watch.Mode == Refuse && g.kind == carrier.HTTP1 && bytes.Contains(payload, []byte("tools/list"))
			} else if m := f.Meta; m == nil || m.Signal != frame.Response || !strings.HasPrefix(m.Head.Get("Content-Type"), "text/event-stream") {
				hasMessage = true
			}
			if d := g.watch.See(at, f, payload); d != nil {
				d.Note.Conn, d.Note.Dir = g.conn, f.Dir
				g.note(&d.Note)
				if drift == nil || d.Instead != nil {
					drift = d
				}
			}
		}
	}
	return drift, hasMessage
}
