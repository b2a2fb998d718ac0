package convert

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// Redacted reads a session with its secrets removed; see [capture.Reader].
type Redacted struct {
	// Count is how many records had secrets so far. The description of the session counts
	// as one.
	Count int64

	reader  capture.Reader
	redact  capture.Redaction
	eraser  capture.Writer
	session capture.Session // as it is to be kept
	told    capture.Session // as the reader tells it
	record  capture.Record
	clean   []capture.Record // from the eraser, to be given out
}

// Redact returns the records of r as x leaves them.
func Redact(r capture.Reader, x capture.Redaction) *Redacted {
	rd := &Redacted{reader: r, redact: x}
	rd.describe()
	rd.eraser = capture.Redact(erased{rd}, &rd.told, x)
	return rd
}

// HoldsSecrets reports whether x would remove anything from r, which it reads up to there.
// An error of r counts as its end: whoever reads r for its content reports that.
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

// describe reads the description of the session.
func (rd *Redacted) describe() {
	rd.told = *rd.reader.Session()
	rd.session = rd.redact.Session(rd.told)
	clean := rd.session
	if clean.Redacted = rd.told.Redacted; clean != rd.told {
		rd.Count++
	}
}

// Session returns the description of the session without its secrets. Before the first
// record it says that the session is redacted, because it may be; later, whether anything
// was redacted so far.
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

// erased receives a record from the eraser, and maybe a note before it.
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

// sameMeta reports whether a carrier says the same about two frames. An earlier redaction
// may have left only the payload of the bytes.
func sameMeta(a, b *frame.Meta) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return bytes.Equal(capture.AppendMeta(nil, a), capture.AppendMeta(nil, b))
}
