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
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/jsonscan"
	"github.com/wirectl/wirectl/protocol/protobuf"
)

// A Redaction says what is taken out of a session before it is kept.
//
// In JSON, the strings and numbers that belong to a secret key become the
// string "[redacted]", however deep they stand below it, and so does what a
// pattern matches inside any string that is not a key; all else stays as it is
// written, and the frame is made anew around its new length. JSON inside a
// string is JSON, too.
//
// Protobuf is walked by its schema, if that is known, and the names are those of
// its fields, in the schema or in JSON, and the keys of its maps: strings and bytes
// become "[redacted]", numbers zero, and lengths are written anew.
// In the text of other records, and in that of strings, what follows a secret key
// and ':' or '=' is replaced alike. In all other payloads, and in bytes that are no frame,
// asterisks take the place of the secrets, byte for byte, so that lengths stay
// right; a compressed payload, which cannot be looked into, becomes asterisks
// altogether. The wrappers of frames are left alone, but for those of a carrier:
// where the head of a request, or what came with it, has secrets, and of events that
// are compressed, the payload is all that is kept of the bytes.
type Redaction struct {
	// Keys name what is secret. A key matches if it, or what follows a '-' or
	// '_' in it, is one of them, without regard to case, '-' and '_': api_key
	// matches apiKey, X-Api-Key and OPENAI_API_KEY. So does what begins with a
	// capital behind a small letter, openaiApiKey, unless it is only a token.
	Keys []string
	// Values match what is secret wherever it stands: all of a match, or the group
	// named secret.
	Values []*regexp.Regexp
	// Protocol is that of all frames; nil leaves it to each record to name its
	// own, and to the payload where it names none.
	Protocol protocol.Protocol
	// Outline leaves nothing but the outline of a session: of a message in JSON its
	// names, and the values that are the protocol's own, such as methods and ids; of any other
	// payload its length; and no text of the unit's process.
	Outline bool
	// Calls say what the messages of gRPC calls are; nil knows Latis alone.
	Calls *all.Calls
	// Blind, if not nil, is called for each frame in which keys could not be
	// looked for, because no schema describes what is in it.
	Blind func(*Record)
}

// IsEmpty reports whether nothing is to be taken out.
func (x *Redaction) IsEmpty() bool { return len(x.Keys)+len(x.Values) == 0 && !x.Outline }

// blindNote is the text of the note in front of the first record in which keys
// could not be looked for.
const blindNote = "redaction: the next frame, and maybe others behind it, is protobuf without a schema or other bytes, in which keys could not be looked for"

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
		Values: slices.Collect(maps.Keys(forms())),
	}
}

// forms are the patterns of secrets that are known by their form, each with words of
// which every match has one, in lower case.
var forms = sync.OnceValue(func() map[*regexp.Regexp][]string {
	return map[*regexp.Regexp][]string{
		regexp.MustCompile(userinfo):                         {"://"},
		regexp.MustCompile(`(?i:\bbearer\s+)[\w.~+/=-]{8,}`): {"bearer"}, // RFC 6750
		regexp.MustCompile(`\bsk-[\w-]{16,}|\bnxk_[\w-]{20,}|\bAIza[\w-]{30,}|\b(gh[pousr]|github_pat)_\w{20,}|\bxox[abpr]-[\w-]{10,}`): {
			"sk-", "nxk_", "aiza", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "xox",
		},
	}
})

// secretGroup is the name of the group that is the secret in a match.
const secretGroup = "secret"

// userinfo matches the password in a URL.
const userinfo = `://[^/\s:@"']*:(?P<` + secretGroup + `>[^/\s@"']+)@`

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

// Text returns what takes the secrets out of a text that is by itself. It serves one
// goroutine.
func (x Redaction) Text() func(text string) string {
	e := newEraser(x)
	return func(text string) string { return string(e.text([]byte(text))) }
}

// Redact returns the writer that writes to w what x leaves of the records of
// the session s.
func Redact(w Writer, s *Session, x Redaction) Writer {
	return &redactor{
		w: w, eraser: newEraser(x), blind: x.Blind, session: s, outlines: x.Outline,
		reading: reading{session: s, given: x.Protocol, calls: all.OpenCalls{Known: x.Calls}},
	}
}

