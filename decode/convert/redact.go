package convert

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// Redacted reads what a redaction leaves of a session; see [capture.Reader].
type Redacted struct {
	// Count is how many records have had secrets so far, and the session's
	// description counts as one.
	Count int64

	reader  capture.Reader
	redact  capture.Redaction
	eraser  capture.Writer
	session capture.Session // as it is to be kept
	told    capture.Session // as the reader tells it
	record  capture.Record
	clean   []capture.Record // what the eraser has made of it, and not yet given out
}

// Redact returns what x leaves of the records of r.
func Redact(r capture.Reader, x capture.Redaction) *Redacted {
	rd := &Redacted{reader: r, redact: x}
	rd.describe()
	rd.eraser = capture.Redact(erased{rd}, &rd.told, x)
	return rd
}

// HoldsSecrets reports whether x would take anything out of r, which it reads
// up to there. An error of r ends it like the end: it is for those to report
// who read r for what it holds.
func HoldsSecrets(r capture.Reader, x capture.Redaction) bool {
	rd := Redact(r, x)
	var rec capture.Record
	for rd.Count == 0 {
		if rd.Next(&rec) != nil {
			return false
		}
	}
	return true
}

// describe takes in what the reader tells of the session.
func (rd *Redacted) describe() {
	rd.told = *rd.reader.Session()
	rd.session = rd.redact.Session(rd.told)
	clean := rd.session
	if clean.Redacted = rd.told.Redacted; clean != rd.told {
		rd.Count++
	}
}

// Session is what is left of what the session says about itself. Ahead of the
// records it says that it is redacted, because it may be; then, whether it was so
// far.
func (rd *Redacted) Session() *capture.Session {
	if rd.told != *rd.reader.Session() {
		rd.describe()
	}
	return &rd.session
}

// Next reads the next record; see [capture.Reader].
func (rd *Redacted) Next(rec *capture.Record) error {
	for len(rd.clean) == 0 {
		err := rd.reader.Next(&rd.record)
		if err == nil {
			err = rd.eraser.Write(&rd.record)
		}
		rd.session.Redacted = rd.told.Redacted || rd.Count > 0
		if err != nil {
			*rec = capture.Record{}
			return err
		}
	}
	*rec = rd.clean[0]
	rd.clean = slices.Delete(rd.clean, 0, 1)
	return nil
}

// erased takes what the eraser has made of a record: that, and maybe a note in
// front of it.
type erased struct{ *Redacted }

func (e erased) Write(r *capture.Record) error {
	e.clean = append(e.clean, *r)
	if r.Kind == e.record.Kind && !sameText(r, &e.record) {
		e.Count++
	}
	return nil
}

// sameText reports whether two records have the same bytes and texts.
func sameText(a, b *capture.Record) bool {
	return bytes.Equal(a.Raw, b.Raw) && bytes.Equal(a.Text, b.Text) && sameMeta(a.Meta, b.Meta) &&
		(a.Flaw == nil || fmt.Sprint(a.Flaw) == fmt.Sprint(b.Flaw))
}

// sameMeta reports whether a carrier says the same of two frames. An earlier
// redaction may have left of the bytes the payload alone.
func sameMeta(a, b *frame.Meta) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return bytes.Equal(capture.AppendMeta(nil, a), capture.AppendMeta(nil, b))
}
