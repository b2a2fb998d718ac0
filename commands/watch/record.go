package watch

import (
	"context"
	"fmt"
	"strings"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/recorder"
	"github.com/wirectl/wirectl/decode/convert"
)

// A record stores a relay's session in the user's history.
type record struct {
	*history.Recording
	folder   *history.Folder
	begun    history.Summary // as it was at the start
	clients  []string        // the names that they give themselves
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
	r := &record{begun: history.Summary{Started: s.Created, Client: o.Client, Server: o.name(), Level: o.Level}, say: func(text string) { o.Alarm("the record of the session: " + text) }}
	var err error
	if r.folder, err = history.Open(o.Getenv); err == nil && r.folder.IsOff() {
		return nil
	}
	if err == nil {
		r.Recording, err = r.folder.Start(r.begun)
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

// namer returns the function that gets the names of clients, for the summary; nil if there is no
// record. A name that a client gives itself replaces that of the options.
func (r *record) namer() func(name string) {
	if r == nil {
		return nil
	}
	r.begun.ID = r.ID
	return func(name string) {
		r.clients = append(r.clients, name)
		r.begun.Client = strings.Join(r.clients, ", ")
		_ = r.folder.Update(&r.begun) // the end of the record reports what is wrong
	}
}

// close ends the record, with the counts of the judge.
func (r *record) close(ctx context.Context, c counts) {
	err := r.recorder.Close(ctx)
	r.Client = r.begun.Client
	r.Frames, r.Calls, r.Failures, r.Findings, r.Protocols = c.Frames, c.Exchanges, c.Failures, c.Findings, c.Protocols
	r.Incomplete = r.Incomplete || c.Missed || err != nil
	if err = r.Finish(); err != nil {
		r.say(fmt.Sprintf("no summary: %v", err))
	}
}
