package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/query"
	"github.com/wirectl/wirectl/relay/fault"
)

// A heldFrame waits at a gate.
type heldFrame struct {
	number  int64
	passage *passage
	frame   frame.Frame
	json    bool // its payload is JSON
	taken   bool // somebody lets it go; the gate's lock guards it
}

// note tells of the frame.
func (h *heldFrame) note() tap.Note {
	n := tap.Note{Tap: tap.Held, Held: h.number, Conn: h.frame.Conn, Dir: h.frame.Dir.String()}
	if h.json {
		n.Payload = h.frame.Payload()
	} else {
		n.Data = h.frame.Payload()
	}
	return n
}

// hold keeps a frame that is to wait. It returns false for any other.
func (g *Gate) hold(l *passage, it *fault.Item) bool {
	g.mu.Lock()
	if g.where == nil || it.Frame.Gap || !g.where.Match(it) {
		g.mu.Unlock()
		return false
	}
	g.number++
	h := &heldFrame{g.number, l, *it.Frame, it.Protocol.Encoding() == protocol.JSON, false}
	g.held = append(g.held, h)
	g.mu.Unlock()
	g.alter(l.link.conn, l.dir, "held: %s", describe(it))
	g.tell(h.note())
	return true
}

// drain waits until nothing of a passage is held, or its link has closed.
func (g *Gate) drain(l *passage) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.links[l.link.conn] == l.link && slices.ContainsFunc(g.held, func(h *heldFrame) bool { return h.passage == l }) {
		g.changed.Wait()
	}
}

// forget gives up what a link holds, which has closed.
func (g *Gate) forget(k *link) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = slices.DeleteFunc(g.held, func(h *heldFrame) bool { return h.passage.link == k })
	if g.links[k.conn] == k {
		delete(g.links, k.conn)
	}
	g.changed.Broadcast()
}

// nextCancel numbers a cancel that has an id of its own, far from the ids that
// programs count from 1.
func (g *Gate) nextCancel() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cancels++
	return 9_000_000_000 + g.cancels
}

// Control does what a viewer asks for; see [tap.Controller].
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

// linkOf returns the connection that a command is about.
func (g *Gate) linkOf(conn int) (*link, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if k := g.links[conn]; k != nil {
		return k, nil
	}
	if conn == 0 && len(g.links) == 1 {
		for _, k := range g.links {
			return k, nil
		}
	}
	switch {
	case len(g.links) == 0:
		return nil, errors.New("nobody is connected")
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
	framing, _ := k.speaks()
	return k.passages[dir].inject(framing, c.Bytes(), "a frame of a viewer's")
}

func (g *Gate) cancelFor(c tap.Command) error {
	k, err := g.linkOf(c.Conn)
	if err != nil {
		return err
	}
	err = k.cancel(c.ID, frame.C2U)
	if err == errNoExchange {
		err = k.cancel(c.ID, frame.U2C)
	}
	return err
}

func (g *Gate) resend(c tap.Command) error {
	if g.cfg.Find == nil {
		return errors.New("no history is kept")
	}
	r, ok := g.cfg.Find(c.Seq)
	if !ok {
		return fmt.Errorf("history does not hold frame %d", c.Seq)
	}
	k, err := g.linkOf(r.Conn)
	if err != nil {
		return err
	}
	if r.Gap || r.Dir == frame.DirUnknown {
		return fmt.Errorf("frame %d is none that can be sent", c.Seq)
	}
	k.passages[r.Dir].send(r.Raw, "frame %d once more", c.Seq)
	return nil
}

// holdWhere sets which frames wait. Without a condition, those that do are let
// go.
func (g *Gate) holdWhere(condition string) error {
	if condition == "" {
		g.mu.Lock()
		g.where = nil
		g.mu.Unlock()
		g.letGo(func(*heldFrame) bool { return true })
		return nil
	}
	where, err := query.Parse(condition, fault.Fields)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.where = where
	return nil
}

// waiting tells of the frames that are held.
func (g *Gate) waiting() (notes []tap.Note) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range g.held {
		if !h.taken {
			notes = append(notes, h.note())
		}
	}
	return notes
}

// release lets a frame that is held go as it is, as another, or never.
func (g *Gate) release(c tap.Command) error {
	h := g.takeHeld(func(h *heldFrame) bool { return h.number == c.Held })
	if h == nil {
		return fmt.Errorf("no frame waits as number %d", c.Held)
	}
	switch c.Do {
	case tap.Release:
		g.let(h, h.frame.Raw, "released")
	case tap.Drop:
		g.let(h, nil, "dropped")
	default:
		framing, _ := h.passage.link.speaks()
		raw, err := frame.Append(nil, framing, c.Bytes())
		if err != nil {
			g.putBack(h)
			return err
		}
		g.let(h, raw, "edited")
	}
	return nil
}

// takeHeld takes the frame that has waited longest of those that are meant; nil
// if there is none. Until it is let go, nobody else can take it.
func (g *Gate) takeHeld(meant func(*heldFrame) bool) *heldFrame {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range g.held {
		if !h.taken && meant(h) {
			h.taken = true
			return h
		}
	}
	return nil
}

// letGo lets the frames go that are meant, as they are.
func (g *Gate) letGo(meant func(*heldFrame) bool) {
	for h := g.takeHeld(meant); h != nil; h = g.takeHeld(meant) {
		g.let(h, h.frame.Raw, "released")
	}
}

// putBack holds a frame again that was taken.
func (g *Gate) putBack(h *heldFrame) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h.taken = false
}

// let sends bytes in the place of a frame that was taken, and tells how.
func (g *Gate) let(h *heldFrame, raw []byte, how string) {
	h.passage.out.put(raw, false)
	g.mu.Lock()
	g.held = slices.DeleteFunc(g.held, func(other *heldFrame) bool { return other == h })
	g.changed.Broadcast()
	g.mu.Unlock()
	g.tell(tap.Note{Tap: tap.Released, Held: h.number, How: how, Conn: h.frame.Conn, Dir: h.frame.Dir.String()})
}
