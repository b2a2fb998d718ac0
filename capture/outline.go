package capture

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/protobuf"
)

// ownValues are the paths to JSON values that belong to the protocol and not to the conversation: those
// of JSON-RPC and its dialects, A2A, DAP, Claude Code and rlm. Lists add nothing to a path.
var ownValues = func() map[string]bool {
	own := map[string]bool{}
	for prefix, paths := range map[string]string{
		"": `jsonrpc id method error.code type seq request_seq task.id task.status.state statusUpdate.taskId statusUpdate.status.state artifactUpdate.taskId
			message.taskId status.state artifactUpdate.artifact.artifactId request_id subtype parent_tool_use_id terminal_reason request.subtype response.subtype
			response.request_id event.type event.index correlation_id`,
		"params.": `id requestId progressToken _meta.progressToken name protocolVersion clientInfo.name clientInfo.version sessionId update.sessionUpdate taskId level
			mode _meta.io.modelcontextprotocol/protocolVersion _meta.io.modelcontextprotocol/subscriptionId _meta.io.modelcontextprotocol/logLevel update.state
			update.stopReason update.toolCallId toolCall.toolCallId options.optionId event.type turnId turn.id turn.status itemId item.id item.type expectedTurnId
			event.data.toolCallId event.data.requestId workDoneToken request_id message.taskId`,
		"result.": `protocolVersion serverInfo.name serverInfo.version agentInfo.name agentInfo.version info.name info.version tools.name prompts.name content.type
			resultType sessionId stopReason _meta.io.modelcontextprotocol/subscriptionId id taskId task.id task.taskId outcome.outcome outcome.optionId turn.id
			turn.status kind status.state task.status.state statusUpdate.status.state artifact.artifactId artifactUpdate.artifact.artifactId statusUpdate.taskId
			artifactUpdate.taskId`,
	} {
		for path := range strings.FieldsSeq(paths) {
			own[prefix+path] = true
		}
	}
	return own
}()

// reserved begins the names that MCP has reserved in _meta.
const reserved = "io.modelcontextprotocol/"

// keptInAny has the further paths of all protocols.
var keptInAny = func() (paths []string) {
	for _, p := range all.List() {
		paths = append(paths, keptBy(all.Of(p))...)
	}
	return paths
}()

// kept has the further paths of each protocol by its name, and those in headers, and joining the members, and
// the headers in lower case, by which its requests belong to those of other wires.
var kept, joining = func() (map[string][]string, map[string]bool) {
	paths, names := map[string][]string{}, map[string]bool{}
	for _, p := range all.List() {
		spec := all.Of(p)
		paths[p.Name()] = keptBy(spec)
		for _, j := range spec.Joins {
			header, path, isJSON := strings.Cut(strings.ToLower(j.Header), "//")
			names[header] = header != ""
			if isJSON {
				paths[ofHeaders] = append(paths[ofHeaders], header+"."+path)
			}
			for name := range strings.SplitSeq(j.Path, "//") {
				names[name] = name != ""
			}
		}
	}
	return paths, names
}()

// ofHeaders is the key of the paths in the JSON of headers.
const ofHeaders = ""

// keptBy returns the further paths of a protocol, with those of ids that other wires have, too.
func keptBy(spec *protocol.Spec) []string {
	paths := slices.Clone(spec.Kept)
	for _, j := range spec.Joins {
		if j.Path != "" && j.As != protocol.WithArguments {
			paths = append(paths, strings.ReplaceAll(j.Path, "//", "."))
		}
	}
	return paths
}

// An outliner is the policy that keeps only the outline of a payload: what belongs to the protocol.
// The outline has the same length, because text and digits are masked. Member names stay if they
// look like names. In protobuf, a path is the name of a field.
type outliner struct {
	also  []string        // paths of the protocol
	needs map[string]bool // paths of words and numbers, at any depth
	spans []span          // parts of the payload
	texts map[string]bool // texts that stay wherever they are
	above []string        // the path to the payload
	loose bool            // words and numbers stay at any path, and are noted in met
	met   map[string]bool // paths of these; nil if nobody asks

	payload []byte // of protobuf
	field   string // the latest
}

