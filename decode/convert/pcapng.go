package convert

import (
	"errors"
	"io"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
)

// WritePcapng writes what is left of r to w as pcapng. Frames are labelled by p, or if that
// is nil by their own protocol. If r is cut, everything before the cut is written, and its
// error returned.
func WritePcapng(w io.Writer, r capture.Reader, p protocol.Protocol) error {
	pw, err := pcapng.NewWriter(w, *r.Session(), Labels(p))
	if err != nil {
		return err
	}
	return capture.Copy(pw, r)
}

// WriteZstd is WritePcapng with compression. If r is cut, the output is whole all the same.
func WriteZstd(w io.Writer, r capture.Reader, p protocol.Protocol) error {
	z, err := pcapng.Compress(w)
	if err != nil {
		return err
	}
	err = WritePcapng(z, r, p)
	return errors.Join(err, z.Close())
}

// Labels returns a function that labels frames for Wireshark: with the kind and the id of
// their message, and after an arrow the id that it refers to. Messages are read by p, or if
// that is nil by the protocol that the record names. The function serves one writer at a
// time.
func Labels(p protocol.Protocol) func(*capture.Record, *pcapng.Label) {
	l := &labels{given: p}
	return l.label
}

type labels struct {
	given, last protocol.Protocol
	message     protocol.Message
}

var malformed = []byte("malformed")

func (l *labels) label(r *capture.Record, label *pcapng.Label) {
	p := l.protocol(r.Protocol)
	switch {
	case r.Gap:
		label.Info = append(label.Info, "skipped"...)
		return
	case p == nil || r.Compressed:
		return
	}
	m := &l.message
	if p.Parse(r.Payload(), m) != nil {
		label.Info = append(label.Info, malformed...)
		return
	}
	label.Dissector = pcapng.Dissector(p.Encoding())
	label.Info = render.AppendSafe(label.Info, m.Kind)
	label.Info = appendNames(label.Info, m)
}

// appendNames appends the ids of a message.
func appendNames(dst []byte, m *protocol.Message) []byte {
	if m.ID.IsZero() && m.Ref.IsZero() {
		return dst
	}
	dst = render.AppendSafe(append(dst, ' '), m.ID.Text)
	if !m.Ref.IsZero() {
		dst = render.AppendSafe(append(dst, "→"...), m.Ref.Text)
	}
	return dst
}

// protocol returns the protocol by which a record is read; nil if there is none
// of that name.
func (l *labels) protocol(name string) protocol.Protocol {
	switch {
	case l.given != nil:
		return l.given
	case l.last == nil || l.last.Name() != name:
		l.last, _ = all.Named(name)
	}
	return l.last
}
