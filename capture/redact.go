package capture

import (
	"bytes"
	"cmp"
	"regexp"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// A Redaction says what is taken out of a session before it is kept.
//
// In JSON, the strings and numbers that belong to a secret key become the
// string "[redacted]", however deep they stand below it, and so does what a
// pattern matches inside any string that is no key; all else stays as it is
// written, and the frame is made anew around its new length. JSON inside a
// string is JSON, too.
// In the text of other records, what follows a secret key and ':' or '=' is
// replaced alike. In payloads that are no JSON, and in bytes that are no frame,
// asterisks take the place of the secrets, byte for byte, so that lengths stay
// right; a compressed payload, which cannot be looked into, becomes asterisks
// altogether. The wrappers of frames are left alone, but for those of a carrier:
// where the head of a request, or what came with it, has secrets, the payload is
// all that is kept of the bytes.
type Redaction struct {
	// Keys name what is secret. A key matches if it, or what follows a '-' or
	// '_' in it, is one of them, without regard to case, '-' and '_': api_key
	// matches apiKey, X-Api-Key and OPENAI_API_KEY.
	Keys []string
	// Values match what is secret wherever it stands.
	Values []*regexp.Regexp
}

// Redacted is what stands in the place of a secret.
const Redacted = "[redacted]"

// Secrets is the redaction of what is known to be secret: credentials by the
// names that they usually have, and tokens by their forms.
func Secrets() Redaction {
	return Redaction{
		Keys: []string{
			"authorization", "cookie", "set-cookie", "api-key", "access-key", "private-key",
			"token", "access-token", "refresh-token", "auth-token", "id-token", "bearer-token",
			"secret", "client-secret", "password", "passwd", "passphrase", "credentials",
		},
		Values: []*regexp.Regexp{regexp.MustCompile(
			`(?i:\bbearer\s+)[\w.~+/=-]{8,}` + // RFC 6750
				`|\bsk-[\w-]{16,}|\bnxk_[\w-]{20,}|\bAIza[\w-]{30,}|\b(gh[pousr]|github_pat)_\w{20,}|\bxox[abpr]-[\w-]{10,}`)},
	}
}

// spoken has, by protocol, the key that is a name of the protocol's own,
// though it looks like a secret: the progress token of LSP.
var spoken = map[string]string{"lsp": "token"}

// Session returns s as it is to be kept, marked as redacted.
func (x Redaction) Session(s Session) Session {
	e := newEraser(x)
	for _, text := range []*string{&s.Controller, &s.Unit, &s.Comment} {
		*text = string(e.text([]byte(*text)))
	}
	s.Redacted = true
	return s
}

// Redact returns the writer that writes to w what x leaves of the records of
// the session s.
func Redact(w Writer, s *Session, x Redaction) Writer {
	return &redactor{w: w, session: s, eraser: newEraser(x)}
}

type redactor struct {
	w       Writer
	session *Session
	eraser  *eraser
	payload []byte
	raw     []byte
	meta    []byte
}

// Write writes the record without its secrets.
func (x *redactor) Write(r *Record) error {
	clean := *r
	clean.Text = x.eraser.text(r.Text)
	if r.Flaw != nil {
		clean.Flaw = frame.Recall(string(x.eraser.text([]byte(r.Flaw.Error()))))
	}
	if r.Kind == Frame {
		x.frame(&clean)
	}
	return x.w.Write(&clean)
}

// frame takes the secrets out of a frame.
func (x *redactor) frame(r *Record) {
	payload := r.Payload()
	switch {
	case r.Meta != nil && !r.Gap:
		x.carried(r, payload)
	case r.Gap:
		r.Raw = x.eraser.mask(r.Raw)
	case r.Compressed:
		x.splice(r, bytes.Repeat([]byte("*"), len(payload)))
	case jsonscan.Valid(payload) == nil:
		x.eraser.spoken = spoken[cmp.Or(r.Protocol, x.session.Protocol)]
		x.payload = x.eraser.json(x.payload[:0], payload)
		if !bytes.Equal(x.payload, payload) {
			x.reframe(r, x.payload)
		}
	default:
		x.splice(r, x.eraser.mask(payload))
	}
}

// carried takes the secrets out of a frame that came in a carrier. Where there
// are any, the payload is all that is left of the bytes: what wrapped it may have
// the same secrets in a form that hides them.
func (x *redactor) carried(r *Record, payload []byte) {
	x.meta = AppendMeta(x.meta[:0], r.Meta)
	meta := x.eraser.json(nil, x.meta)
	var clean []byte
	switch {
	case r.Compressed:
		clean = bytes.Repeat([]byte("*"), len(payload))
	case jsonscan.Valid(payload) == nil:
		x.eraser.spoken = spoken[cmp.Or(r.Protocol, x.session.Protocol)]
		clean = x.eraser.json(nil, payload)
	default:
		clean = x.eraser.mask(payload)
	}
	if bytes.Equal(clean, payload) && bytes.Equal(meta, x.meta) {
		return
	}
	m, err := ParseMeta(meta, nil)
	if err != nil {
		m = &frame.Meta{Signal: r.Meta.Signal}
	}
	m.Framing = r.Meta.Framing
	r.Meta, r.Raw, r.Start, r.End = m, clean, 0, len(clean)
}

// splice puts another payload into the wrapper that a frame has.
func (x *redactor) splice(r *Record, payload []byte) {
	x.raw = append(x.raw[:0], r.Raw[:r.Start]...)
	x.raw = append(x.raw, payload...)
	x.raw = append(x.raw, r.Raw[r.End:]...)
	r.Raw, r.End = x.raw, r.Start+len(payload)
}

// reframe puts another payload into a wrapper of its own.
func (x *redactor) reframe(r *Record, payload []byte) {
	framing, err := frame.Named(cmp.Or(r.Framing, x.session.Framing))
	if err != nil {
		x.splice(r, payload)
		return
	}
	raw, err := frame.Append(x.raw[:0], framing, payload)
	var e frame.Extent
	if err != nil || framing.Next(raw, len(raw), true, &e) != nil || e.Raw != len(raw) {
		x.splice(r, payload)
		return
	}
	x.raw = raw
	r.Raw, r.Start, r.End = raw, e.Start, e.End
}
