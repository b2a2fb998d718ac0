package advice

import (
	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
)

// Remarks that are kept, so as not to repeat them.
const (
	maxRemarks = 256
	maxRemark  = 1 << 10 // bytes of one
)

// Remarks returns what tells of the notes in a capture, before the frame of that number.
// Of those with which a tap answers its viewers, it tells what they have lost. One that
// is about no frame, but about a connection, is told once, however many connections it
// is about.
func Remarks(tell func(seq int64, text string)) func(seq int64, rec *capture.Record) {
	told := map[string]bool{}
	return func(seq int64, rec *capture.Record) {
		if _, ofRun := capture.ParsePlace(rec); ofRun {
			return // for views
		}
		text := string(rec.Text)
		if n, ofTap := tap.ParseNote(rec); ofTap {
			if n.Lost == 0 {
				return
			}
			text = render.Count(n.Lost, "frame") + " went by unseen"
		} else if rec.Dir == frame.DirUnknown {
			if told[text] {
				return
			}
			if len(told) < maxRemarks && len(text) <= maxRemark {
				told[text] = true
			}
		}
		tell(seq, text)
	}
}
