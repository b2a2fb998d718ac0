package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/relay/fault"
	"github.com/wirectl/wirectl/session/query"
)

// A heldFrame is a frame that a gate holds.
type heldFrame struct {
	number  int64
	passage *passage
	frame   frame.Frame
	json    bool // its payload is JSON
}

// note describes the frame to viewers.
func (h *heldFrame) note() tap.Note {
	n := tap.Note{Tap: tap.Held, Held: h.number, Conn: h.frame.Conn, Dir: h.frame.Dir.String()}
	if h.json {
		n.Payload = h.frame.Payload()
	} else {
		n.Data = h.frame.Payload()
	}
	return n
}

// The bounds of the held frames: their number and their total size.
const (
	maxHeld     = 10_000
	maxHeldSize = 64 << 20
)

// full reports whether a gate can hold no more.
func (g *Gate) full() bool { return len(g.held) >= maxHeld || g.heldSize >= maxHeldSize }

// hold holds a frame, if it matches the condition; otherwise it returns false. At the limit, it
// blocks, and with it all traffic from that side.
func (g *Gate) hold(l *passage, it *fault.Item) bool {
	g.mu.Lock()
	for told := false; g.full() && g.holds(l, it); {
		if !told {
			told = true
			g.mu.Unlock()
			l.link.relay.warn(fmt.Sprintf("the limit of held frames is reached: the %s is not read until some are released", sideOf(l.dir.Opposite())))
			g.mu.Lock()
			continue
		}
		g.changed.Wait()
	}
	if !g.holds(l, it) {
		g.mu.Unlock()
		return false
	}
	g.number++
	h := &heldFrame{g.number, l, *it.Frame, it.Protocol.Encoding() == protocol.JSON}
	g.held = append(g.held, h)
	g.heldSize += len(h.frame.Raw)
	g.alter(l.link.conn, l.dir, "held: %s", describe(it))
	g.tellTap(h.note()) // under the lock, so that viewers see it before the release
	g.mu.Unlock()
	return true
}

// holds reports whether to hold a frame; never after its link has closed.
func (g *Gate) holds(l *passage, it *fault.Item) bool {
	return g.where != nil && !it.Frame.Gap && g.links[l.link.conn] == l.link && g.where.Match(it)
}

// unhold removes and returns the frames for which meant is true.
func (g *Gate) unhold(meant func(*heldFrame) bool) (gone []*heldFrame) {
	g.held = slices.DeleteFunc(g.held, func(h *heldFrame) bool {
		if !meant(h) {
			return false
		}
		g.heldSize -= len(h.frame.Raw)
		gone = append(gone, h)
		return true
	})
	g.changed.Broadcast()
	return gone
}

// drain waits until no frame of a passage is held, or its link has closed.
func (g *Gate) drain(l *passage) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.links[l.link.conn] == l.link && slices.ContainsFunc(g.held, func(h *heldFrame) bool { return h.passage == l }) {
		g.changed.Wait()
	}
}

// forget drops the held frames of a closed link.
func (g *Gate) forget(k *link) {
	g.mu.Lock()
	if g.links[k.conn] == k {
		delete(g.links, k.conn)
	}
	gone := g.unhold(func(h *heldFrame) bool { return h.passage.link == k })
	g.mu.Unlock()
	g.released("gone", gone...)
}

// Control executes a command of a viewer; see [tap.Controller].
func (g *Gate) Control(_ context.Context, c tap.Command) ([]tap.Note, error) {
	switch c.Do {
	case tap.Inject:
		return nil, g.injectFor(c)
	case tap.Cancel:
		return nil, g.cancelFor(c)
	case tap.Resend:
		return nil, g.resend(c)
	case tap.Hold:
		return nil, g.holdWhere(c.Where)
	case tap.Waiting:
		return g.waiting(), nil
	}
	return nil, g.release(c)
}

// linkOf returns the connection of a command.
func (g *Gate) linkOf(conn int) (*link, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if k := g.links[conn]; k != nil {
		return k, nil
	}
	if (conn == 0 || g.cfg.Bridged) && len(g.links) == 1 {
		for _, k := range g.links {
			return k, nil
		}
	}
	switch {
	case len(g.links) == 0:
		return nil, errors.New("there is no connection")
	case conn == 0:
		return nil, fmt.Errorf(`there are %d connections: say which one with "conn"`, len(g.links))
	}
	return nil, fmt.Errorf("there is no connection %d", conn)
}

