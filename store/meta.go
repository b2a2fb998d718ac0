package store

import (
	"maps"

	"github.com/wirectl/wirectl/frame"
)

// metas keep the metadata of frames that came in a carrier. Most frames share theirs.
type metas struct {
	of     map[int64]carried // by the number of the frame
	shared map[plainMeta]*frame.Meta
}

// carried is the metadata of a frame, its stream, and the position of a payload that is not part
// of the frame's bytes.
type carried struct {
	meta   *frame.Meta // without its Data
	stream int64
	at     int64
	n      int
}

// plainMeta is the metadata that most frames have.
type plainMeta struct {
	framing  string
	signal   frame.Signal
	apart    bool
	encoding string
	opcode   frame.Opcode
}

// maxMetas bounds the number of frames whose meta is kept.
const maxMetas = 500_000

// keepMeta stores the metadata and the stream of a frame. Beyond the limit the oldest are
// dropped.
func (ms *metas) keepMeta(seq int64, f *frame.Frame, bytes *keeper) {
	m := f.Meta
	if m == nil {
		return
	}
	if ms.of == nil {
		ms.of, ms.shared = map[int64]carried{}, map[plainMeta]*frame.Meta{}
	}
	if len(ms.of) >= maxMetas {
		maps.DeleteFunc(ms.of, func(old int64, _ carried) bool { return old < seq-maxMetas/2 })
	}
	c := carried{meta: ms.share(m), stream: f.Stream}
	if m.Apart {
		c.at, c.n = bytes.keepBytes(m.Data), len(m.Data)
	}
	ms.of[seq] = c
}

// share returns a copy of m without Data, which many frames may share.
func (ms *metas) share(m *frame.Meta) *frame.Meta {
	c := *m
	c.Data = nil
	if m.Head != nil || m.Event != "" || m.EventID != "" || m.Code != 0 || m.Text != "" {
		return &c
	}
	k := plainMeta{m.Framing, m.Signal, m.Apart, m.Encoding, m.Opcode}
	if ms.shared[k] == nil {
		ms.shared[k] = &c
	}
	return ms.shared[k]
}

// restore sets the metadata of a frame, with a payload that is apart, and its stream.
func (ms *metas) restore(f *frame.Frame, seq int64, bytes *keeper) (err error) {
	c, ok := ms.of[seq]
	if !ok {
		return nil
	}
	m := *c.meta
	f.Meta, f.Stream = &m, c.stream
	if m.Apart {
		m.Data, err = bytes.readKept(nil, c.at, c.n)
	}
	return err
}
