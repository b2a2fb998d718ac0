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
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	p := part{File: f}
	for {
		h, err := p.headAt(p.size)
		end := p.size + headSize + h.Size
		if err != nil || h.Size < 0 || end > info.Size() || h.Number == 0 || p.last > 0 && h.Number != p.last+1 {
			return frames
		}
		frames, p.last, p.size = h.Frames, h.Number, end
	}
}
