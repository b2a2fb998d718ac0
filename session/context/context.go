// Package context follows what the models of a session are given: for each call of a model the system
// prompt, the tools, the messages, the results of tools and the attachments, in the order in which the
// provider reads them; what is new, what is gone, and what a cache could serve and did.
package context

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
)

// A Kind is what an item is.
type Kind uint8

const (
	Tool Kind = iota
	System
	User
	Assistant
	Thought
	ToolCall
	Result
	Attachment
	Other
	History // what the provider holds, and no request here has
	NumKinds
)

var kindNames = [NumKinds]string{"tool", "system", "user", "assistant", "thought", "call", "result", "attachment", "other", "history"}

func (k Kind) String() string { return kindNames[k] }

// Kinds returns the names of all kinds, in their order.
func Kinds() []string { return kindNames[:] }

// An Item is a part of a context: a tool, a text, a call, a result, an attachment. It is immutable, and
// shared by the calls that have it.
type Item struct {
	Kind  Kind
	Bytes int64  // as written
	Name  string // of the tool, or the type of an attachment
	Path  string // what the tool was called with: a file, an address, a command
	Head  string // the beginning of a text
	Turn  int    // the turn of the conversation in which it came first, and
	Frame int64  // the frame of that call

	hash uint64
}

// A Call is a call of a model with its context. Everything but the answer is immutable.
type Call struct {
	Number       int // from 1, in the session
	Conversation int // from 1
	Turn         int // from 1, in the conversation
	Frame        int64
	Time         time.Time
	Model        string
	Agent, Type  string // of a sub-agent: its id, and its kind
	Own          string // what an agent asks for itself: a title
	Told         bool   // by a transcript, which lacks the system prompt, the tools and the bytes
	Items        []*Item
	Sums         [NumKinds]Share
	Tools        []ToolShare // the first 256
	Messages     int64       // that were sent
	Front        int         // the items before the messages
	Held         int         // the items after those that the provider holds: they were not sent again
	Omitted      bool        // the items are not kept: there are too many in the session

	Previous int   // the number of the previous call of the conversation; 0 if there is none
	Since    int64 // its frame
	Branch   bool  // another call has gone on from that one, too
	Equal    bool  // both have the same context
	Same     int   // the items at the beginning of both
	SameSize int64 // their bytes
	Added    Share // messages after those that both share at their beginning
	New      Share // items that the previous call did not have, and
	Dropped  Share // those that only it had
	// Compacted is why much is missing that was there before: in the words of a transcript, or "dropped";
	// "" if it is not.
	Compacted string
	Changes   []Change // what differs from the previous call before its end, in the order of the provider

	Answer

	hashes       []uint64
	body         []byte      // of the newest calls
	spans        []llm.Block // of the items that were sent, in their order, in the body
	settings     []setting
	to, session  string
	least, most  time.Duration // how long the provider keeps its cache; 0 if unknown
	heir         *Call         // that goes on from here, the newest; nil if there is none
	heirs        int
	done         bool // the answer has ended
	messageBytes int64
	output       *Item // the answer, in a conversation that the provider holds
}

// An Answer is what is known of the answer.
type Answer struct {
	ID                             string
	Input, Cached, Written, Output int64  // tokens; Input includes Cached and Written
	CacheTold                      bool   // it says how much was cached
	Implied                        bool   // by a provider that caches without being asked
	Missed                         string // why the provider found less in its cache than before, in its words
	Last                           time.Time
}

// A Share is a number of items and their bytes.
type Share struct {
	Count int64 `json:"count"`
	Bytes int64 `json:"bytes"`
}

func (s *Share) addBytes(n int64) {
	s.Count++
	s.Bytes += n
}

// A ToolShare is a tool offered to a model.
type ToolShare struct {
	Name  string
	Bytes int64
}

// A Change is an item or a setting that differs from the previous call.
type Change struct {
	Kind   string `json:"kind"`            // setting, or the name of a kind
	Name   string `json:"name,omitempty"`  // of the setting or the tool
	Place  int    `json:"place,omitempty"` // of the item among those of its part, from 1
	How    string `json:"how"`             // in a line
	at     int    // the items of the previous call before it
	before int64  // their bytes
}

