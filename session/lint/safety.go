package lint

import (
	"bytes"
	"fmt"
	"iter"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/contract"
)

// Safeties lists the rules about what may mislead a model or its user, in the order of the document.
var Safeties = [...]session.Rule{
	{
		Name: "tag-characters", Severity: session.Error, Rule: "names and descriptions have no invisible tag characters", // Unicode 17, 23.9: only in flags of regions
		Do: "Do not use the server: people do not see this text, models read it. The severity is note in a result: look where it comes from.",
	},
	{
		Name: "bidi-override", Severity: session.Error, Rule: "names and descriptions end each bidirectional override", // UAX 9, 2.2; CVE-2021-42574
		Do: "Do not use the server: what follows is shown in another order than models read it. The severity is note in a result.",
	},
	{
		Name: "instruction-markup", Severity: session.Note, Rule: "descriptions and results have no mark-up by which prompts give instructions",
		Do: "Read the text: it may try to make the model do something. Text about such mark-up is harmless.",
	},
	{
		Name: "shadowed-tool", Severity: session.Warning, Rule: "each server of a run has its own names of tools",
		Do: "Find out which server's tool the agent calls by this name, and rename or disable the other.",
	},
	{
		Name: "token-in-url", Severity: session.Warning, Rule: "the URL of a request to an MCP server has no token", // MCP, authorization: access tokens MUST NOT be in the query; RFC 6750, 5.3
		Do: "Send it in the header Authorization: logs and proxies keep URLs.",
	},
}

// A Safety looks for what may mislead a model or its user.
type Safety struct {
	at       []int64 // the frame
	conn     int
	findings []session.Finding
	found    map[string]int             // how many, by name
	tools    map[string]map[string]tool // by name, then by the server that lists them
}

// A tool is one of a server of a run.
type tool struct {
	frame      int64
	definition string
}

const (
	maxSafety = 1000    // findings of a name that are kept
	maxTools  = 1 << 14 // tools of all servers that are compared
	maxShown  = 80      // bytes of a text that a finding shows
)

// AddFrame accepts a frame of the session, with its message if it has one. Wire is the name of its connection in a run.
func (s *Safety) AddFrame(seq int64, spec *protocol.Spec, f *frame.Frame, m *protocol.Message, payload []byte, wire string) {
	s.at, s.conn = []int64{seq}, f.Conn
	if spec.Labels != protocol.Tools {
		return
	}
	if f.Meta != nil && f.Meta.Head != nil {
		s.checkTarget(f.Meta.Head.Target())
	}
	if m.Phase != protocol.Close && m.Count == 0 && f.Dir != frame.U2C {
		return
	}
	for answer := range protocol.Items(payload) {
		result, ok := jsonscan.Get(answer, "result")
		if !ok {
			if params, ok := jsonscan.Get(answer, "params"); ok && f.Dir == frame.U2C { // such as what a user or a model is asked
				s.checkText("the message", params, session.Note)
			}
			continue
		}
		if _, ok := jsonscan.Get(result, "capabilities"); ok { // the server says what it is, to models, too
			s.checkText("the server's description", result, session.Error)
			continue
		}
		if l, items := contract.Listing(answer); l != nil {
			s.checkItems(l, items, wire)
		} else {
			s.checkText("the result", result, session.Note)
		}
	}
}

func (s *Safety) checkItems(l *contract.List, items []contract.Item, wire string) {
	for _, it := range items {
		s.checkText(l.Noun+" "+contract.Plain(it.Name), it.JSON, session.Error)
		if wire != "" && l == contract.Tools {
			s.compare(it, wire)
		}
	}
}

// compare reports a tool that another server has, too, with another definition.
func (s *Safety) compare(it contract.Item, wire string) {
	if s.tools == nil {
		s.tools = map[string]map[string]tool{}
	}
	servers := s.tools[it.Name]
	if _, again := servers[wire]; again || servers == nil && len(s.tools) >= maxTools {
		return
	}
	definition := string(jsonscan.AppendCompact(nil, it.JSON))
	for name, other := range servers {
		if other.definition != definition {
			s.finding("shadowed-tool", session.Warning, []int64{other.frame, s.at[0]}, fmt.Sprintf("tool %s of %s is a tool of %s, too, with another definition", contract.Plain(it.Name), wire, name))
			return
		}
	}
	if servers == nil {
		servers = map[string]tool{}
		s.tools[it.Name] = servers
	}
	servers[wire] = tool{s.at[0], definition}
}

// suspects are bytes of which a text of JSON has one if it may break a rule about texts.
var suspects = [][]byte{[]byte("\U000e0000")[:2], []byte("\u202a")[:2], []byte(`\u`), []byte(`\U`), []byte("<"), []byte("[INST"), []byte("[inst")}

// markupPattern is mark-up by which prompts of models and agents give instructions.
var markupPattern = regexp.MustCompile(`(?i)</?(important|system|system[-_]reminder|system[-_]prompt|instructions?|assistant|secret|hidden)>|<\|[a-z_]{2,24}\|>|\[/?inst\]|<</?sys>>`)