func (k *outliner) appendName(dst, token []byte) (_ []byte, name string, hidden bool) {
	if name = string(token[1 : len(token)-1]); isName(name) {
		return append(dst, token...), name, false
	}
	return append(append(append(dst, '"'), stars(token[2:])...), '"'), "*", false
}

func (k *outliner) appendValue(dst, token []byte, at int, path []string, _ bool) []byte {
	from := len(dst)
	switch dst = append(dst, token...); {
	case token[0] == '"' && k.outlineWithin(dst[from+1:len(dst)-1], path):
	case token[0] == '"' && !k.keeps(path, token[1:len(token)-1]):
		k.blot(dst[from+1:len(dst)-1], at+1)
	case token[0] != '"' && !k.keeps(path, nil) && !k.covers(at, at+len(token)):
		for i := from; i < len(dst); i++ {
			if '0' <= dst[i] && dst[i] <= '9' {
				dst[i] = '1'
			}
		}
	}
	return dst
}

// outlineWithin outlines the JSON of a string, with its escapes, of which paths of the protocol lead to
// a value. It reports whether it did.
func (k *outliner) outlineWithin(text []byte, path []string) bool {
	begin := strings.Join(namesOf(k.above, path), ".") + "."
	if !slices.ContainsFunc(k.also, func(p string) bool { return strings.HasPrefix(p, begin) }) || bytes.Contains(text, []byte(`\u`)) {
		return false
	}
	inner, ok := jsonscan.Unquote(slices.Concat([]byte{'"'}, text, []byte{'"'}))
	if !ok || !bytes.HasPrefix(inner, []byte("{")) || jsonscan.WellFormed(inner) != nil {
		return false
	}
	outline := appendJSON(nil, inner, &outliner{also: k.also, above: namesOf(k.above, path)})
	for i, at := 0, 0; at < len(text); i, at = i+1, at+1 {
		from := at
		if text[at] == '\\' {
			at++
		}
		if outline[i] != inner[i] {
			copy(text[from:at+1], []byte{outline[i], outline[i]})
		}
	}
	return true
}

// namesOf returns the names of members on a path, without lists.
func namesOf(paths ...[]string) []string {
	return slices.DeleteFunc(slices.Concat(paths...), func(name string) bool { return name == "" })
}

// Hides implements [protobuf.Editor].
func (k *outliner) Hides(name string) bool {
	k.field = name
	return false
}

// Text implements [protobuf.Editor].
func (k *outliner) Text(text []byte, _ bool) []byte {
	if k.texts[string(text)] || len(text) <= maxName && k.keeps([]string{k.field}, nil) {
		return text
	}
	out := bytes.Clone(text)
	at, _ := protocol.Offset(k.payload, text)
	k.blot(out, at)
	return out
}

// Unknown implements [protobuf.Editor].
func (k *outliner) Unknown(value []byte, _ bool) []byte { return stars(value) }

// keeps reports whether the value at a path belongs to the protocol. The text of a number is nil.
func (k *outliner) keeps(path []string, text []byte) bool {
	const deepest, deepestNeed = 5, 12
	names := namesOf(k.above, path)
	if len(names) > deepestNeed {
		return false
	}
	name := strings.Join(names, ".")
	if len(names) <= deepest && (ownValues[name] || slices.Contains(k.also, name)) {
		return true
	}
	if !isWord(text) || content.MatchString(name) {
		return false
	}
	if text == nil && counts.MatchString(name) {
		return true
	}
	if k.met != nil {
		k.met[name] = true
	}
	return k.loose || k.needs[name]
}

// counts matches the paths of numbers of tokens, and of costs; content those of what tools get.
var (
	counts  = regexp.MustCompile(`([tT]okens|TokenCount|[cC]ost(USD|_usd)?)$|\b[a-zA-Z_]*[uU]sage\.`)
	content = regexp.MustCompile(`\b(arguments|args|input|rawInput)\.`)
)