// Bytes returns the bytes of the context.
func (c *Call) Bytes() (n int64) {
	for _, s := range c.Sums {
		n += s.Bytes
	}
	return n
}

const (
	maxRecent   = 64       // calls that a new one may go on from
	maxItems    = 1 << 17  // of a session, with the places of shared ones that are listed again
	maxCalls    = 1 << 16  // that are kept
	maxBodies   = 24 << 20 // bytes of requests that are kept to show what has changed
	maxTools    = 256
	maxText     = 256 // bytes of names
	headSize    = 72
	maskSize    = 1 << 10 // of a text in which secrets are masked before less of it is shown
	shownChange = 48      // bytes of a text that has changed
)

// A Log follows the calls of a session. The zero value is empty.
type Log struct {
	// Keep keeps all calls; otherwise only those that new ones are compared with.
	Keep bool
	// Mask, if not nil, masks secrets in texts that are shown.
	Mask func(string) string

	mu            sync.Mutex
	seed          maphash.Seed
	calls         []*Call
	recent        []*Call // the newest last
	numbers       int     // of calls
	conversations int
	dropped       int // calls that are no longer kept
	items         int
	known         map[uint64]*Item  // by hash and conversation
	made          map[string]*Item  // calls of tools by their ids
	named         map[string]string // texts that repeat
	told          map[int]*told
	given         llm.Given
	hashes        []uint64
	bodies        int
}

// A Request is a request to a model.
type Request struct {
	Frame int64
	Time  time.Time
	To    string // address and path
	Model string // unless the body names it
	Body  []byte
	Spec  *protocol.Spec
	Head  *frame.Head
	Offer func(tool []byte) // gets each tool as written; may be nil
	// IsTitle reports whether a system prompt asks for the title of a session.
	IsTitle func(system []byte) bool
}

// Request adds a request. It returns nil if no part of the body is given to a model.
func (l *Log) Request(r *Request) *Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.init()
	g := &l.given
	g.Read(r.Body)
	if len(g.Blocks) == 0 {
		return nil
	}
	slices.SortStableFunc(g.Blocks, func(a, b llm.Block) int { return order(&a) - order(&b) })
	c := &Call{Frame: r.Frame, Time: r.Time, Model: l.word(cmp.Or(g.Model, r.Model)), to: r.To, session: g.Session}
	l.link(c, r)
	l.hashes = l.hashes[:0]
	last := int32(-1)
	for i := range g.Blocks {
		b := &g.Blocks[i]
		l.hashes = append(l.hashes, l.hash(b))
		k := kindOf(b)
		n := size(b)
		c.Sums[k].addBytes(n)
		switch {
		case b.Part != llm.MessagePart:
			if c.Front++; k == Tool {
				raw := r.Body[b.Start:b.End]
				if len(c.Tools) < maxTools {
					c.Tools = append(c.Tools, ToolShare{l.word(llm.ToolName(raw)), n})
				}
				if r.Offer != nil {
					r.Offer(raw)
				}
			} else if r.IsTitle(r.Body[b.Start:b.End]) {
				c.Own = l.word("title")
			}
		default:
			if c.messageBytes += n; b.Role != llm.SystemRole && b.Message != last {
				c.Messages, last = c.Messages+1, b.Message
			}
		}
	}
	for _, s := range g.Settings {
		if matters(s) {
			c.settings = append(c.settings, setting{s.Name, render.Shorten(string(s.Value), maxText), maphash.Bytes(l.seed, s.Value)})
		}
	}
	c.setLifetime(g)
	before := l.before(c)
	l.place(c, before)
	l.fill(c, before)
	if before != nil && slices.Equal(c.Tools, before.Tools) {
		c.Tools = before.Tools // so that they are stored once
	}
	l.keep(c, before)
	return c
}