// checkText checks the texts and names in a value. The severity is that of what nobody sees.
func (s *Safety) checkText(what string, value []byte, severity session.Severity) {
	if !slices.ContainsFunc(suspects, func(b []byte) bool { return bytes.Contains(value, b) }) {
		return
	}
	for text := range texts(value) {
		if hidden, n := tagText(text); n > 0 {
			s.finding("tag-characters", severity, s.at, fmt.Sprintf("%s has %s: %q", what, render.Count(int64(n), "tag character"), render.Shorten(hidden, maxShown)))
		}
		if at := openOverride(text); at >= 0 {
			s.finding("bidi-override", severity, s.at, fmt.Sprintf("%s does not end the override before %q", what, render.Shorten(text[at:], maxShown)))
		}
		if found := markupPattern.FindStringIndex(text); found != nil {
			s.finding("instruction-markup", session.Note, s.at, fmt.Sprintf("%s has %q", what, render.Shorten(text[found[0]:], maxShown)))
		}
	}
}

// texts yields the strings of a value, and the names of its members.
func texts(value []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for t := range jsonscan.Tokens(value) {
			if value[t.Start] == '"' {
				if text, ok := jsonscan.Unquote(value[t.Start:t.End]); ok && !yield(string(text)) {
					return
				}
			}
		}
	}
}

const (
	firstTag, lastTag = 0xe0000, 0xe007f // the block of tags: U+E0020 to U+E007E are those of ASCII
	flag              = 0x1f3f4          // a flag with tags is that of a region
)

// regionFlag matches the flag of a region: a code of ISO 3166-2, such as gbsct, and the end.
var regionFlag = regexp.MustCompile("^\U0001f3f4[\U000e0061-\U000e007a]{2}[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,3}(\U000e007f|[^\U000e0000-\U000e007f]|$)")

// tagText returns the text that tags spell outside flags, and their number.
func tagText(text string) (hidden string, n int) {
	if !strings.Contains(text, "\U000e0000"[:2]) {
		return "", 0
	}
	var b strings.Builder
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		if r == flag {
			size = max(size, len(regionFlag.FindString(rest)))
		} else if firstTag <= r && r <= lastTag {
			n++
			if plain := r - firstTag; plain >= ' ' && plain < 0x7f {
				b.WriteRune(plain)
			}
		}
		rest = rest[size:]
	}
	return b.String(), n
}

// openOverride returns where the text begins that an override leaves in another order; -1 if each override ends.
func openOverride(text string) int {
	const lre, rle, pdf, lro, rlo = 0x202a, 0x202b, 0x202c, 0x202d, 0x202e
	const lri, rli, fsi, pdi = 0x2066, 0x2067, 0x2068, 0x2069
	const embedding, isolate = -1, -2
	var open []int // where the text of each override begins, or what else is open
	for i, r := range text {
		switch r {
		case lre, rle:
			open = append(open, embedding)
		case lro, rlo:
			open = append(open, i+utf8.RuneLen(r))
		case lri, rli, fsi:
			open = append(open, isolate)
		case pdf: // ends nothing outside of an isolate
			if n := len(open); n > 0 && open[n-1] != isolate {
				open = open[:n-1]
			}
		case pdi: // ends what is in the isolate, too
			for n := len(open) - 1; n >= 0; n-- {
				if open[n] == isolate {
					open = open[:n]
					break
				}
			}
		case '\n', '\u2029': // the end of a paragraph ends all
			if slices.Max(append(open, -1)) < 0 {
				open = nil
			}
		}
	}
	return slices.Max(append(open, -1))
}

// tokenNames are parameters of URLs that are secrets.
var tokenNames = []string{"access_token", "token", "api_key", "apikey", "api-key", "key", "secret", "client_secret", "auth", "authorization", "bearer", "id_token", "refresh_token", "password"}

// checkTarget checks the URL of a request.
func (s *Safety) checkTarget(target string) {
	_, query, _ := strings.Cut(target, "?")
	for part := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(name)
		if err != nil || value == "" || !slices.Contains(tokenNames, strings.ToLower(name)) {
			continue
		}
		s.finding("token-in-url", session.Warning, s.at, fmt.Sprintf("the URL of the request has the parameter %s", contract.Plain(name)))
	}
}

// finding keeps a finding; one about the same text of another frame is left out.
func (s *Safety) finding(name string, severity session.Severity, frames []int64, message string) {
	if s.found == nil {
		s.found = map[string]int{}
	}
	text := name + ": " + message
	if s.found[text] > 0 {
		return
	}
	if s.found[name]++; s.found[name] <= maxSafety {
		s.found[text] = 1
		s.findings = append(s.findings, session.Finding{
			Name: name, Severity: severity, Frames: frames, Conn: s.conn, Rule: "safety: " + Rules[ruleIndex(name)].Rule, Message: message,
		})
	}
}

// AddSafety adds what a safety has found.
func (s *Session) AddSafety(k *Safety) {
	s.Findings = append(s.Findings, k.findings...)
	for _, r := range Safeties {
		if n := k.found[r.Name] - maxSafety; n > 0 {
			if s.Unkept == nil {
				s.Unkept = map[string]int64{}
			}
			s.Unkept[r.Name] += int64(n)
		}
	}
	s.sortFindings()
}