// covers reports whether a part of the payload is kept.
func (k *outliner) covers(from, to int) bool {
	return slices.ContainsFunc(k.spans, func(s span) bool { return s.start <= from && to <= s.end })
}

// blot masks a text that is at an offset of the payload, except what is kept.
func (k *outliner) blot(text []byte, at int) {
	for i := 0; i < len(text); i++ {
		// Line separators of Unicode break lines for some readers.
		if c, size := utf8.DecodeRune(text[i:]); c == '\u2028' || c == '\u2029' {
			i += size - 1
		} else if !k.covers(at+i, at+i+1) {
			text[i] = '*'
		}
	}
}

// maxName is the length of the longest member name, and of the longest word, that an outline
// keeps.
const maxName = 40

const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-$"

func isName(name string) bool {
	if joining[name] {
		return true
	}
	name = strings.TrimPrefix(name, reserved)
	return len(name) <= maxName && strings.Trim(name, nameLetters) == ""
}

// isWord reports whether a text may be a word of a protocol, such as response.completed.
func isWord(text []byte) bool {
	return len(text) <= maxName && len(bytes.Trim(text, nameLetters+"./:")) == 0
}

// outlineOfMeta returns what an outline keeps of a frame's metadata. In the address of an endpoint,
// which is the payload, it keeps a name for the session.
func (x *redactor) outlineOfMeta(r *Record) *frame.Meta {
	m := &frame.Meta{Signal: r.Meta.Signal, Opcode: r.Meta.Opcode, Code: r.Meta.Code}
	if isName(r.Meta.Event) || isWord([]byte(r.Meta.Event)) {
		m.Event = r.Meta.Event
	}
	payload := r.Payload()
	if at := sessionInQuery.FindSubmatchIndex(payload); m.Event == "endpoint" && at != nil && !r.Compressed {
		x.payload = append(append(x.payload[:at[0]], payload[at[0]:at[2]]...), pseudonym(string(payload[at[2]:at[3]]))...)
	}
	if r.Meta.EventID != "" {
		m.EventID = "*"
	}
	if m.Signal == frame.Reset {
		m.Text = r.Meta.Text // the name of its code
	}
	if h := r.Meta.Head; h != nil {
		start, query, found := strings.Cut(h.Start, "?")
		if id := sessionInQuery.FindStringSubmatch("?" + query); id != nil {
			start += "?sessionId=" + pseudonym(id[1])
		}
		if at := strings.LastIndexByte(query, ' '); found && at >= 0 {
			start += query[at:] // the version
		}
		m.Head = &frame.Head{Start: start}
		for _, f := range h.Fields {
			switch strings.ToLower(f.Name) {
			case "mcp-session-id":
				f.Value = pseudonym(f.Value)
			case ":path":
				f.Value, _, _ = strings.Cut(f.Value, "?")
			}
			if isKept(f) {
				if strings.HasPrefix(f.Value, "{") && jsonscan.WellFormed([]byte(f.Value)) == nil {
					f.Value = string(appendJSON(nil, []byte(f.Value), &outliner{also: kept[ofHeaders], above: []string{strings.ToLower(f.Name)}}))
				}
				m.Head.Fields = append(m.Head.Fields, f)
			}
		}
	}
	return m
}

// outlineOfGap returns the outline of bytes that are no frame, of the same length. If they begin or
// end a message over the limit, it keeps what an outline of the message would.
func outlineOfGap(raw []byte, framing string, keep *outliner) []byte {
	out := stars(raw)
	if framing == frame.Line.Name() {
		for i, c := range raw {
			if c == '\n' {
				out[i] = c
			}
		}
	}
	begin := max(0, bytes.IndexByte(raw, '{'))
	if text := jsonscan.Close(raw[begin:]); text != nil {
		outline := appendJSON(nil, text, keep)
		for i := 0; i < len(text) && begin+i < len(raw) && text[i] == raw[begin+i]; i++ {
			out[begin+i] = outline[i]
		}
	}
	if last := jsonscan.Last(raw); last != nil {
		outline := appendJSON(nil, slices.Concat([]byte{'{'}, last, []byte{'}'}), keep)
		copy(out[bytes.LastIndex(raw, last):], outline[1:])
	}
	return out
}

