package all

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/inflate"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/protocol/protobuf"
)

// protocolOfObject returns the protocol of a payload that begins as an object and cannot be
// read whole.
func protocolOfObject(payload []byte, f frame.Framing) protocol.Protocol {
	if jsonrpc.Claims(payload) {
		return jsonrpc.Plain
	}
	return marked(payload, f, false)
}

// marked returns the protocol of JSON that shows it by a mark or, if it is whole, by its members,
// although it breaks the rules or could be of another one; otherwise JSON. A line may as well be
// the record of a log.
func marked(payload []byte, f frame.Framing, whole bool) protocol.Protocol {
	var m protocol.Message
	for _, s := range list {
		switch has := bytes.Contains(payload, []byte(s.Mark)); {
		case s.Mark == "" || f == frame.Line:
		case !whole && has, whole && s.Parse(payload, &m) == nil && m.Faults&protocol.UnknownKind == 0 && (has || m.Faults&broken == 0):
			return s.Protocol
		}
	}
	return opaque.JSON
}

// broken are the faults that speak against a protocol.
const broken = ^(protocol.DuplicateKey | protocol.UnsafeInteger | protocol.LoneSurrogate)

// Recognize returns the protocol that a payload belongs to, and why it is
// thought so: the bytes protocol if it belongs to none. Nothing is bytes too.
func Recognize(payload []byte) (p protocol.Protocol, why string) {
	payload = bytes.TrimPrefix(payload, []byte("\xef\xbb\xbf"))
	sample := firstOf(payload)
	var m protocol.Message
	var best protocol.Evidence
	for _, s := range list {
		if s.Refine != nil || s.Recognize == nil || s.Parse(sample, &m) != nil || m.Faults&broken != 0 {
			continue
		}
		if e := evidence(s, sample, &m); e.Score > best.Score {
			best, p, why = e, s.Protocol, strings.TrimSpace(fmt.Sprintf("the first message is %.60q %s", m.Kind, e.Why))
		}
	}
	if p != nil {
		return p, why
	}
	if opaque.JSON.Parse(payload, &m) == nil {
		if jsonrpc.Claims(sample) && parses(jsonrpc.Plain, sample) {
			return jsonrpc.Plain, `the first message has a member "jsonrpc"`
		}
		return opaque.JSON, fmt.Sprintf("the first payload is JSON, of the kind %s", m.Kind)
	}
	if s := (protobuf.Schemaless{}); isNoText(payload) && s.Parse(payload, &m) == nil {
		return s, "the first payload has the fields of a message"
	}
	return opaque.Bytes, "the first payload does not tell"
}

// evidence is the evidence that a message is of a protocol and no other: much JSON could be of
// several. A payload that claims to be JSON-RPC is of no protocol that is none.
func evidence(s *protocol.Spec, payload []byte, m *protocol.Message) protocol.Evidence {
	switch {
	case s.Recognize == nil:
		return protocol.Evidence{Score: protocol.Possible}
	case !IsRPC(s.Protocol) && jsonrpc.Claims(payload):
		return protocol.Evidence{}
	}
	return s.Recognize(payload, m)
}

// firstOf returns the first message of a batch, and any other payload as it is. A batch is
// known by its messages, because any array may be one.
func firstOf(payload []byte) []byte {
	for item := range protocol.Items(payload) {
		return item
	}
	return nil
}

// parses reports whether a payload is one of p's messages.
func parses(p protocol.Protocol, payload []byte) bool {
	var m protocol.Message
	return p.Parse(payload, &m) == nil && m.Faults&protocol.UnknownKind == 0
}

// Beside returns the protocol of a payload of HTTP on a wire whose protocol is p: a server
// of calls also answers plain requests, such as those of a login, and its client may ask
// other servers. JSON that does not claim to be JSON-RPC is JSON; a payload that claims to
// be JSON-RPC is of no other JSON protocol.
func Beside(p protocol.Protocol, payload []byte) protocol.Protocol {
	says := bytes.Contains(payload, []byte(`"jsonrpc"`))
	switch {
	case IsRPC(p) && !says && isNoCall(payload):
		return opaque.JSON
	case p == opaque.JSON && says && parses(jsonrpc.Plain, payload):
		return jsonrpc.Plain
	}
	return p
}

