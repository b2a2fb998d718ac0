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
	// Name, if not nil, returns the name that takes the place of a secret, so that equal ones can
	// be told from others; "" is the usual text. The name must not let anybody guess the secret, as
	// a hash of a short one would. Where lengths must stay, it is still asterisks.
	Name func(secret []byte) string
	// KeepsOwn keeps what belongs to the protocol, such as methods, ids and the names of tools, whatever Values match.
	KeepsOwn bool
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
// words, which have at least two letters, in upper or lower case.
var forms = sync.OnceValue(func() map[*regexp.Regexp][]string {
	return map[*regexp.Regexp][]string{
		regexp.MustCompile(userinfo):                                       {"://"},
		regexp.MustCompile(signed):                                         {"key=", "sig=", "signature="},
		regexp.MustCompile(`(?i:\bbearer\s+)[\w.~+/=-]{8,}`):               {"bearer"}, // RFC 6750
		regexp.MustCompile(`\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]*`):       {"eyj"},    // a JWT
		regexp.MustCompile(`-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----[^-]*`): {"private"},
		regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\b(?:glpat-|npm_|hf_|gsk_|xai-|ya29\.|[sr]k_live_)[\w-]{20,}`): {
			"akia", "asia", "glpat-", "npm_", "hf_", "gsk_", "xai-", "ya29", "sk_live", "rk_live",
		},
		regexp.MustCompile(`\bsk-[\w-]{16,}|\bnxk_[\w-]{20,}|\bAIza[\w-]{30,}|\b(gh[pousr]|github_pat)_\w{20,}|\bxox[abpr]-[\w-]{10,}`): {
			"sk-", "nxk_", "aiza", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "xox",
		},
	}
})

// secretGroup is the name of the group that matches the secret.
const secretGroup = "secret"

// userinfo matches the password in a URL.
const userinfo = `://[^/\s:@"']*:(?P<` + secretGroup + `>[^/\s@"']+)@`

// signed matches a key or a signature in the query of a URL.
const signed = `[?&](?i:key|sig|(?:x-\w+-)?signature)=(?P<` + secretGroup + `>[^&\s"'#]+)`

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
	if x.outlines && r.Kind == Note && bytes.HasPrefix(clean.Text, []byte(`{"tap":`)) {
		clean.Text = x.withoutPayload(clean)
	}
	if r.Flaw != nil {
		clean.Flaw = frame.Recall(string(x.eraser.text([]byte(r.Flaw.Error()))))
	}
	if r.Kind == Frame {
		x.eraser.blind = false
		x.frame(clean)
		if x.eraser.blind && x.blind != nil {
			x.blind(r)
		}
		if x.eraser.blind && !x.noted {
			x.noted = true
			if err := x.w.Write(&Record{Kind: Note, Time: r.Time, Text: []byte(blindNote), Frame: frame.Frame{Conn: r.Conn}}); err != nil {
				return err
			}
		}
	}
	return x.w.Write(clean)
}

// withoutPayload returns the text of a note with the outline of the payload that it has, as that of a held frame.
func (x *redactor) withoutPayload(note *Record) []byte {
	text := note.Text
	if payload, ok := jsonscan.Get(text, "payload"); ok {
		of := Record{Frame: frame.Frame{Conn: note.Conn, Dir: note.Dir, Raw: payload, End: len(payload)}}
		at := bytes.Index(text, payload)
		text = slices.Concat(text[:at], x.abridged(nil, payload, x.reading.protocol(&of)), text[at+len(payload):])
	}
	if data, ok := jsonscan.Get(text, "data"); ok {
		text = bytes.Replace(text, data, []byte(`""`), 1)
	}
	return text
}

func (x *redactor) frame(r *Record) {
	p, payload := x.reading.protocol(r), r.Payload()
	switch {
	case r.Gap && x.outlines:
		r.Raw = outlineOfGap(r.Raw, r.Framing, &outliner{also: kept[all.Of(p).Name()]})
		return
	case r.Gap:
		r.Raw = x.eraser.mask(r.Raw)
		return
	case r.Compressed:
		x.payload = append(x.payload[:0], stars(payload)...)
	case x.outlines:
		x.payload = x.abridged(x.payload[:0], payload, p)
	default:
		x.payload = x.cleaned(x.payload[:0], r, p)
	}
	if x.outlines && r.Protocol == "" && x.session.Protocol == "" && all.Has(p) && all.Depth(p) == all.Told {
		r.Protocol = p.Name() // which may not be told by what is kept
	}
	switch {
	case r.Meta != nil:
		x.carried(r)
	case bytes.Equal(x.payload, payload):
	case len(x.payload) == len(payload) || !x.reframe(r):
		x.raw = append(append(append(x.raw[:0], r.Raw[:r.Start]...), x.payload...), r.Raw[r.End:]...)
		r.Raw, r.End = x.raw, r.Start+len(x.payload)
	}
}

// stars returns one asterisk for each byte of b.
func stars(b []byte) []byte { return bytes.Repeat([]byte("*"), len(b)) }

// cleaned appends the payload of a frame in protocol p without its secrets.
func (x *redactor) cleaned(dst []byte, r *Record, p protocol.Protocol) []byte {
	payload := r.Payload()
	x.eraser.harmless = all.Of(p).NoSecret
	if x.eraser.keepsOwn {
		x.eraser.own = &outliner{also: kept[p.Name()]}
	}
	if p, ok := p.(protobuf.Edited); ok {
		if clean, err := p.AppendEdited(dst, payload, x.eraser); err == nil {
			return clean
		}
	}
	if jsonscan.WellFormed(payload) == nil {
		return x.eraser.json(dst, payload)
	}
	// A signal of the carrier itself has no body.
	isSignal := r.Meta != nil && r.Meta.Signal != frame.NoSignal && r.Meta.Head == nil
	if p.Encoding() == protocol.Protobuf && len(payload) > 0 || !isText(payload) && !isSignal {
		x.eraser.blind = len(x.eraser.keys) > 0
	}
	return append(dst, x.eraser.mask(payload)...)
}

// isText reports whether b is text, and can therefore be searched for keys.
func isText(b []byte) bool {
	return utf8.Valid(b) && !bytes.ContainsFunc(b, func(c rune) bool { return c < ' ' && c != '\t' && c != '\n' && c != '\r' })
}

// carried gives a frame from a carrier the current payload. If there are secrets, only that is kept,
// because the wrapper may contain the same secrets in an encoded form.
func (x *redactor) carried(r *Record) {
	m := &frame.Meta{Signal: r.Meta.Signal}
	if x.outlines {
		m = x.outlineOfMeta(r)
	} else {
		x.meta = AppendMeta(x.meta[:0], r.Meta)
		whole := *r.Meta
		if h := r.Meta.Head; h != nil { // its lines one by one, including the query of a URL
			line := func(text string) string { return string(x.eraser.text([]byte(text))) }
			whole.Head = &frame.Head{Start: line(h.Start)}
			for _, f := range h.Fields {
				whole.Head.Fields = append(whole.Head.Fields, frame.Field{Name: f.Name, Value: line(f.Value)})
			}
		}
		meta := x.eraser.json(nil, AppendMeta(nil, &whole))
		// A compressed event has all the bytes that arrived with it, and maybe other frames.
		holdsOthers := r.Meta.Framing == frame.HTTP && r.Meta.Encoding != "" && r.Meta.Head == nil
		if bytes.Equal(x.payload, r.Payload()) && bytes.Equal(meta, x.meta) && !holdsOthers {
			return
		}
		if read, err := ParseMeta(meta, nil); err == nil {
			m = read
		}
	}
	m.Framing = r.Meta.Framing
	r.Meta, r.Raw, r.Start, r.End = m, bytes.Clone(x.payload), 0, len(x.payload)
}

// reframe puts the current payload into a new wrapper, if that is possible.
func (x *redactor) reframe(r *Record) bool {
	framing, err := frame.Named(cmp.Or(r.Framing, x.session.Framing))
	if err != nil {
		return false
	}
	raw, err := frame.Append(x.raw[:0], framing, x.payload)
	var e frame.Extent
	if err != nil || framing.Next(raw, len(raw), true, &e) != nil || e.Raw != len(raw) {
		return false
	}
	x.raw = raw
	r.Raw, r.Start, r.End = raw, e.Start, e.End
	return true
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
