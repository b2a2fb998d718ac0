package decode

import (
	"bytes"
	"io"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/ndjson"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/protobuf"
)

// NDJSON shows an item as one line of NDJSON, from which package encode makes the
// same bytes again.
func NDJSON() View { return records(false) }

// BothTimes is NDJSON with the times of the other end of a merged session.
func BothTimes() View { return records(true) }

func records(both bool) View {
	var r ndjson.Record
	return func(dst []byte, it *Item) ([]byte, error) {
		if it.record(&r); both {
			r.Written = it.Written
		}
		return append(r.Append(dst), '\n'), nil
	}
}

// record fills r from the item; r borrows from the item.
func (it *Item) record(r *ndjson.Record) {
	f, m := it.Frame, &it.Message
	*r = ndjson.Record{} // a literal with fields would be made elsewhere and copied
	r.Seq, r.Time, r.Conn, r.Stream = it.Seq, it.Time, f.Conn, f.Stream
	r.Dir, r.Offset, r.Size, r.Framing = it.dir(), f.Offset, f.Size(), it.Framing.Name()
	r.Redacted, r.Altered = it.Redacted, it.Altered
	if all.Rules(it.Protocol).NoWire {
		r.Size = 0
	}
	if f.Gap {
		r.Kind, r.Raw = []byte(ndjson.Skipped), f.Raw
	} else {
		r.Protocol = it.Protocol.Name()
		it.meaningOf(r, m)
		it.bytesOf(r)
	}
	r.Error = it.wrong()
	if f.Meta != nil {
		verbatim := r.Payload != nil && len(r.Payload) == len(it.Payload) && !f.Compressed
		it.meta = ndjson.AppendMeta(it.meta[:0], f, verbatim && it.Protocol.Encoding() == protocol.JSON)
		r.Meta = it.meta
	}
}

// The errors of gaps that are no faults.
const (
	blankLines = "blank lines, which belong to no frame"
	wrapping   = "bytes of the carrier itself, which no frame follows"
)

// wrong returns the fault of the frame as far as it is known, or the reason for a gap.
func (it *Item) wrong() string {
	switch {
	case it.Err != nil:
		return it.Err.Error()
	case !it.Frame.Gap:
		return ""
	case it.Frame.Meta != nil:
		return wrapping
	}
	return blankLines
}

// meaningOf sets the members about the message, if the payload is one.
func (it *Item) meaningOf(r *ndjson.Record, m *protocol.Message) {
	if it.well {
		r.Kind, r.Phase = m.Kind, m.Phase.String()
		r.ID, r.Ref = it.ids(m)
		r.Summary = it.Summary()
	}
}

// bytesOf sets the payload if it has a JSON form, and the raw frame unless it can be made
// again from the payload.
func (it *Item) bytesOf(r *ndjson.Record) {
	payload, same := it.form()
	r.Payload = payload
	if !same || it.Frame.Compressed || !frame.Exact(it.Framing, it.Frame) {
		if r.Raw = it.Frame.Raw; r.Raw == nil {
			r.Raw = []byte{} // the bytes are those of the frame before
		}
	}
}

// CheckForm sets Err if a payload is a message without a JSON form: a string of protobuf is
// not text, or the content of a field is not a message. Parse does not look there, because
// that takes as long as writing the form.
func (it *Item) CheckForm() {
	if it.Protocol.Encoding() != protocol.JSON {
		it.form()
	}
}

// form is JSON, with the error set in the item.
func (it *Item) form() (form []byte, same bool) {
	form, same, err := it.JSON()
	if it.Err == nil {
		it.Err = err
	}
	return form, same
}