// isNoCall reports whether a payload is JSON, and no message of JSON-RPC even if
// that had left out its version.
func isNoCall(payload []byte) bool {
	var m protocol.Message
	if jsonrpc.Plain.Parse(payload, &m) != nil {
		return false
	}
	const others = protocol.UnknownKind | protocol.MissingField | protocol.NoAnswer
	return m.Faults&others != 0 || bytes.HasPrefix(bytes.TrimLeft(payload, " \t\r\n"), []byte("["))
}

// Plausible returns a function that reports whether bytes may be a payload of p or, if they
// are not whole, the beginning of one.
func Plausible(p protocol.Protocol) func(payload []byte, whole bool) bool {
	return func(payload []byte, whole bool) bool {
		switch p.Encoding() {
		case protocol.JSON:
			return (p == opaque.JSON || isContainer(payload)) && isJSON(payload, whole)
		case protocol.Protobuf:
			return whole && parses(p, payload) || !whole && beginsFields(p, payload, math.MaxInt)
		default:
			return true
		}
	}
}

// isContainer reports whether a JSON text begins as an object or an array.
func isContainer(text []byte) bool {
	var s jsonscan.Scanner
	s.Init(text)
	kind := s.Peek()
	return kind == jsonscan.Object || kind == jsonscan.Array
}

// isJSON reports whether text is JSON or, unless it is whole, how some begins.
func isJSON(text []byte, whole bool) bool {
	return jsonscan.WellFormed(text) == nil || !whole && jsonscan.IsCut(text)
}

// beginsFields reports whether a message of p, of no more than size bytes, may
// begin with wire.
func beginsFields(p protocol.Protocol, wire []byte, size int) bool {
	for len(wire) > 0 {
		num, typ, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return isCut(n)
		}
		if has := Of(p).HasField; has != nil && !has(int32(num)) {
			return false
		}
		value := protowire.ConsumeFieldValue(num, typ, wire[n:])
		if value < 0 {
			return isCut(value) && fits(typ, wire[n:], size-n)
		}
		wire = wire[n+value:]
		size -= n + value
	}
	return true
}

// fits reports whether a field's value that is cut can end within size bytes.
func fits(typ protowire.Type, value []byte, size int) bool {
	if typ != protowire.BytesType {
		return true
	}
	length, n := protowire.ConsumeVarint(value)
	return n < 0 || length <= uint64(size-n)
}

// isCut reports whether an error code of package protowire says that bytes are
// missing, rather than wrong.
func isCut(code int) bool { return errors.Is(protowire.ParseError(code), io.ErrUnexpectedEOF) }

// maxInside bounds how many places of a line are searched for a message.
const maxInside = 64

// Inside returns the messages of p in a line that is not one as a whole: several, or one among
// words. Before is the text before the first. Why says what to change, or is "" if there is no
// message.
func Inside(p protocol.Protocol, line []byte) (messages [][]byte, before []byte, why string) {
	if p.Encoding() != protocol.JSON {
		return nil, nil, ""
	}
	words := false
	at := 0 // the end of the last message, or of what was searched
	for range maxInside {
		i := bytes.IndexByte(line[at:], '{')
		if i < 0 {
			break
		}
		start := at + i
		words = words || len(bytes.TrimSpace(line[at:start])) > 0
		var s jsonscan.Scanner
		s.Init(line[start:])
		value := s.Value()
		end := start + len(value)
		switch {
		case value == nil:
			words, at = true, start+1
			continue
		case !isMessage(p, value) || jsonscan.IsCut(line[:end]): // or it is a value of JSON that is broken elsewhere
			words = true
		default:
			if messages = append(messages, value); len(messages) == 1 {
				before = line[:start]
			}
		}
		at = end
	}
	words = words || len(bytes.TrimSpace(line[at:])) > 0
	switch {
	case len(messages) == 0, recognizer(p) == nil && (words || len(messages) == 1): // or they are values of JSON that is broken elsewhere
		return nil, nil, ""
	case len(messages) > 1:
		return messages, before, fmt.Sprintf("%d messages are on one line: write a line feed after each", len(messages))
	}
	return messages, before, "a message is on one line with other text: write that to stderr, or end it with a line feed"
}