func (g *Gate) injectFor(c tap.Command) error {
	k, err := g.linkOf(c.Conn)
	if err != nil {
		return err
	}
	dir := frame.C2U
	if c.To == "controller" {
		dir = frame.U2C
	}
	return k.passages[dir].inject(c.Bytes(), "a frame of a viewer's")
}

func (g *Gate) cancelFor(c tap.Command) error {
	k, err := g.linkOf(c.Conn)
	if err != nil {
		return err
	}
	names := [][]byte{c.ID}
	if text := ""; json.Unmarshal(c.ID, &text) == nil {
		names = append(names, []byte(text)) // for protocols without JSON
	}
	for _, name := range names {
		for _, dir := range []frame.Dir{frame.C2U, frame.U2C} {
			if err := k.cancel(name, dir); err != errNoExchange {
				return err
			}
		}
	}
	return errNoExchange
}

func (g *Gate) resend(c tap.Command) error {
	if g.cfg.Find == nil {
		return errors.New("no history is kept")
	}
	r, ok := g.cfg.Find(c.Seq)
	if !ok {
		return fmt.Errorf("frame %d is not in the history", c.Seq)
	}
	k, err := g.linkOf(r.Conn)
	if err != nil {
		return err
	}
	if r.Gap || r.Dir == frame.DirUnknown {
		return fmt.Errorf("frame %d cannot be sent", c.Seq)
	}
	return k.passages[r.Dir].resend(&r)
}

// holdWhere sets which frames to hold. An empty condition releases all frames.
func (g *Gate) holdWhere(condition string) error {
	if condition == "" {
		g.mu.Lock()
		g.where = nil
		gone := g.flush(func(*heldFrame) bool { return true })
		g.mu.Unlock()
		g.released("released", gone...)
		return nil
	}
	where, err := query.Parse(condition, fault.Fields)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.where = where
	g.changed.Broadcast()
	return nil
}

// waiting lists the held frames.
func (g *Gate) waiting() (notes []tap.Note) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range g.held {
		notes = append(notes, h.note())
	}
	return notes
}

// release sends a held frame, sends another one instead, or drops it.
func (g *Gate) release(c tap.Command) error {
	h := g.heldAs(c.Held)
	if h == nil {
		return errNotHeld(c.Held)
	}
	raw, how := h.frame.Raw, "released"
	switch c.Do {
	case tap.Drop:
		raw, how = nil, "dropped"
	case tap.Edit:
		framing, _ := h.passage.link.speaks()
		var err error
		if raw, err = frame.Append(nil, framing, c.Bytes()); err != nil {
			return err
		}
		how = "edited"
	}
	if !g.let(h, raw, how) {
		return errNotHeld(c.Held) // any more
	}
	return nil
}

func errNotHeld(number int64) error { return fmt.Errorf("no held frame has the number %d", number) }

// heldAs returns the held frame with a number, or nil.
func (g *Gate) heldAs(number int64) *heldFrame {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.IndexFunc(g.held, func(h *heldFrame) bool { return h.number == number }); i >= 0 {
		return g.held[i]
	}
	return nil
}

// letGo releases the frames for which meant is true.
func (g *Gate) letGo(meant func(*heldFrame) bool) {
	g.mu.Lock()
	gone := g.flush(meant)
	g.mu.Unlock()
	g.released("released", gone...)
}

// flush sends the frames for which meant is true, before any new ones.
func (g *Gate) flush(meant func(*heldFrame) bool) []*heldFrame {
	gone := g.unhold(meant)
	for _, h := range gone {
		h.passage.out.put(h.frame.Raw, false)
	}
	return gone
}

// let sends bytes instead of a held frame, and reports how. It returns false if the frame is no
// longer held.
func (g *Gate) let(h *heldFrame, raw []byte, how string) bool {
	g.mu.Lock()
	gone := g.unhold(func(other *heldFrame) bool { return other == h })
	if len(gone) > 0 {
		h.passage.out.put(raw, false)
	}
	g.mu.Unlock()
	g.released(how, gone...)
	return len(gone) > 0
}

// released reports the fate of held frames.
func (g *Gate) released(how string, gone ...*heldFrame) {
	for _, h := range gone {
		g.tellTap(tap.Note{Tap: tap.Released, Held: h.number, How: how, Conn: h.frame.Conn, Dir: h.frame.Dir.String()})
	}
}
