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

// Remarks returns a function that tells the notes of a capture, each before the frame of
// that number. Of the notes of a tap to its viewers, it tells only how many frames they
// lost. It tells a note about connections once, even if it is about several.
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