// isMessage reports whether JSON is a message that only p has, or, if no message shows that, one that p has.
func isMessage(p protocol.Protocol, value []byte) bool {
	var m protocol.Message
	return p.Parse(value, &m) == nil && m.Faults&protocol.UnknownKind == 0 &&
		(recognizer(p) == nil || evidence(Of(p), value, &m).Score != protocol.NoScore)
}

// recognizer returns what tells the messages of a protocol from others; nil if nothing does. Bodies over
// REST have the name of a protocol whose messages over JSON-RPC tell, but do not tell themselves.
func recognizer(p protocol.Protocol) func([]byte, *protocol.Message) protocol.Evidence {
	if s := Of(p); s.Protocol == p {
		return s.Recognize
	}
	return nil
}

// A Refiner learns from later payloads what the first one did not tell. JSON is of the
// protocol of the first payload that only one has, and in the JSON-RPC family, the first
// method that only one dialect has decides.
type Refiner struct {
	protocol protocol.Protocol
	open     bool // no payload has told any protocol
	http     bool // the payloads are bodies of HTTP
	done     bool // there is nothing more to learn
	looked   int  // how many payloads were JSON of no protocol
}

// maxLooked bounds looked.
const maxLooked = 64

// NewRefiner returns a Refiner for unknown payloads, such as bodies of HTTP: they are bytes
// until one tells.
func NewRefiner(http bool) *Refiner { return &Refiner{protocol: opaque.Bytes, open: true, http: http} }

// Refiner returns the Refiner of the guess; nil if nothing is open.
func (g *Guess) Refiner() *Refiner {
	if g.open || g.Protocol == protocol.Protocol(jsonrpc.Plain) || g.Protocol == opaque.JSON && g.guessed {
		return &Refiner{protocol: g.Protocol, open: g.open}
	}
	return nil
}

// Refine reads the next payload of the stream. It returns the protocol from this payload on
// and, if that has changed, why; done says that there is nothing more to learn.
func (r *Refiner) Refine(payload []byte) (p protocol.Protocol, why string, done bool) {
	if !r.done {
		r.protocol, why, r.done = r.refine(payload)
	}
	return r.protocol, why, r.done
}

func (r *Refiner) refine(payload []byte) (p protocol.Protocol, why string, done bool) {
	if r.open || r.protocol == opaque.JSON {
		p, reason := Recognize(payload)
		if r.http && !IsRPC(p) && p.Encoding() == protocol.JSON {
			p, reason = opaque.JSON, "the first payload is JSON" // other protocols have streams of messages
		}
		switch {
		case r.open && p == opaque.Bytes:
			return r.protocol, "", false
		case r.open || p != opaque.Bytes && p != opaque.JSON && p.Encoding() == protocol.JSON:
			r.open, r.protocol, why = false, p, reason
		}
		if r.protocol == opaque.JSON {
			r.looked++
			return r.protocol, why, r.looked >= maxLooked
		}
	}
	if r.protocol != protocol.Protocol(jsonrpc.Plain) {
		return r.protocol, why, true
	}
	if d, method := only(payload); d != nil {
		return d, "the method " + method, true
	}
	return r.protocol, why, false
}

// only returns the first method in a payload that only one dialect has, or an initialize
// with the version of one, and that dialect; nil if there is none.
func only(payload []byte) (protocol.Protocol, string) {
	if !bytes.Contains(payload, []byte(`"method"`)) {
		return nil, ""
	}
	var m protocol.Message
	for item := range protocol.Items(payload) {
		if jsonrpc.Plain.Parse(item, &m) != nil {
			return nil, ""
		}
		if p, score := refine(&m); p != nil && score >= protocol.Likely {
			return p, string(m.Kind)
		}
	}
	return nil, ""
}

// Asks reports whether a payload has a request of JSON-RPC.
func Asks(payload []byte) bool {
	for item := range protocol.Items(payload) {
		var m protocol.Message
		if jsonrpc.Plain.Parse(item, &m) == nil && m.Phase == protocol.Open {
			return true
		}
	}
	return false
}

