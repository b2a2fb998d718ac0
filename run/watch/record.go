package watch

import (
	"context"
	"fmt"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/recorder"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/decode/judge"
)

// A record stores a relay's session in the user's history.
type record struct {
	*history.Recording
	recorder *recorder.Recorder
	clean    capture.Writer // writes to the recorder, redacted
	say      func(text string)
}

// newRecord begins the record that the options ask for; nil if there is none. Errors are
// reported; the relay works without a record.
func (o *Options) newRecord(s capture.Session) *record {
	if o.Level == "" {
		return nil
	}
	r := &record{say: func(text string) { o.Alarm("the record of the session: " + text) }}
	folder, err := history.Open(o.Getenv)
	if err == nil && folder.IsOff() {
		return nil
	}
	if err == nil {
		r.Recording, err = folder.Start(history.Summary{Started: s.Created, Client: o.Client, Server: o.name(), Level: o.Level})
	}
	if err == nil {
		x := capture.Secrets()
		x.Outline = o.Level == history.Metadata
		s = x.Session(s)
		r.recorder, err = recorder.New(r.Recording, recorder.Config{Session: s, Label: convert.Labels(o.Config.Protocol), Notice: r.say})
		r.clean = capture.Redact(r.recorder, &s, x)
	}
	if err != nil {
		r.say(err.Error())
		return nil
	}
	return r
}

// writer is the writer for frames; nil if there is no record.
func (r *record) writer() capture.Writer {
	if r == nil {
		return nil
	}
	return r.clean
}

// close ends the record, with the counts of the judge.
func (r *record) close(ctx context.Context, c judge.Counts) {
	err := r.recorder.Close(ctx)
	r.Frames, r.Calls, r.Failures, r.Findings, r.Protocols = c.Frames, c.Exchanges, c.Failures, c.Findings, c.Protocols
	r.Incomplete = r.Incomplete || c.Missed || err != nil
	if err = r.Finish(); err != nil {
		r.say(fmt.Sprintf("no summary: %v", err))
	}
}
