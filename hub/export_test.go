package hub

import "os"

// Spooled returns how many frames a session has up to the last whole segment in a part of its
// spool, which a process may be writing. Its first segments may have been sent and overwritten.
func Spooled(name string) (frames int64) {
	f, err := os.Open(name)
	if err != nil {
		return 0 // it was not begun yet
	}
	defer f.Close()
	p := part{File: f}
	for {
		seg, err := p.segmentAt(p.size)
		if err != nil || seg.Number == 0 || p.last > 0 && seg.Number != p.last+1 {
			return frames
		}
		frames, p.last, p.size = seg.Frames, seg.Number, p.size+headSize+seg.Size
	}
}
