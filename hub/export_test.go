package hub

import "os"

// Spooled returns how many frames are in a part of a spool that a process may be writing, up
// to its last whole segment.
func Spooled(name string) (frames int64) {
	f, err := os.Open(name)
	if err != nil {
		return 0 // it was not begun yet
	}
	defer f.Close()
	p := part{File: f}
	for {
		seg, err := p.segmentAt(p.size)
		if err != nil || seg.Number != p.last+1 {
			return frames
		}
		frames, p.last, p.size = seg.Frames, seg.Number, p.size+headSize+seg.Size
	}
}