// refine returns the dialect for which a message is the strongest evidence, and how strong that
// is; nil if several dialects have the same, or none has any.
func refine(m *protocol.Message) (p protocol.Protocol, best protocol.Score) {
	for _, s := range list {
		if s.Refine == nil {
			continue
		}
		switch score := s.Refine(m).Score; {
		case score > best:
			best, p = score, s.Protocol
		case score == best:
			p = nil
		}
	}
	return p, best
}

// First returns the dialect that the first request or notification of a session of JSON-RPC
// tells: the dialect of an initialize that names its version, or Plain if no dialect has
// such a method; nil if other messages must tell. It reports false for a payload that holds
// neither.
func First(payload []byte) (p protocol.Protocol, asks bool) {
	var m protocol.Message
	for item := range protocol.Items(payload) {
		if jsonrpc.Plain.Parse(item, &m) != nil || m.Phase.Ends() || m.Faults&protocol.UnknownKind != 0 {
			return nil, false
		}
		break
	}
	if len(m.Kind) == 0 {
		return nil, false
	}
	switch p, score := refine(&m); score {
	case protocol.NoScore:
		return jsonrpc.Plain, true
	case protocol.Certain:
		return p, true
	}
	return nil, true
}

// ClientName returns the name that a client gives itself in a request: in an initialize, or
// since MCP 2026-07-28 in any request; "" if there is none.
func ClientName(m *protocol.Message) string {
	if m.Phase != protocol.Open {
		return ""
	}
	paths := [][]string{{"_meta", "io.modelcontextprotocol/clientInfo", "name"}}
	if string(m.Kind) == "initialize" {
		paths = append(paths, []string{"clientInfo", "name"}, []string{"clientName"}, []string{"clientID"}) // the last two of DAP
	}
	for _, path := range paths {
		raw, _ := jsonscan.Get(m.Text, path...)
		if name, ok := jsonscan.Unquote(raw); ok && len(name) > 0 {
			return string(name)
		}
	}
	return ""
}

// A Guess is the framing and protocol that a stream seems to have. Those that are set
// before [Guess.Detect] are given.
type Guess struct {
	Framing  frame.Framing // nil if no framing fits
	Protocol protocol.Protocol
	// Limit is the largest payload that is expected, in bytes, if that is more than
	// [frame.DefaultLimit].
	Limit int

	reasons []string
	open    bool // the first payload did not tell the protocol
	guessed bool // the protocol is not given
}

// String says what the stream seems to be, and why.
func (g *Guess) String() string { return strings.Join(g.reasons, ", ") }

// Clear reports whether a payload told what the stream is.
func (g *Guess) Clear() bool { return g.Framing != nil && !g.open }

// Detect settles the guess from the head of a stream. It returns false when it
// needs more of the head, which it never does of a stream's first
// frame.DetectSize bytes.
//
// Of the framings whose first payload some protocol claims, or beside which no
// other is possible any more, the one wins whose frame ends first. So the verdict
// does not depend on the pieces in which the head grew.
func (g *Guess) Detect(head []byte, atEOF bool) bool {
	final := atEOF || len(head) >= frame.DetectSize
	if len(head) >= frame.DetectSize {
		head, atEOF = head[:frame.DetectSize], false
	}
	if len(head) == 0 {
		return final
	}
	samples, ok := g.samples(head, atEOF)
	if g.isBrokenHeader(head, samples) {
		return g.takeUnclear(sample{framing: frame.Header, why: "it begins like a header"})
	}
	for _, p := range g.points(samples, head) {
		if g.possible(p.seen) && (p.nth == 1 && g.claims(p.sample) || g.remains(p) && g.takeUnclear(p.sample)) {
			return true
		}
	}
	switch {
	case !g.possible(head):
		return true
	case !final && ok:
		return false
	}
	g.settle(head, atEOF, samples)
	return true
}

// possible reports whether the stream may be frames at all. Input that begins like
// something well known may not, unless its framing is given.
func (g *Guess) possible(head []byte) bool {
	if g.Framing != nil {
		return true
	}
	switch frame.Recognize(head) {
	case frame.HTTPResponse, frame.HTTPRequest, frame.HTTP2, frame.SSHBanner, frame.HTML,
		frame.UTF16, frame.Gzip, frame.Zstd, frame.Zip, frame.Pcap, frame.SQLite, frame.TLS, frame.DecimalLength, frame.GRPCWebTrailers:
		return false
	}
	return true
}

