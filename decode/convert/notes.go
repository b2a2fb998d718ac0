package convert

import (
	"io"
	"sync"
	"sync/atomic"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/ndjson"
)

// Notes is a session that keeps its notes for NDJSON, because decoding handles only
// frames. Each note becomes a line before the frame that it preceded.
// Frames may be written by several goroutines.
type Notes struct {
	capture.Reader

	frames  int64        // read so far
	waiting atomic.Int64 // frames that have notes in front

	mu    sync.Mutex
	lines map[int64][]byte // by the number of the frame after them
}

// KeepNotes returns r with its notes kept.
func KeepNotes(r capture.Reader) *Notes {
	return &Notes{Reader: r, lines: map[int64][]byte{}}
}

// Next reads the next record; see [capture.Reader].
func (n *Notes) Next(rec *capture.Record) error {
	err := n.Reader.Next(rec)
	switch {
	case err != nil:
	case rec.Kind == capture.Frame:
		n.frames++
	case rec.IsRemark():
		n.keepNote(rec)
	}
	return err
}

func (n *Notes) keepNote(rec *capture.Record) {
	r := ndjson.Record{
		Seq: n.frames + 1, Time: rec.Time, Conn: rec.Conn,
		Kind: []byte(ndjson.Note), Summary: rec.Text, Raw: []byte{},
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lines[r.Seq] == nil {
		n.waiting.Add(1)
	}
	n.lines[r.Seq] = append(r.Append(n.lines[r.Seq]), '\n')
}

// AppendTo appends the notes in front of the frame of that number, from 1, to dst.
func (n *Notes) AppendTo(dst []byte, seq int64) []byte {
	if n.waiting.Load() == 0 {
		return dst
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := n.lines[seq]
	if lines != nil {
		delete(n.lines, seq)
		n.waiting.Add(-1)
	}
	return append(dst, lines...)
}

// WriteRest writes the notes after the last frame.
func (n *Notes) WriteRest(w io.Writer) error {
	_, err := w.Write(n.AppendTo(nil, n.frames+1))
	return err
}