// abridged appends the outline of a payload in protocol p. Besides the values that always stay,
// it keeps those that p needs to read the same in the outline.
func (x *redactor) abridged(dst, payload []byte, p protocol.Protocol) []byte {
	edited, typed := p.(protobuf.Edited)
	isJSON := jsonscan.WellFormed(payload) == nil
	switch _, err := all.Named(p.Name()); {
	case isJSON, typed && err == nil && p.Name() != (protobuf.Schemaless{}).Name():
	case p.Encoding() == protocol.Protobuf && p.Parse(payload, &protocol.Message{}) == nil:
		return appendBlank(dst, len(payload))
	case string(payload) == done:
		return append(dst, done...)
	default:
		return append(dst, stars(payload)...)
	}
	keep := &outliner{also: kept[p.Name()], texts: map[string]bool{}, needs: map[string]bool{}, payload: payload}
	keep.read(payload, p)
	from := len(dst)
	abridge := func() {
		if dst = dst[:from]; isJSON {
			dst = appendJSON(dst, payload, keep)
		} else if out, err := edited.AppendEdited(dst, payload, keep); err == nil {
			dst = out
		} else {
			dst = append(dst, stars(payload)...)
		}
	}
	abridge()
	for _, p := range readers(p) {
		var whole, now protocol.Message
		if p.Parse(payload, &whole) != nil {
			continue
		}
		kind := p.Name() + " " + string(whole.Kind)
		n := x.needs[kind]
		if n == nil && len(x.needs) == maxNeeds {
			continue
		} else if n == nil {
			n = &need{paths: map[string]bool{}}
			x.needs[kind] = n
		}
		reads := func() bool {
			abridge()
			return p.Parse(dst[from:], &now) == nil && means(&now, &whole)
		}
		maps.Copy(keep.needs, n.paths)
		if reads() || n.tries == maxTries || len(payload) > maxTried {
			continue
		}
		n.tries++
		// Keep all words and numbers, and then those without which the outline reads differently.
		before := keep.needs
		keep.loose, keep.met = true, map[string]bool{}
		abridge()
		keep.loose, keep.needs, keep.met = false, keep.met, nil
		if len(keep.needs) <= maxPaths && p.Parse(dst[from:], &whole) == nil { // other values may matter, too, but cannot stay
			for _, path := range slices.Sorted(maps.Keys(keep.needs)) {
				if delete(keep.needs, path); !reads() {
					keep.needs[path] = true
				}
			}
			maps.Copy(n.paths, keep.needs)
		}
		keep.needs = before
		maps.Copy(keep.needs, n.paths)
		abridge()
	}
	if nested := all.Of(p).Nested; nested != nil {
		if n := nested(payload); n != nil && n.Message != nil {
			at, _ := protocol.Offset(payload, n.Message)
			copy(dst[from+at:], x.abridged(nil, n.Message, n.Protocol))
		}
	}
	return dst
}

// done ends a stream of events of a model.
const done = "[DONE]"

// appendBlank appends a message of protobuf that has a length and one field, of asterisks.
func appendBlank(dst []byte, length int) []byte {
	if length < 2 {
		return append(dst, make([]byte, length)...)
	}
	digits := 1 // of the length of the field, to the base of 128
	for rest := length - 2; rest >= 1<<(7*digits); rest-- {
		digits++
	}
	size := length - 1 - digits
	dst = append(dst, 1<<3|2)
	for i := range digits {
		digit := byte(size >> (7 * i) & 0x7f)
		if i < digits-1 {
			digit |= 0x80
		}
		dst = append(dst, digit)
	}
	return append(dst, bytes.Repeat([]byte("*"), size)...)
}

// readers returns the protocols that may read the frames of p later: plain JSON-RPC may turn out
// to be a dialect.
func readers(p protocol.Protocol) []protocol.Protocol {
	if all.Depth(p) == all.RPC {
		return append(all.Dialects(), p)
	}
	return []protocol.Protocol{p}
}