// isBrokenHeader reports whether a stream begins like a frame's header that is invalid.
// That is a fault of the header, and its first letter is not a length.
func (g *Guess) isBrokenHeader(head []byte, samples []sample) bool {
	return g.Framing == nil && isHeader(head) &&
		!slices.ContainsFunc(samples, func(s sample) bool { return s.framing == frame.Header })
}

// limit is the largest payload that is possible.
func (g *Guess) limit() int { return max(g.Limit, frame.DefaultLimit) }

// claims takes a sample whose payload, all of it, a protocol recognizes.
func (g *Guess) claims(s sample) bool {
	switch {
	case len(s.payload) == 0:
		return s.framing == g.Framing && g.takeUnclear(s)
	case g.isNamed():
		return Plausible(g.Protocol)(s.payload, true) && g.decide(s, g.Protocol, "")
	case s.compressed: // gzip is not text, but the bytes after a length of 16 MiB may look like it
		return (s.framing == g.Framing || !isText(s.payload)) && g.takeCompressed(s)
	}
	p, why := recognizeFirst(s.payload)
	if p == opaque.JSON {
		if p = marked(s.payload, s.framing, true); p != opaque.JSON {
			why = "the first message has its members"
		}
	}
	switch {
	case s.tells(p):
		return g.decide(s, p, why)
	case s.framing == g.Framing, s.framing == frame.Line && isStrayText(s.payload):
		return g.takeUnclear(s)
	}
	return false
}

// recognizeFirst is Recognize, and tells the dialect if the message does.
func recognizeFirst(payload []byte) (p protocol.Protocol, why string) {
	p, why = Recognize(payload)
	if p == protocol.Protocol(jsonrpc.Plain) {
		if d, method := only(payload); d != nil {
			return d, "the first message is " + strconv.Quote(method)
		}
	}
	return p, why
}

// takeCompressed decides on a compressed message of gRPC, by its content if the first
// bytes tell how it is compressed.
func (g *Guess) takeCompressed(s sample) bool {
	if p, why := recognizeFirst(unpacked(s.payload)); p != opaque.Bytes {
		return g.decide(s, p, why+", compressed")
	}
	g.open = true
	return g.decide(s, protobuf.Schemaless{}, "the first message is compressed")
}

// maxUnpacked bounds how much of a compressed message is examined, in bytes.
const maxUnpacked = 1 << 20

// unpacked decompresses a payload that begins as gzip or zstd do. It returns nil if that
// fails.
func unpacked(payload []byte) []byte {
	name, ok := map[frame.Accident]string{frame.Gzip: "gzip", frame.Zstd: "zstd"}[frame.Recognize(payload)]
	if !ok {
		return nil
	}
	r, err := inflate.Open(name, bytes.NewReader(payload))
	if err != nil {
		return nil
	}
	defer r.Close()
	plain, err := io.ReadAll(io.LimitReader(r, maxUnpacked))
	if err != nil {
		return nil
	}
	return plain
}

// isNamed reports whether the protocol is given, and can judge payloads.
func (g *Guess) isNamed() bool {
	return g.Protocol != nil && g.Protocol.Encoding() != protocol.Opaque
}

// isStrayText reports whether a line is text, and not the first header of a
// frame.
func isStrayText(line []byte) bool {
	return len(line) >= minText && !isHeader(line)
}

func isHeader(line []byte) bool { return frame.Recognize(line) == frame.HeaderFrame }

// minText is how long a line must be, in bytes, to be taken for text. Lengths
// in binary framings can make shorter ones.
const minText = 4

// takeUnclear takes a sample whose payload belongs to no protocol. On lines that is mostly
// a stray line of text, so JSON is expected, as it is after headers and where an object
// begins; empty payloads are messages of gRPC.
func (g *Guess) takeUnclear(s sample) bool {
	g.open = true
	switch {
	case bytes.HasPrefix(s.payload, []byte("{")):
		return g.decide(s, protocolOfObject(s.payload, s.framing), "the first payload begins as an object, and is not JSON")
	case s.framing == frame.Line || s.framing == frame.Header:
		return g.decide(s, opaque.JSON, "the usual case, as the first payload does not tell")
	case s.framing == frame.GRPC && !s.started: // there is no frame
		return g.decide(s, protobuf.Schemaless{}, "the usual case, as the first message does not tell")
	case s.framing == frame.GRPC && len(s.payload) == 0:
		return g.decide(s, protobuf.Schemaless{}, "the first message is empty")
	default:
		return g.decide(s, opaque.Bytes, "the first payload does not tell")
	}
}