// JSON returns the payload in its JSON form, on one line, and whether the payload can be
// made again from it. The form is nil if there is none.
func (it *Item) JSON() (form []byte, same bool, err error) {
	if !it.well {
		return nil, false, nil
	}
	if it.Protocol.Encoding() == protocol.JSON {
		form, same = it.oneLine(it.Payload)
		return form, same, nil
	}
	t, ok := it.Protocol.(protocol.Transcoder)
	if !ok || it.Protocol == protocol.Protocol(protobuf.Schemaless{}) && len(it.Payload) > maxFields {
		return nil, false, nil
	}
	it.json, same, err = t.AppendJSON(it.json[:0], it.Payload)
	switch {
	case err != nil:
		return nil, false, malformed(it.Protocol, it.Frame, it.Payload, err)
	case len(it.json) > maxForm:
		it.json = nil
		return nil, false, nil
	}
	return it.json, same && all.Has(it.Protocol), nil
}

// The JSON form of a payload is left out if it would be too large: a form of so many bytes,
// or a list of the fields of a payload of so many. So lines of at most twice that length
// can hold a record.
const (
	maxForm   = 32 << 20
	maxFields = 1 << 20
)

// oneLine returns a valid JSON text so that it fits on a line, and whether
// nothing had to be changed for that.
func (it *Item) oneLine(text []byte) ([]byte, bool) {
	form := bytes.TrimSpace(text)
	if it.Message.Multiline && bytes.ContainsAny(form, "\r\n") {
		it.json = jsonscan.AppendCompact(it.json[:0], form)
		return it.json, false
	}
	return form, len(form) == len(text)
}

// ids returns the message's id and ref as JSON tokens, each on one line.
func (it *Item) ids(m *protocol.Message) (id, ref []byte) {
	quote := it.Protocol.Encoding() != protocol.JSON
	it.tokens = appendToken(it.tokens[:0], m.ID, quote)
	n := len(it.tokens)
	it.tokens = appendToken(it.tokens, m.Ref, quote)
	return it.tokens[:n:n], it.tokens[n:]
}

func appendToken(dst []byte, t protocol.Token, quote bool) []byte {
	switch {
	case t.IsZero():
		return dst
	case quote || t.Space == protocol.SpaceKind: // a kind is not JSON
		return jsonscan.AppendQuote(dst, t.Text)
	default:
		return jsonscan.AppendCompact(dst, t.Text)
	}
}

// carrier returns the options for reading the connections of an input.
func (cfg *Config) carrier() carrier.Options {
	return carrier.Options{Kind: cfg.Carrier, Framing: cfg.Framing, Limit: cfg.Limit}
}

// A carriedStream is one direction of a connection, from which a carrier extracts frames.
type carriedStream struct {
	r       io.Reader
	carrier *carrier.Carrier
	session capture.Session
	buf     []byte
	frames  []frame.Frame
	err     error
}

func newCarried(r io.Reader, cfg Config) *carriedStream {
	o := cfg.carrier()
	o.Patient = true
	return &carriedStream{r: r, carrier: carrier.New(o), buf: make([]byte, batchSize)}
}

// Session returns an empty description: a stream has none.
func (c *carriedStream) Session() *capture.Session { return &c.session }

// Buffered reports whether Next is sure not to wait; see [capture.Live].
func (c *carriedStream) Buffered() bool { return len(c.frames) > 0 || c.err != nil }

// Next reads the next frame; see [capture.Reader].
func (c *carriedStream) Next(rec *capture.Record) error {
	if len(c.frames) == 0 {
		c.frames = c.carrier.More()
	}
	for len(c.frames) == 0 {
		if c.err != nil {
			*rec = capture.Record{}
			return c.err
		}
		n, err := c.r.Read(c.buf)
		switch {
		case n > 0:
			c.frames = c.carrier.Feed(frame.DirUnknown, c.buf[:n])
		case err == io.EOF:
			c.err = err
			c.frames = c.carrier.End(frame.DirUnknown)
		case err != nil:
			c.err = err
		}
	}
	*rec = capture.Record{Frame: c.frames[0]}
	c.frames = c.frames[1:]
	if rec.Meta != nil {
		rec.Framing = rec.Meta.Framing
	}
	return nil
}
