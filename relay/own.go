package relay

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/relay/fault"
)

// firstOwn is the first number for a gate's own ids. No peer, and no [Shared], counts that
// far, and it fits into 32 bits.
const firstOwn = 2 * firstName

// nextName returns the number of the next generated name.
func (g *Gate) nextName() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.named++
	return g.named
}

// errNoFraming means that the framing is not known yet.
var errNoFraming = errors.New("no frame has passed yet, so the framing is unknown: name it with --framing")

// inject sends a payload that neither side sent.
func (l *passage) inject(payload []byte, format string, args ...any) error {
	framing, p := l.link.speaks()
	if framing == nil {
		return errNoFraming
	}
	raw, err := frame.Append(nil, framing, payload)
	if err != nil {
		return err
	}
	l.owns(payload, p)
	l.sendOwn(raw, format, args...)
	return nil
}

// resend sends a recorded frame again. A request gets new ids, so that it opens another
// exchange.
func (l *passage) resend(r *capture.Record) error {
	framing, p := l.link.speaks()
	raw := r.Raw
	if l.link.gate.cfg.Bridged { // they are of another connection
		if framing == nil {
			return errNoFraming
		}
		var err error
		if raw, err = frame.Append(nil, framing, r.Payload()); err != nil {
			return err
		}
	}
	var m protocol.Message
	if p != nil && p.Parse(r.Payload(), &m) == nil && opensOne(&m) {
		if m.ID.IsZero() {
			return fmt.Errorf("frame %d is a request without an id, so its answers could not be told apart: inject one with an id", r.Seq)
		}
		payload := l.renewed(r.Payload(), p, &m)
		var err error
		if raw, err = frame.Append(nil, framing, payload); err != nil {
			return err
		}
		l.owns(payload, p)
	}
	l.sendOwn(raw, "frame %d once more", r.Seq)
	return nil
}

// sendOwn sends a frame of the gate itself, and records that.
func (l *passage) sendOwn(raw []byte, format string, args ...any) {
	l.link.gate.alter(l.link.conn, l.dir, "sent to the "+sideOf(l.dir)+" by request: "+format, args...)
	l.out.put(raw, false)
}

// opensOne reports whether a message opens an exchange, which a cancel may do.
func opensOne(m *protocol.Message) bool {
	return m.Phase == protocol.Open || m.Phase == protocol.Cancel && !m.ID.IsZero()
}

// renewed returns a payload with new names for the exchange that it opens.
func (l *passage) renewed(payload []byte, p protocol.Protocol, m *protocol.Message) []byte {
	n := l.link.gate.nextName()
	return protocol.AppendRenamed(nil, p, payload, m, func(t protocol.Token) []byte {
		for _, own := range []protocol.Token{m.ID, m.Bind} {
			if t.Space == own.Space && t.Space != protocol.SpaceSession && bytes.Equal(t.Text, own.Text) {
				return []byte(nameLike(p, string(t.Text), firstOwn, n))
			}
		}
		return nil
	})
}

// nameLike generates the nth name in the form of another. Numbers count from first.
func nameLike(p protocol.Protocol, other string, first, n int64) string {
	bare, quoted := strings.CutSuffix(other, `"`)
	switch {
	case p.Encoding() != protocol.JSON:
		return fmt.Sprintf("%s~%d", other, n)
	case quoted:
		return fmt.Sprintf(`%s~%d"`, bare, n)
	}
	return fmt.Sprint(first + n)
}

// owns remembers the exchange that an injected payload opens, unless its side has opened
// it already. The answers are withheld from that side, which would not recognize them.
func (l *passage) owns(payload []byte, p protocol.Protocol) {
	var m protocol.Message
	if p == nil || p.Parse(payload, &m) != nil || !opensOne(&m) || m.ID.IsZero() {
		return
	}
	l.link.mu.Lock()
	defer l.link.mu.Unlock()
	if o := l.openers[string(m.ID.Text)]; o == nil || o.own {
		l.rememberOpener(&m, true)
	}
}

// keepFrame withholds a frame from its receiver, and records it.
func (l *passage) keepFrame(it *fault.Item) {
	l.link.gate.alter(l.link.conn, l.dir, "not forwarded to the %s, which did not ask: %s", sideOf(l.dir), describe(it))
	l.link.relay.record(capture.Record{
		Kind: capture.Frame, Protocol: it.Protocol.Name(), Framing: it.Framing.Name(), Frame: *it.Frame,
	})
}

// An opener is the message that opened an exchange. Cancels may have to repeat parts of it.
type opener struct {
	message protocol.Message // its kind and its names
	keys    []string
	own     bool // the gate sent it
}

// maxOpeners bounds the exchanges that are remembered.
const maxOpeners = 1 << 13

// rememberOpener remembers a message that opens an exchange.
func (l *passage) rememberOpener(m *protocol.Message, own bool) {
	if len(l.openers) >= maxOpeners {
		clear(l.openers)
	}
	o := &opener{keys: []string{string(m.ID.Text)}, own: own}
	o.message = protocol.Message{Kind: bytes.Clone(m.Kind), Phase: m.Phase, ID: kept(m.ID), Bind: kept(m.Bind), Ref: kept(m.Ref)}
	if !m.Bind.IsZero() && !(own && m.Bind.Space == protocol.SpaceSession) { // a session is shared
		o.keys = append(o.keys, string(m.Bind.Text))
	}
	for _, key := range o.keys {
		l.openers[key] = o
	}
}

// kept clones a token.
func kept(t protocol.Token) protocol.Token {
	return protocol.Token{Space: t.Space, Text: bytes.Clone(t.Text)}
}

// follow tracks open exchanges. It reports whether a frame answers one that the gate, and
// not its receiver, has opened.
func (l *passage) follow(it *fault.Item) (own bool) {
	k, m := l.link, &it.Message
	k.mu.Lock()
	defer k.mu.Unlock()
	if m.Phase == protocol.Open {
		l.rememberOpener(m, false)
		return false
	}
	other := k.passages[l.dir.Opposite()]
	if of := m.Operation.Of; m.Operation.Does.Ends() && !of.IsZero() {
		other.forgetOpener(other.openers[string(of.Text)])
	}
	token := m.Ref
	if token.IsZero() {
		token = m.ID
	}
	o := other.openers[string(token.Text)]
	if o == nil || m.Phase == protocol.Cancel {
		return false
	}
	if m.Phase.Ends() && len(m.Version) > 0 {
		k.version = string(m.Version)
	}
	rules := all.Rules(it.Protocol).At(k.version)
	switch update := rules.Subscribe != "" && string(o.message.Kind) == rules.Subscribe && string(m.Kind) == rules.Update; {
	case !m.Phase.Ends(), update:
	case m.Phase == protocol.Close && slices.Contains(rules.Accepted, string(o.message.Kind)): // the operation continues
		if !m.Bind.IsZero() {
			o.message.Bind = kept(m.Bind)
			o.keys = append(o.keys, string(m.Bind.Text))
			other.openers[string(m.Bind.Text)] = o
		}
	case o.message.ID.Space == protocol.SpaceTurn: // another exchange may have the same name
	default:
		other.forgetOpener(o)
	}
	return o.own
}

// forgetOpener forgets the opener of an ended exchange. o may be nil.
func (l *passage) forgetOpener(o *opener) {
	if o == nil {
		return
	}
	for _, key := range o.keys {
		delete(l.openers, key)
	}
}