// decide sets the framing and the protocol that were not given, with the reasons. It
// returns true.
func (g *Guess) decide(s sample, p protocol.Protocol, why string) bool {
	if g.Framing == nil {
		g.Framing = s.framing
		g.reasons = append(g.reasons, fmt.Sprintf("%s framing (%s)", s.framing.Name(), s.why))
	}
	if g.Protocol == nil {
		g.Protocol, g.guessed = p, true
		g.reasons = append(g.reasons, fmt.Sprintf("%s protocol (%s)", p.Name(), why))
	}
	return true
}

// tells reports whether it is more than chance that p recognizes the payload of s. Short
// lines, and short payloads after a length of one byte, may be digits between other bytes.
// Text may look like protobuf if its first letter is taken for a length.
func (s sample) tells(p protocol.Protocol) bool {
	switch {
	case p == opaque.Bytes || len(s.payload) == 0:
		return false
	case s.framing != frame.Line && s.framing != frame.Varint:
		return true
	case p.Encoding() == protocol.JSON:
		return isContainer(s.payload) || len(s.payload) >= minText
	default:
		return s.framing == frame.Varint && isNoText(s.payload)
	}
}

// isNoText reports whether a payload is more than text, as protobuf mostly is. The tag of
// its first field looks like the end of a line if that is a string.
func isNoText(payload []byte) bool {
	return len(payload) > 0 && (payload[0] == '\n' || !isText(payload))
}

// isText reports whether b is UTF-8 without control characters other than
// white space.
func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' {
			return false
		}
	}
	return utf8.Valid(b)
}

// A sample is the first payload of a stream in one framing. Empty ones are skipped if
// others follow.
type sample struct {
	framing    frame.Framing
	why        string
	payload    []byte // cut short unless whole
	size       int    // of the payload, as far as known
	compressed bool
	started    bool // the beginning of the payload is known
	whole      bool
	end        int // of the frame in the stream, as far as known
}

// samples returns a sample of each possible framing, those whose frame ends sooner first,
// and lines after others, because lengths may be printable. It returns false if more of the
// stream cannot bring any.
func (g *Guess) samples(head []byte, atEOF bool) ([]sample, bool) {
	if g.Framing != nil {
		s := sample{framing: g.Framing}
		if !s.firstFrame(head, g.limit(), atEOF, false) {
			return nil, false
		}
		return []sample{s}, true
	}
	var all []sample
	for _, c := range frame.Candidates(head, atEOF, max(g.limit(), maxBinary)) {
		size := c.Need - c.Frame.Start
		if size > g.limit() && !beginsJSON(c.Frame.Payload()) {
			continue
		}
		s := sample{framing: c.Framing, why: c.Why}
		if s.firstFrame(head, max(g.limit(), size), atEOF, s.passes()) {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b sample) int {
		return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.isLine(), b.isLine()))
	})
	return all, true
}

// maxBinary is more than any length of a real frame, and less than four letters as a
// length. A first frame over the limit may be up to this long if JSON begins after the
// length: so the error can name the limit.
const maxBinary = 512 << 20

// firstFrame moves to the first frame, or past empty frames if passes is set. It returns
// false if the head does not begin with a frame.
func (s *sample) firstFrame(head []byte, limit int, atEOF, passes bool) bool {
	for found := false; ; found = true {
		var e frame.Extent
		rest := head[s.end:]
		if s.framing.Next(rest, limit, atEOF, &e) != nil || e.Gap {
			return found
		}
		s.whole, s.compressed, s.started = e.Raw != 0, e.Compressed, e.Start > 0
		s.payload = rest[min(e.Start, len(rest)):min(e.End, len(rest))]
		s.size = e.End - e.Start
		s.end += max(e.Raw, e.Need)
		if !s.whole || len(s.payload) > 0 || !passes || s.end >= len(head) {
			return true
		}
	}
}

