package track_test

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/fixtures"
)

// Lint finds nothing in a record of metadata that it does not find in the whole session.
func TestMetadata(t *testing.T) {
	for _, name := range fixtures.Sessions() {
		t.Run(name, func(t *testing.T) {
			whole := findings(t, name, capture.Redaction{})
			for found, message := range findings(t, name, capture.Redaction{Outline: true}) {
				if _, ok := whole[found]; !ok {
					t.Errorf("found %s: %s", found, message)
				}
			}
		})
	}
}

// findings returns the findings of a recorded session that x has redacted, with their messages.
func findings(t *testing.T, name string, x capture.Redaction) map[string]string {
	cfg := decode.Config{Workers: 1, Resync: true}
	r, err := decode.OpenRecording(fixtures.Session(name), cfg)
	if err != nil {
		t.Fatal(err)
	}
	in := decode.Input{Capture: r}
	if !x.IsEmpty() {
		in.Capture = convert.Redact(r, x)
	}
	var ts track.Trackers
	f := track.NewFollower(&ts, in, cfg)
	cfg.Event = f.Event
	if _, err := decode.Run(context.Background(), in, io.Discard, cfg, func() decode.View { return f.View }); err != nil {
		t.Fatal(err)
	}
	f.End()
	found := make(map[string]string)
	for _, tr := range ts.List {
		for fd := range tr.Findings() {
			found[fmt.Sprintf("%v %s", fd.Frames, fd.Name)] = fd.Message
		}
	}
	return found
}
