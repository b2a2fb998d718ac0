package store

import "slices"

// A Cursor is how far a viewer has followed a session. The zero Cursor is at its
// beginning.
type Cursor struct {
	frame    int64  // the number of the frame to come
	change   int64  // of a row, the last that was seen
	mark     uint32 // of the newest row that was seen
	finding  int64  // how many were seen
	unmarked []int64
}

// maxUnmarked is how many frames without an exchange are looked at again: they may get
// one once it is known what is spoken.
const maxUnmarked = 4096

// Changes are what a viewer has not seen yet.
type Changes struct {
	Exchanges []Exchange // as they are now, the oldest first
	Frames    []Frame
	Findings  []Finding
	Marks     map[int64]uint32 // exchanges of frames that had none
	// Skipped frames and Missed exchanges were gone before the viewer came to them.
	Skipped, Missed int64
	More            bool // there are more frames
}

// Empty reports whether there is nothing.
func (c *Changes) Empty() bool {
	return len(c.Exchanges)+len(c.Frames)+len(c.Findings)+len(c.Marks) == 0 && c.Skipped+c.Missed == 0
}

// Follow returns what has come since the last call with that cursor, and n frames of it
// at most. What the store has dropped meanwhile is counted.
func (s *Store) Follow(c *Cursor, n int) Changes {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out Changes
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
		if out.Marks == nil {
			out.Marks = map[int64]uint32{}
		}
		out.Marks[seq] = e.of
		return true
	})
	if c.frame == 0 {
		c.frame = max(s.frames.first, 1) // also where nothing has come yet
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