// A need is what messages of one kind need to keep: paths of words and numbers.
type need struct {
	paths map[string]bool
	tries int // how often it was looked for
}

const (
	// maxNeeds bounds the kinds, and maxTries how often their needs are looked for: in payloads
	// of up to maxTried bytes, with up to maxPaths candidates.
	maxNeeds, maxTries, maxTried, maxPaths = 256, 4, 64 << 10, 64
)

// means reports whether two messages mean the same, apart from texts for readers.
func means(a, b *protocol.Message) bool {
	x, y := *a, *b
	for _, m := range []*protocol.Message{&x, &y} {
		m.Reason, m.Arguments, m.State, m.Inputs, m.Label, m.Text, m.Faults = nil, nil, nil, nil, nil, nil, m.Faults&^(protocol.DuplicateKey|protocol.LoneSurrogate)
	}
	return reflect.DeepEqual(x, y)
}

// read keeps the parts of a payload that its message names: ids, kinds, models. Of a reason it is
// what says that the reason is a timeout.
func (k *outliner) read(payload []byte, p protocol.Protocol) {
	var m protocol.Message
	add := func(part []byte) {
		if at, ok := protocol.Offset(payload, part); ok {
			k.spans = append(k.spans, span{at, at + len(part)})
		} else if len(part) > 0 { // of the JSON form of protobuf
			k.texts[strings.Trim(string(part), `"`)] = true
		}
	}
	read := func(message []byte, p protocol.Protocol) {
		if p.Parse(message, &m) != nil {
			return
		}
		for _, token := range []protocol.Token{m.ID, m.Ref, m.Bind, m.Within, m.Gone, m.Operation.Of, m.Settles, m.Context, m.Step.ID, m.Begins, m.Queue.Of, m.Waiting.Of, m.Spent.Of} {
			add(token.Text)
		}
		for _, part := range [][]byte{m.Kind, m.Version, m.Piece.Of, m.Queue.Names, m.Queue.Own, m.Model, m.StopReason, protocol.Impatience(m.Reason)} {
			add(part)
		}
		if all.Of(p).Labels == protocol.Tools && isName(string(m.Label)) {
			add(m.Label)
		}
	}
	for _, p := range readers(p) {
		if !all.IsRPC(p) {
			read(payload, p)
			continue
		}
		for item := range protocol.Items(payload) {
			read(item, p)
		}
	}
}

// isKept reports whether an outline keeps a field of a head.
func isKept(f frame.Field) bool {
	switch strings.ToLower(f.Name) {
	case ":method", ":path", ":status", "grpc-status", "accept", "content-encoding", "content-length", "content-type", "transfer-encoding", "upgrade", "mcp-session-id", "mcp-protocol-version", "a2a-version":
		return true
	}
	return joining[strings.ToLower(f.Name)]
}

// IsOutline reports whether a head may have lost fields to an outline. The head of a whole
// request has others, such as Host.
func IsOutline(h *frame.Head) bool {
	return !slices.ContainsFunc(h.Fields, func(f frame.Field) bool { return !isKept(f) })
}

// IsOutlined reports whether a payload is an outline that has masked text.
func IsOutlined(payload []byte) bool {
	if !bytes.HasSuffix(payload, []byte("*")) && !bytes.Contains(payload, []byte(`*"`)) {
		return false
	}
	if jsonscan.WellFormed(payload) != nil {
		return len(bytes.Trim(payload, "*")) == 0
	}
	return bytes.Equal(appendJSON(nil, payload, &outliner{also: keptInAny, loose: true}), payload)
}

// sessionInQuery matches the id of an MCP session in the query of an address.
var sessionInQuery = regexp.MustCompile(`[?&](?:sessionId|session_id)=([^&# \r\n]+)`)

// pseudonym returns a text that distinguishes the id of a session from others. The id itself
// may be all that a server asks for.
func pseudonym(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:8])
}
