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

// firstOwn is the first number of a gate's own. Nobody counts that far, not even a
// [Shared], and it fits into 32 bits.
const firstOwn = 2 * firstName

// nextName counts the names that are made up.
func (g *Gate) nextName() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.named++
	return g.named
}

// errNoFraming says that a frame cannot be made yet.
var errNoFraming = errors.New("nothing has passed yet, so nothing tells how frames are delimited: name it with --framing")

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

// resend sends a frame once more that has passed. What opens an exchange opens
// another one, under ids of its own.
func (l *passage) resend(r *capture.Record) error {
	framing, p := l.link.speaks()
	raw := r.Raw
	var m protocol.Message
	if p != nil && p.Parse(r.Payload(), &m) == nil && opensOne(&m) {
		if m.ID.IsZero() {
			return fmt.Errorf("frame %d asks without an id, so that nothing would tell its answers from others: inject a frame that has one", r.Seq)
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

// sendOwn sends a frame of the gate's own, and notes that in the records.
func (l *passage) sendOwn(raw []byte, format string, args ...any) {
	l.link.gate.alter(l.link.conn, l.dir, "sent to the "+sideOf(l.dir)+" by request: "+format, args...)
	l.out.put(raw, false)
}

// opensOne reports whether a message opens an exchange, which a cancel may do.
func opensOne(m *protocol.Message) bool {
	return m.Phase == protocol.Open || m.Phase == protocol.Cancel && !m.ID.IsZero()
}

// renewed returns a payload with other names for the exchange that it opens.
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

// nameLike returns the nth name that is made up of the same kind as another.
// Numbers count from first.
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

// keepFrame withholds a frame from the side that it was addressed to, and records it.
func (l *passage) keepFrame(it *fault.Item) {
	l.link.gate.alter(l.link.conn, l.dir, "kept from the %s, which did not ask: %s", sideOf(l.dir), describe(it))
	l.link.relay.record(capture.Record{
		Kind: capture.Frame, Protocol: it.Protocol.Name(), Framing: it.Framing.Name(), Frame: *it.Frame,
	})
}

// An opener is the message that opened an exchange. Cancels need it, as they may
// have to say what it is that they cancel.
type opener struct {
	message protocol.Message // its kind and its names
	keys    []string
	own     bool // it was sent by request, and not by its side
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
	if !m.Bind.IsZero() && !(own && m.Bind.Space == protocol.SpaceSession) { // which is not its own
		o.keys = append(o.keys, string(m.Bind.Text))
	}
	for _, key := range o.keys {
		l.openers[key] = o
	}
}

// kept returns a token with bytes of its own.
func kept(t protocol.Token) protocol.Token {
	return protocol.Token{Space: t.Space, Text: bytes.Clone(t.Text)}
}

// follow remembers what opens an exchange, as long as that is open. It reports
// whether a frame answers one that its receiver has not opened.
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
	case m.Phase == protocol.Close && slices.Contains(rules.Accepted, string(o.message.Kind)): // the operation goes on
		if !m.Bind.IsZero() {
			o.message.Bind = kept(m.Bind)
			o.keys = append(o.keys, string(m.Bind.Text))
			other.openers[string(m.Bind.Text)] = o
		}
	case o.message.ID.Space == protocol.SpaceTurn: // another may wait, which has no other name
	default:
		other.forgetOpener(o)
	}
	return o.own
}

// forgetOpener forgets what opened an exchange, which has ended; nil is nothing.
func (l *passage) forgetOpener(o *opener) {
	if o == nil {
		return
	}
	for _, key := range o.keys {
		delete(l.openers, key)
	}
}
