package store

import "slices"

// A Cursor is a viewer's position in a session. The zero Cursor is at its beginning.
type Cursor struct {
	frame    int64  // the number of the next frame
	change   int64  // the last change of a row that was seen
	mark     uint32 // of the newest row that was seen
	finding  int64  // how many findings were seen
	unmarked []int64
}

// maxUnmarked bounds the frames without an exchange that are checked again: they may get one
// once the protocol is known.
const maxUnmarked = 4096

// Changes are the news for a viewer.
type Changes struct {
	Exchanges []Exchange // the oldest first
	Frames    []Frame
	Findings  []Finding
	Marks     map[int64]uint32 // exchanges of frames that had none before
	// Skipped frames and Missed exchanges were dropped before the viewer reached them.
	Skipped, Missed int64
	More            bool // there are more frames
}

// Empty reports whether there is nothing new.
func (c *Changes) Empty() bool {
	return len(c.Exchanges)+len(c.Frames)+len(c.Findings)+len(c.Marks) == 0 && c.Skipped+c.Missed == 0
}

// Follow returns the changes since the last call with that cursor, with at most n frames.
func (s *Store) Follow(c *Cursor, n int) Changes {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Changes{Marks: map[int64]uint32{}}
	s.followRows(c, &out)
	s.followFrames(c, &out, int64(n))
	if fresh := int(min(s.findings.total-c.finding, int64(len(s.findings.list)))); fresh > 0 {
		out.Findings = slices.Clone(s.findings.list[len(s.findings.list)-fresh:])
		c.finding = s.findings.total
	}
	return out
}

func (s *Store) followRows(c *Cursor, out *Changes) {
	if c.mark > 0 {
		out.Missed = max(s.rows.base-int64(c.mark), 0)
	}
	for i := int64(0); i < s.rows.n && c.change < s.rows.changes; i++ {
		if r := &s.rows.chunks[i/chunk][i%chunk]; r.changed > c.change {
			out.Exchanges = append(out.Exchanges, s.exchange(r))
		}
	}
	c.change, c.mark = s.rows.changes, uint32(s.rows.base+s.rows.n)
}

func (s *Store) followFrames(c *Cursor, out *Changes, n int64) {
	c.unmarked = slices.DeleteFunc(c.unmarked, func(seq int64) bool {
		e := s.frames.at(seq)
		if e == nil || e.of == 0 {
			return e == nil
		}
		out.Marks[seq] = e.of
		return true
	})
	if c.frame == 0 {
		c.frame = max(s.frames.first, 1) // also if there are no frames yet
	}
	if gone := s.frames.first - c.frame; gone > 0 {
		out.Skipped, c.frame = gone, s.frames.first
	}
	end := s.frames.nextSeq()
	for last := min(end, c.frame+n); c.frame < last; c.frame++ {
		f := s.frame(c.frame)
		if f.Mark == 0 && len(c.unmarked) < maxUnmarked {
			c.unmarked = append(c.unmarked, c.frame)
		}
		out.Frames = append(out.Frames, *f)
	}
	out.More = c.frame < end
}
