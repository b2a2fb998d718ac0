package pcapng

import (
	"encoding/binary"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// Tags of Wireshark's exported PDU, which precede the payload. They are big-endian. A value
// is padded with zeros to a multiple of four bytes, and its length includes the padding.
const (
	tagEnd          = 0
	tagDissector    = 12
	tagSourcePort   = 25
	tagTargetPort   = 26
	tagProtocol     = 33
	tagPointToPoint = 35
	tagInfo         = 36
)

// Directions in tagPointToPoint, from the controller's point of view.
const (
	sent     = 0
	received = 1
)

// tags appends the tags that tell Wireshark how to show the frame.
func (w *Writer) tags(r *capture.Record, protocol string, l *Label) {
	dissector := l.Dissector
	if dissector == "" || r.Gap || r.Compressed {
		dissector = "data"
	}
	tag(w, tagDissector, dissector)
	if protocol != "" {
		tag(w, tagProtocol, protocol[:min(len(protocol), maxLabel)])
	}
	w.direction(r)
	if len(l.Info) > 0 {
		tag(w, tagInfo, clip(l.Info))
	}
	w.tagHead(tagEnd, 0)
}

// direction appends the direction for Wireshark's columns and filters. The connection's
// number stands for the controller's port, and 0 for the unit's.
func (w *Writer) direction(r *capture.Record) {
	conn := uint32(r.Conn)
	switch r.Dir {
	case frame.C2U:
		w.tagWord(tagPointToPoint, sent)
		w.tagWord(tagSourcePort, conn)
		w.tagWord(tagTargetPort, 0)
	case frame.U2C:
		w.tagWord(tagPointToPoint, received)
		w.tagWord(tagSourcePort, 0)
		w.tagWord(tagTargetPort, conn)
	}
}

func tag[text string | []byte](w *Writer, code uint16, value text) {
	w.tagHead(code, len(value)+padding(len(value)))
	w.buf = append(w.buf, value...)
	w.pad(len(value))
}

func (w *Writer) tagWord(code uint16, value uint32) {
	w.tagHead(code, 4)
	w.buf = binary.BigEndian.AppendUint32(w.buf, value)
}

func (w *Writer) tagHead(code uint16, n int) {
	w.buf = binary.BigEndian.AppendUint16(w.buf, code)
	w.buf = binary.BigEndian.AppendUint16(w.buf, uint16(n))
}

// skipTags returns the data after the tags, and false if there is no end tag.
func skipTags(data []byte) ([]byte, bool) {
	for len(data) >= 4 {
		code, n := binary.BigEndian.Uint16(data), int(binary.BigEndian.Uint16(data[2:]))
		data = data[4:]
		if n > len(data) {
			return nil, false
		}
		data = data[n:]
		if code == tagEnd {
			return data, true
		}
	}
	return nil, false
}