// isLine returns 1 if the sample is a line, else 0.
func (s *sample) isLine() int {
	if s.framing == frame.Line {
		return 1
	}
	return 0
}

// passes reports whether an empty frame of the framing is skipped. Streams of gRPC may
// begin with messages that have only default values. For varint the zeros of every other
// length are empty frames: it would find payloads anywhere.
func (s *sample) passes() bool { return s.framing == frame.Len32 || s.framing == frame.GRPC }

// A point is the end of a frame in the framing of a sample, where a stream may show more of
// itself than before.
type point struct {
	sample
	nth  int // frame of the sample's, from 1
	seen []byte
}

// maxPoints bounds how many frames of a framing are waited for.
const maxPoints = 4

// points returns the ends of the first frames of each sample, in the order of the stream;
// those of lines after others.
func (g *Guess) points(samples []sample, head []byte) (all []point) {
	for _, s := range samples {
		end := min(s.end, len(head))
		for nth := 1; s.whole && nth <= maxPoints; nth++ {
			all = append(all, point{s, nth, head[:end]})
			var e frame.Extent
			if s.framing.Next(head[end:], g.limit(), false, &e) != nil || e.Raw == 0 || e.Start == e.End {
				break
			}
			end += e.Raw
		}
	}
	slices.SortStableFunc(all, func(a, b point) int {
		return cmp.Or(cmp.Compare(len(a.seen), len(b.seen)), cmp.Compare(a.isLine(), b.isLine()))
	})
	return all
}

// remains reports whether the framing of p is that of the stream, although no protocol
// knows its first payload: because the bytes so far allow no other, or form too many of its
// frames by chance.
func (g *Guess) remains(p point) bool {
	switch {
	case len(p.payload) == 0, isBlank(p.seen), p.framing == frame.Varint && beginsJSON(p.seen):
		return false
	case p.framing == frame.Header, p.holdsJSON(p.seen):
		return true
	case p.nth > 1 && p.framing == frame.Line:
		return isText(p.seen) && !isHeader(p.payload) && (len(p.payload) > 1 || isContainer(p.payload))
	case p.nth > 1 && p.framing != frame.Varint:
		return true
	}
	others, _ := g.samples(p.seen, false)
	return !slices.ContainsFunc(others, func(s sample) bool { return g.rivals(s, p) })
}

// rivals reports whether s, of another framing, may be right instead of p.
func (g *Guess) rivals(s sample, p point) bool {
	switch {
	case s.framing == p.framing:
		return false
	case s.whole: // a length of four bytes can also be that of gRPC, and a byte
		return p.framing == frame.GRPC && s.framing == frame.Len32 && s.divides(p.seen, g.limit(), false)
	case s.framing == frame.Line, s.framing == frame.Header, s.compressed, len(s.payload) == 0, s.holdsJSON(p.seen):
		return true
	}
	return g.guessIncomplete(s) != nil
}

// settle takes the most likely sample when no protocol recognizes a first frame and no more
// bytes come. A framing that is given stays, whatever it carries.
//
// A frame that is cut by the end of the stream is evidence against its framing, so a
// framing that fits the whole stream comes first. The head of a longer stream is cut
// anywhere, so there the fit tells less.
func (g *Guess) settle(head []byte, atEOF bool, samples []sample) {
	divide := func(s sample) bool { return s.divides(head, g.limit(), atEOF) && g.takeUnclear(s) }
	switch byFraming := ordered(samples); {
	case g.Framing == nil && isBlank(head):
		g.takeUnclear(sample{framing: frame.Line, why: "there is only white space"})
	case slices.ContainsFunc(samples, g.takesGzip):
	case atEOF && slices.ContainsFunc(byFraming, func(s sample) bool { return s.isSure(head) && divide(s) }):
	case slices.ContainsFunc(samples, func(s sample) bool { return s.whole && s.holdsJSON(head) && g.takeUnclear(s) }):
	case slices.ContainsFunc(samples, g.takesCut):
	case slices.ContainsFunc(samples, func(s sample) bool { return s.holdsJSON(head) && g.takeUnclear(s) }):
	case slices.ContainsFunc(byFraming, func(s sample) bool { return s.isLong(atEOF) && g.takeUnclear(s) }):
	case slices.ContainsFunc(byFraming, func(s sample) bool { return !isZero(head) && divide(s) }):
	case g.Framing != nil:
		g.takeUnclear(sample{framing: g.Framing})
	}
}