type redactor struct {
	w        Writer
	session  *Session
	eraser   *eraser
	reading  reading
	blind    func(*Record)
	noted    bool // that something could not be looked into
	outlines bool
	payload  []byte
	raw      []byte
	meta     []byte
}

// Write writes the record without its secrets.
func (x *redactor) Write(r *Record) error {
	if x.outlines && r.Kind == Stderr {
		return nil
	}
	clean := *r
	clean.Text = x.eraser.text(r.Text)
	if r.Flaw != nil {
		clean.Flaw = frame.Recall(string(x.eraser.text([]byte(r.Flaw.Error()))))
	}
	if r.Kind == Frame {
		x.eraser.blind = false
		x.frame(&clean)
		if err := x.confess(r); err != nil {
			return err
		}
	}
	return x.w.Write(&clean)
}

// confess says if keys could not be looked for in a frame.
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

// frame takes the secrets out of a frame.
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
		switch clean := x.clean(r, p); {
		case bytes.Equal(clean, payload):
		case len(clean) == len(payload):
			x.splice(r, clean)
		default:
			x.reframe(r, clean)
		}
	}
}

// stars is as many asterisks as there are bytes.
func stars(b []byte) []byte { return bytes.Repeat([]byte("*"), len(b)) }

// clean returns the payload of a frame in protocol p without its secrets, valid
// until the next call.
func (x *redactor) clean(r *Record, p protocol.Protocol) []byte {
	payload := r.Payload()
	x.eraser.spoken = spoken[p.Name()]
	if p, ok := p.(protobuf.Edited); ok {
		clean, err := p.AppendEdited(x.payload[:0], payload, x.eraser)
		if err == nil {
			x.payload = clean
			return clean
		}
	}
	if jsonscan.Valid(payload) == nil {
		x.payload = x.eraser.json(x.payload[:0], payload)
		return x.payload
	}
	if p.Encoding() == protocol.Protobuf && len(payload) > 0 || !isText(payload) && !isSignal(r) {
		x.eraser.blind = len(x.eraser.keys) > 0
	}
	return x.eraser.mask(payload)
}

// isSignal reports whether what a frame holds is a carrier's own, and no body.
func isSignal(r *Record) bool {
	return r.Meta != nil && r.Meta.Signal != frame.NoSignal && r.Meta.Head == nil
}

// isText reports whether bytes are text, in which keys can be found.
func isText(b []byte) bool {
	return utf8.Valid(b) && !bytes.ContainsFunc(b, func(c rune) bool { return c < ' ' && c != '\t' && c != '\n' && c != '\r' })
}

// withoutAssigned returns what is said of a frame without the secrets that the lines of its
// head say by themselves, such as the query of an address.
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

// carried takes the secrets out of a frame that came in a carrier. Where there
// are any, the payload is all that is left of the bytes: what wrapped it may have
// the same secrets in a form that hides them.
func (x *redactor) carried(r *Record, p protocol.Protocol) {
	payload := r.Payload()
	x.meta = AppendMeta(x.meta[:0], r.Meta)
	meta := x.eraser.json(nil, AppendMeta(nil, x.withoutAssigned(r.Meta)))
	var clean []byte
	if r.Compressed {
		clean = stars(payload)
	} else {
		clean = bytes.Clone(x.clean(r, p))
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

// holdsOthers reports whether the bytes of a frame may hold others, in a form that
// hides them: an event that is compressed takes all that came with it.
func holdsOthers(r *Record) bool {
	return r.Meta.Framing == frame.HTTP && r.Meta.Encoding != "" && r.Meta.Head == nil
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

// BlindSpot returns a [Redaction.Blind] that warns once; say may be nil. It is a note
// where only the usual names are looked for.
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
			say(what + " could not be searched for names, as those of secrets, because no schema describes them, and so maybe of others:" +
				" give --proto FILE if they are protobuf, or say with --redact-value what secrets look like")
		})
	}
}
