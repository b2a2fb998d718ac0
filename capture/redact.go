package capture

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/protobuf"
)

// A Redaction says which secrets to remove from a session before it is stored.
//
// In JSON, strings and numbers below a secret key, at any depth, become the string
// "[redacted]". So does each match of a pattern inside a string that is not a key. Everything
// else stays as written, and the frame gets its new length. JSON inside a string is treated
// as JSON.
//
// Protobuf is parsed by its schema, if known. Keys are the names of its fields, in the schema
// or in JSON, and the keys of its maps. Strings and bytes become "[redacted]", numbers become
// zero, and lengths are updated.
//
// In the text of other records, and in strings, the value after a secret key and ':' or '='
// is replaced, too. In all other payloads, and in gaps, each byte of a secret becomes an
// asterisk, which preserves lengths. A compressed payload becomes all asterisks.
//
// The wrappers of frames stay as they are, except those of a carrier. If the head of a
// request or its body contains secrets, only the payload is kept; the same holds for
// compressed events.
type Redaction struct {
	// Keys are the secret keys. A key matches if it, or its part after a '-' or '_', is one
	// of Keys, ignoring case, '-' and '_': api_key matches apiKey, X-Api-Key and
	// OPENAI_API_KEY. A part that begins with a capital after a small letter matches, too
	// (openaiApiKey), unless that part is just "token".
	Keys []string
	// Values match secrets anywhere: all of a match, or the group named secret.
	Values []*regexp.Regexp
	// Protocol is the protocol of all frames. If it is nil, each record names its own, or
	// else the payload determines it.
	Protocol protocol.Protocol
	// Outline keeps only the outline of a session. A JSON message keeps its names and the
	// protocol's own values, such as methods and ids. Any other payload keeps its length.
	// Standard error is dropped.
	Outline bool
	// Calls has the message types of gRPC calls; nil only knows Latis.
	Calls *all.Calls
	// Blind, if not nil, is called for each frame that could not be searched for keys,
	// because it has no schema.
	Blind func(*Record)
}

// IsEmpty reports whether there is nothing to remove.
func (x *Redaction) IsEmpty() bool { return len(x.Keys)+len(x.Values) == 0 && !x.Outline }

// blindNote is the text of the note before the first record that could not be searched
// for keys.
const blindNote = "redaction: the next frame, and maybe later ones, is protobuf without a schema or other bytes, and could not be searched for keys"

// Redacted replaces a secret.
const Redacted = "[redacted]"

// Secrets returns the redaction of well-known secrets: credentials by their usual names, and
// tokens by their forms.
func Secrets() Redaction {
	return Redaction{
		Keys: []string{
			"authorization", "cookie", "set-cookie", "api-key", "access-key", "private-key",
			"token", "access-token", "refresh-token", "auth-token", "id-token", "bearer-token",
			"secret", "client-secret", "password", "passwd", "passphrase", "credentials",
		},
		Values: slices.Collect(maps.Keys(forms())),
	}
}

// forms returns the patterns of secrets with a known form. Every match contains one of the
// words, compared in lower case.
var forms = sync.OnceValue(func() map[*regexp.Regexp][]string {
	return map[*regexp.Regexp][]string{
		regexp.MustCompile(userinfo):                         {"://"},
		regexp.MustCompile(`(?i:\bbearer\s+)[\w.~+/=-]{8,}`): {"bearer"}, // RFC 6750
		regexp.MustCompile(`\bsk-[\w-]{16,}|\bnxk_[\w-]{20,}|\bAIza[\w-]{30,}|\b(gh[pousr]|github_pat)_\w{20,}|\bxox[abpr]-[\w-]{10,}`): {
			"sk-", "nxk_", "aiza", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "xox",
		},
	}
})

// secretGroup is the name of the group that matches the secret.
const secretGroup = "secret"

// userinfo matches the password in a URL.
const userinfo = `://[^/\s:@"']*:(?P<` + secretGroup + `>[^/\s@"']+)@`

// Session returns s with secrets removed, and marked as redacted.
func (x Redaction) Session(s Session) Session {
	e := newEraser(x)
	for _, text := range []*string{&s.Controller, &s.Unit, &s.Comment} {
		*text = string(e.text([]byte(*text)))
	}
	s.Redacted, s.Outlined = true, s.Outlined || x.Outline
	return s
}

// Text returns a function that redacts a single text. It is not safe for concurrent use.
func (x Redaction) Text() func(text string) string {
	e := newEraser(x)
	return func(text string) string { return string(e.text([]byte(text))) }
}

// Redact returns a writer that redacts the records of the session s and writes them to w.
func Redact(w Writer, s *Session, x Redaction) Writer {
	out := &redactor{
		w: w, eraser: newEraser(x), blind: x.Blind, session: s, outlines: x.Outline,

		reading: reading{session: s, given: x.Protocol, calls: all.OpenCalls{Known: x.Calls}},
	}
	if x.Outline {
		out.needs, out.reading.wires = map[string]*need{}, map[int]*all.Refiner{}
	}
	return out
}

type redactor struct {
	w        Writer
	session  *Session
	eraser   *eraser
	reading  reading
	blind    func(*Record)
	noted    bool // blindNote was written
	outlines bool
	needs    map[string]*need // of outlines, by protocol and kind
	clean    Record           // the current one
	payload  []byte
	raw      []byte
	meta     []byte
}

// Write writes the record without its secrets.
func (x *redactor) Write(r *Record) error {
	if x.outlines && r.Kind == Stderr {
		return nil
	}
	clean := &x.clean
	*clean = *r
	clean.Text = x.eraser.text(r.Text)
	if r.Flaw != nil {
		clean.Flaw = frame.Recall(string(x.eraser.text([]byte(r.Flaw.Error()))))
	}
	if r.Kind == Frame {
		x.eraser.blind = false
		x.frame(clean)
		if err := x.confess(r); err != nil {
			return err
		}
	}
	return x.w.Write(clean)
}