func (l *Log) init() {
	if l.known == nil {
		l.seed, l.known, l.made, l.named, l.told = maphash.MakeSeed(), map[uint64]*Item{}, map[string]*Item{}, map[string]string{}, map[int]*told{}
	}
}

// link notes which agent of several sends a request.
func (l *Log) link(c *Call, r *Request) {
	if r.Spec == nil {
		return
	}
	var metadata []byte
	for _, s := range l.given.Metadata {
		metadata = append(append(jsonscan.AppendQuote(append(metadata, ','), []byte(s.Name)), ':'), s.Value...)
		if s.Name == "metadata" && c.session == "" {
			user, _ := jsonscan.Get(s.Value, "user_id")
			c.session = string(render.Clip(user, 4*maxText))
		}
	}
	if metadata != nil {
		metadata[0] = '{'
		metadata = append(metadata, '}')
	}
	for _, link := range r.Spec.AppendLinks(nil, r.Head, metadata) {
		switch link.As {
		case protocol.OfAgent:
			c.Agent = l.word(link.Text)
		case protocol.OfAgentType:
			c.Type = l.word(link.Text)
		case protocol.ForItself:
			c.Own = l.word(link.Text)
		}
	}
}

// word returns a short text, stored once.
func (l *Log) word(text string) string {
	text = render.Clip(text, maxText)
	if w, ok := l.named[text]; ok {
		return w
	}
	if len(l.named) >= maxItems {
		clear(l.named)
	}
	l.named[text] = text
	return text
}

// keep keeps a call for those that go on from it.
func (l *Log) keep(c, before *Call) {
	if len(l.recent) == maxRecent {
		l.forgetBody(l.recent[0])
		l.recent = append(l.recent[:0], l.recent[1:]...)
	}
	l.recent = append(l.recent, c)
	if !l.Keep {
		return
	}
	if len(l.given.Body) <= maxBodies {
		if before != nil { // nothing else goes on from it, usually
			c.body, c.spans = before.body[:0], before.spans[:0]
			l.forgetBody(before)
		}
		c.body = append(c.body, l.given.Body...)
		c.spans = append(c.spans, l.given.Blocks...)
		l.bodies += len(c.body)
	}
	for _, o := range l.recent {
		if l.bodies > maxBodies && o != c {
			l.forgetBody(o)
		}
	}
	l.keepCall(c)
}

func (l *Log) keepCall(c *Call) {
	if len(l.calls) == maxCalls {
		l.dropped += maxCalls / 2
		l.calls = append(l.calls[:0], l.calls[maxCalls/2:]...)
	}
	l.calls = append(l.calls, c)
}

func (l *Log) forgetBody(c *Call) {
	l.bodies -= len(c.body)
	c.body, c.spans = nil, nil
}

// Ended notes that the answer has ended, however.
func (l *Log) Ended(c *Call, at time.Time) {
	if c != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		c.Last, c.done = at, true
	}
}

// Answered adds what an answer, or an event of one, tells: the usage of the whole answer so far, and its
// end.
func (l *Log) Answered(c *Call, at time.Time, payload []byte, used protocol.Usage) {
	if c == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.Last = at
	c.Input, c.Cached, c.Written, c.Output = used.Input, used.Cached, used.Written, used.Output
	var cached llm.Cached
	cached.ReadCached(payload)
	c.CacheTold, c.Implied = c.CacheTold || cached.Told, c.Implied || cached.Implied
	if cached.ID != "" {
		c.ID = cached.ID
	}
	if cached.Missed != "" {
		c.Missed = l.word(cached.Missed)
	}
	if cached.Output > 0 {
		c.output = &Item{Kind: Assistant, Bytes: cached.Output, Turn: c.Turn + 1, Frame: c.Frame, Head: "the answer", hash: maphash.String(l.seed, c.ID)}
	}
}

// Calls returns the calls that are kept, in their order, and how many before them are not.
func (l *Log) Calls() (calls []*Call, dropped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		now := *c
		calls = append(calls, &now)
	}
	return calls, l.dropped
}
