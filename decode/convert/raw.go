package convert

import (
	"errors"
	"fmt"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/recording"
	"github.com/wirectl/wirectl/frame"
)

// ErrNoDir is the error for a frame that may have gone either way.
var ErrNoDir = errors.New("it has no direction, and a recording has a file for each")

// ErrUnwrapped is the error for a redacted frame that came in a carrier: redaction removed
// the carrier's part along with its secrets, and nobody can read the stream without it.
var ErrUnwrapped = errors.New("secrets were removed from its carrier, so its bytes would not be readable")

// directed writes records that have a direction.
type directed struct {
	capture.Writer
	session *capture.Session
}

func (d directed) Write(r *capture.Record) error {
	if r.Kind == capture.Frame && r.Meta != nil && d.session.Redacted {
		return fmt.Errorf("frame %d: %w", r.Seq, ErrUnwrapped)
	}
	if r.Kind == capture.Frame && r.Dir == frame.DirUnknown {
		return fmt.Errorf("frame %d: %w", r.Seq, ErrNoDir)
	}
	return d.Writer.Write(r)
}

// WriteRaw writes what is left of r to the folder dir, which must not exist or
// be empty. If r is cut, everything before the cut is written, and its error
// returned.
func WriteRaw(dir string, r capture.Reader) error {
	w, err := recording.Create(dir, *r.Session())
	if err != nil {
		return err
	}
	err = capture.Copy(directed{w, r.Session()}, r)
	return errors.Join(err, w.Close())
}