// confess reports the current frame if it could not be searched for keys.
func (x *redactor) confess(r *Record) error {
	if !x.eraser.blind {
		return nil
	}
	if x.blind != nil {
		x.blind(r)
	}
	if x.noted {
		return nil
	}
	x.noted = true
	return x.w.Write(&Record{Kind: Note, Time: r.Time, Text: []byte(blindNote), Frame: frame.Frame{Conn: r.Conn}})
}

func (x *redactor) frame(r *Record) {
	p := x.reading.protocol(r)
	switch {
	case x.outlines:
		x.outline(r, p)
	case r.Gap:
		r.Raw = x.eraser.mask(r.Raw)
	case r.Meta != nil:
		x.carried(r, p)
	case r.Compressed:
		x.splice(r, stars(r.Payload()))
	default:
		payload := r.Payload()
		switch clean := x.cleaned(r, p); {
		case bytes.Equal(clean, payload):
		case len(clean) == len(payload):
			x.splice(r, clean)
		default:
			x.reframe(r, clean)
		}
	}
}

// stars returns one asterisk for each byte of b.
func stars(b []byte) []byte { return bytes.Repeat([]byte("*"), len(b)) }

// cleaned returns the payload of a frame in protocol p without its secrets. The result is valid
// until the next call.
func (x *redactor) cleaned(r *Record, p protocol.Protocol) []byte {
	payload := r.Payload()
	x.eraser.spoken = all.Of(p).NoSecret
	if p, ok := p.(protobuf.Edited); ok {
		clean, err := p.AppendEdited(x.payload[:0], payload, x.eraser)
		if err == nil {
			x.payload = clean
			return clean
		}
	}
	if jsonscan.WellFormed(payload) == nil {
		x.payload = x.eraser.json(x.payload[:0], payload)
		return x.payload
	}
	if p.Encoding() == protocol.Protobuf && len(payload) > 0 || !isText(payload) && !isSignal(r) {
		x.eraser.blind = len(x.eraser.keys) > 0
	}
	return x.eraser.mask(payload)
}

// isSignal reports whether a frame belongs to the carrier itself and has no body.
func isSignal(r *Record) bool {
	return r.Meta != nil && r.Meta.Signal != frame.NoSignal && r.Meta.Head == nil
}

// isText reports whether b is text, and can therefore be searched for keys.
func isText(b []byte) bool {
	return utf8.Valid(b) && !bytes.ContainsFunc(b, func(c rune) bool { return c < ' ' && c != '\t' && c != '\n' && c != '\r' })
}

// withoutAssigned redacts the lines of a head one by one, including the query of a URL.
func (x *redactor) withoutAssigned(m *frame.Meta) *frame.Meta {
	if m.Head == nil {
		return m
	}
	line := func(text string) string { return string(x.eraser.text([]byte(text))) }
	clean, head := *m, frame.Head{Start: line(m.Head.Start)}
	for _, f := range m.Head.Fields {
		head.Fields = append(head.Fields, frame.Field{Name: f.Name, Value: line(f.Value)})
	}
	clean.Head = &head
	return &clean
}

// carried redacts a frame from a carrier. If there are secrets, only the payload is kept,
// because the wrapper may contain the same secrets in an encoded form.
func (x *redactor) carried(r *Record, p protocol.Protocol) {
	payload := r.Payload()
	x.meta = AppendMeta(x.meta[:0], r.Meta)
	meta := x.eraser.json(nil, AppendMeta(nil, x.withoutAssigned(r.Meta)))
	var clean []byte
	if r.Compressed {
		clean = stars(payload)
	} else {
		clean = bytes.Clone(x.cleaned(r, p))
	}
	if bytes.Equal(clean, payload) && bytes.Equal(meta, x.meta) && !holdsOthers(r) {
		return
	}
	m, err := ParseMeta(meta, nil)
	if err != nil {
		m = &frame.Meta{Signal: r.Meta.Signal}
	}
	m.Framing = r.Meta.Framing
	r.Meta, r.Raw, r.Start, r.End = m, clean, 0, len(clean)
}

// holdsOthers reports whether the bytes of a frame may contain other frames in an encoded
// form. A compressed event has all the bytes that arrived with it.
func holdsOthers(r *Record) bool {
	return r.Meta.Framing == frame.HTTP && r.Meta.Encoding != "" && r.Meta.Head == nil
}

// splice replaces the payload of a frame, keeping the wrapper.
func (x *redactor) splice(r *Record, payload []byte) {
	x.raw = append(x.raw[:0], r.Raw[:r.Start]...)
	x.raw = append(x.raw, payload...)
	x.raw = append(x.raw, r.Raw[r.End:]...)
	r.Raw, r.End = x.raw, r.Start+len(payload)
}

// reframe puts a payload into a new wrapper.
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

// BlindSpot returns a [Redaction.Blind] that warns once; say may be nil.
func BlindSpot(say func(text string)) func(*Record) {
	var once sync.Once
	return func(r *Record) {
		if say == nil {
			return
		}
		once.Do(func() {
			what := "the bytes of a frame"
			if r.Seq > 0 {
				what = fmt.Sprintf("the bytes of frame %d", r.Seq)
			}
			say(what + " could not be searched for secret keys, because there is no schema for them; later frames may be affected, too:" +
				" give --proto FILE if they are protobuf, or describe secrets with --redact-value")
		})
	}
}