// ordered returns the samples in the order in which to try them.
func ordered(samples []sample) (all []sample) {
	for _, f := range []frame.Framing{frame.Header, frame.Line, frame.Nul, frame.Len32, frame.GRPC, frame.Varint} {
		for _, s := range samples {
			if s.framing == f {
				all = append(all, s)
			}
		}
	}
	return all
}

// takesGzip takes a message of gRPC that is flagged as compressed and begins like gzip,
// even if it is incomplete.
func (g *Guess) takesGzip(s sample) bool {
	if !s.compressed || frame.Recognize(s.payload) != frame.Gzip {
		return false
	}
	g.open = true
	return g.decide(s, protobuf.Schemaless{}, "the first message is compressed")
}

// takesCut takes an incomplete sample that begins like a payload of the given protocol, or
// of another one.
func (g *Guess) takesCut(s sample) bool {
	p := g.guessIncomplete(s)
	switch p {
	case nil:
		return false
	case opaque.JSON:
		p = protocolOfObject(s.payload, s.framing)
	}
	g.open = true
	return g.decide(s, p, "the first payload begins that way")
}

// guessIncomplete returns the given protocol, or another one, if an incomplete sample begins like one
// of its payloads.
func (g *Guess) guessIncomplete(s sample) protocol.Protocol {
	fits := func(p protocol.Protocol) bool { return !s.whole && s.tells(p) && s.begins(p) }
	switch {
	case g.isNamed() && fits(g.Protocol):
		return g.Protocol
	case g.isNamed():
		return nil
	case fits(opaque.JSON):
		return opaque.JSON
	}
	for _, spec := range list {
		if spec.Encoding() == protocol.Protobuf && fits(spec.Protocol) {
			return spec.Protocol
		}
	}
	return nil
}

// begins reports whether the payload, which is cut, may be one of p's.
func (s sample) begins(p protocol.Protocol) bool {
	if p.Encoding() == protocol.Protobuf {
		return isNoText(s.payload) && !beginsJSON(s.payload) && beginsFields(p, s.payload, s.size)
	}
	return Plausible(p)(s.payload, false)
}

// isSure reports whether it is no accident that the whole stream falls into frames. Any
// text falls into lines, any zeros into empty frames, and text into frames whose lengths
// are its letters.
func (s sample) isSure(stream []byte) bool {
	switch s.framing {
	case frame.Line:
		return isText(stream) && (isStrayText(s.payload) || isJSON(s.payload, true) || isContainer(s.payload))
	case frame.Varint:
		return len(s.payload) > 0 && !isText(s.payload)
	default:
		return true
	}
}

// holdsJSON reports whether the payload begins like JSON, and the stream does not.
func (s sample) holdsJSON(stream []byte) bool {
	return s.framing != frame.Line && beginsJSON(s.payload) && !beginsJSON(stream)
}

func beginsJSON(text []byte) bool { return frame.Recognize(text) == frame.JSONText }

// isLong reports whether the first frame may well be longer than the part of the stream
// that was seen: after a complete header, or as a line of text.
func (s sample) isLong(atEOF bool) bool {
	switch s.framing {
	case frame.Header:
		return s.started
	case frame.Line:
		return true
	case frame.Varint:
		return false
	}
	return !s.whole && !atEOF
}

// isBlank reports whether a stream is blank lines.
func isBlank(stream []byte) bool { return len(bytes.Trim(stream, " \t\r\n")) == 0 }

// isZero reports whether a stream is only zeros, too few for a length of four bytes.
func isZero(stream []byte) bool {
	return len(stream) < 4 && len(bytes.Trim(stream, "\x00")) == 0
}

// divides reports whether the sample is complete and the whole head falls into frames.
func (s sample) divides(head []byte, limit int, atEOF bool) bool {
	for s.whole && len(head) > 0 {
		var e frame.Extent
		if s.framing.Next(head, limit, atEOF, &e) != nil {
			return false
		}
		if e.Raw == 0 {
			return !atEOF
		}
		head = head[e.Raw:]
	}
	return s.whole
}
