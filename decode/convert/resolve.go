package convert

import (
	"cmp"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/opaque"
)

// maxAhead bounds the memory for records that are read ahead, in bytes.
const maxAhead = 4 << 20

// recordSize is about what a record takes besides its bytes.
const recordSize = 256

// Resolve returns the records of r, with what r leaves to its reader added to each frame:
// the protocol and, where messages tell it, the direction. If p is not nil it is the
// protocol of all frames, and dir is the direction of all frames that have none.
//
// All frames of a connection are of one protocol. The first messages of the JSON-RPC family
// do not tell which; so Resolve reads ahead to one that does.
func Resolve(r capture.Reader, p protocol.Protocol, dir frame.Dir) (capture.Reader, error) {
	v := &resolved{reader: r, session: *r.Session(), dir: dir, wires: map[wire]*meaning{}}
	if p != nil {
		v.given, v.session.Protocol = p, p.Name()
		return v, nil
	}
	return v, v.readAhead()
}

type resolved struct {
	reader  capture.Reader
	session capture.Session
	given   protocol.Protocol
	dir     frame.Dir
	wires   map[wire]*meaning
	untold  int // wires whose protocol is not told

	held    []capture.Record // that were read ahead
	err     error            // after those
	message protocol.Message
}

// A wire carries frames of one protocol.
type wire struct {
	conn   int
	stream int64
	family string
}

// httpConn stands for all connections with HTTP.
const httpConn = -1

// wireOf returns the wire of a frame. All HTTP of a session is one wire, except for frames
// that are named as of another family. All streams of an HTTP/2 connection are one wire too.
func wireOf(rec *capture.Record) wire {
	switch {
	case rec.Meta == nil:
		return wire{conn: rec.Conn, stream: rec.Stream}
	case rec.Meta.Framing == frame.HTTP:
		return wire{conn: httpConn, family: familyOf(rec.Protocol)}
	}
	return wire{conn: rec.Conn}
}

// familyOf returns the name that stands for all protocols of a family.
func familyOf(name string) string {
	if p, err := all.Named(name); err == nil && all.IsRPC(p) {
		return "calls"
	}
	return name
}

// A meaning says how the frames of a wire are read.
type meaning struct {
	protocol protocol.Protocol
	refiner  *all.Refiner // of a wire whose protocol is not told
}

// plain is the meaning of JSON on the wire of HTTP that is no message of its protocol.
var plain = meaning{protocol: opaque.JSON}

// tells reports whether a protocol is as specific as can be.
func tells(p protocol.Protocol) bool { return all.Depth(p) == all.Told }

// readAhead reads up to where the protocol is known of every connection that has begun by
// then.
func (v *resolved) readAhead() error {
	var first *meaning
	for size := 0; size < maxAhead && v.err == nil; {
		var rec capture.Record
		if v.err = v.reader.Next(&rec); v.err != nil {
			break
		}
		v.held = append(v.held, rec.Clone())
		size += recordSize + len(rec.Raw) + len(rec.Text)
		if rec.Kind != capture.Frame || rec.Gap || carried.Of(&rec.Frame) != nil {
			continue
		}
		m, err := v.learn(&rec)
		if err != nil {
			return err
		}
		if first == nil {
			first = m
		}
		if v.untold == 0 {
			break
		}
	}
	if first != nil && first.protocol != protocol.Protocol(opaque.Bytes) {
		v.session.Protocol = first.protocol.Name()
	}
	for _, m := range v.wires {
		m.refiner = nil
	}
	return nil
}

// learn returns what a frame and those before it tell about their wire.
func (v *resolved) learn(rec *capture.Record) (*meaning, error) {
	at := wireOf(rec)
	m := v.wires[at]
	if m == nil {
		p, err := all.Named(cmp.Or(rec.Protocol, v.reader.Session().Protocol, opaque.Bytes.Name()))
		if err != nil {
			return nil, err
		}
		m = &meaning{p, all.NewRefiner(at.conn == httpConn)}
		v.wires[at] = m
		v.untold++
	}
	if at == (wire{conn: httpConn}) && v.reader.Session().Protocol == "" {
		switch p := all.Beside(m.protocol, rec.Payload()); p {
		case m.protocol:
		case opaque.JSON:
			return &plain, nil
		default:
			if m.refiner == nil {
				v.untold++
			}
			m.protocol, m.refiner = opaque.Bytes, all.NewRefiner(true)
		}
	}
	if m.refiner == nil {
		return m, nil
	}
	if p, _, _ := m.refiner.Refine(rec.Payload()); !tells(m.protocol) && p != protocol.Protocol(opaque.Bytes) {
		m.protocol = p
	}
	if tells(m.protocol) {
		m.refiner = nil
		v.untold--
	}
	return m, nil
}

// Session returns the description of the session, with the protocol.
func (v *resolved) Session() *capture.Session { return &v.session }

// Next reads the next record; see [capture.Reader].
func (v *resolved) Next(rec *capture.Record) error {
	if err := v.nextRecord(rec); err != nil || rec.Kind != capture.Frame {
		return err
	}
	if rec.Dir == frame.DirUnknown {
		rec.Dir = v.dir
	}
	if rec.Gap {
		return nil
	}
	if p := carried.Of(&rec.Frame); p != nil {
		rec.Protocol = p.Name()
		return nil
	}
	p, err := v.protocolOf(rec)
	if err != nil {
		return err
	}
	if p != protocol.Protocol(opaque.Bytes) {
		rec.Protocol = p.Name()
	}
	if rec.Dir == frame.DirUnknown && p.Parse(rec.Payload(), &v.message) == nil {
		rec.Dir = v.message.From
	}
	return nil
}

// nextRecord reads the next record unchanged.
func (v *resolved) nextRecord(rec *capture.Record) error {
	if len(v.held) > 0 {
		*rec, v.held = v.held[0], v.held[1:]
		return nil
	}
	if v.err == nil {
		v.err = v.reader.Next(rec)
	}
	if v.err != nil {
		*rec = capture.Record{}
	}
	return v.err
}

// protocolOf returns the protocol of a frame: that of its wire. A wire that began later has
// the protocol of the session if its first message leaves that open.
func (v *resolved) protocolOf(rec *capture.Record) (protocol.Protocol, error) {
	if v.given != nil {
		return v.given, nil
	}
	m, err := v.learn(rec)
	if err != nil {
		return nil, err
	}
	if m.refiner != nil {
		m.refiner = nil
		if name := v.session.Protocol; name != "" {
			err = m.inherit(name)
		}
	}
	return m.protocol, err
}

// inherit gives a wire the protocol of that name, unless its first message does not fit:
// JSON that is not JSON-RPC is of no such protocol.
func (m *meaning) inherit(name string) error {
	p, err := all.Named(name)
	if err == nil && (m.protocol == protocol.Protocol(opaque.Bytes) || all.IsRPC(m.protocol) && all.IsRPC(p)) {
		m.protocol = p
	}
	return err
}
