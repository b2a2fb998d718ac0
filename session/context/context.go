// Package context follows what the models of a session are given: for each call of a model the system
// prompt, the tools, the messages, the results of tools and the attachments, in the order in which the
// provider reads them; what is new, what is gone, and what a cache could serve and did.
package context

import (
	"bytes"
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

// order is the order of providers: tools, system prompt, messages.
func order(b *llm.Block) int {
	switch b.Part {
	case llm.ToolPart:
		return 0
	case llm.SystemPart:
		return 1
	}
	return 2
}

func kindOf(b *llm.Block) Kind {
	switch {
	case b.Part == llm.ToolPart:
		return Tool
	case b.Kind == llm.AttachedBlock:
		return Attachment
	case b.Part == llm.SystemPart, b.Kind == llm.TextBlock && b.Role == llm.SystemRole:
		return System
	}
	switch b.Kind {
	case llm.ThoughtBlock:
		return Thought
	case llm.CallBlock:
		return ToolCall
	case llm.ResultBlock:
		return Result
	case llm.OtherBlock:
		return Other
	}
	if b.Role == llm.AssistantRole {
		return Assistant
	}
	return User
}

// size returns the bytes of a block as written: of a text alone, however it is wrapped, and without the
// mark of a cache.
func size(b *llm.Block) int64 {
	switch {
	case b.Kind == llm.TextBlock && b.Text != (llm.Span{}):
		return int64(b.Text.End - b.Text.Start)
	case hasMark(b):
		return int64(b.End-b.Start-b.Inside) - int64(b.Mark.End-b.Mark.Start) - int64(len(`,"cache_control":`))
	}
	return int64(b.End - b.Start - b.Inside)
}

// hash returns the hash of what a block means to a model. How a text is wrapped, and where the cache is
// to be written, are no part of that.
func (l *Log) hash(b *llm.Block) uint64 {
	h := l.hashMeaning(b) &^ ofSystem
	if kindOf(b) == System {
		h |= ofSystem
	}
	return h
}

// ofSystem is the bit of hashes that marks texts of the system, wherever they stand: they do not tell
// conversations apart.
const ofSystem = 1

func (l *Log) hashMeaning(b *llm.Block) uint64 {
	body := l.given.Body
	kind := byte(kindOf(b))
	if b.Kind == llm.TextBlock && b.Text != (llm.Span{}) {
		return maphash.Bytes(l.seed, b.Text.Of(body)) + 2*uint64(kind)
	}
	raw := body[b.Start:b.End]
	if !hasMark(b) {
		return maphash.Bytes(l.seed, raw) + 2*uint64(kind)
	}
	before, after := withoutMark(raw, int(b.Mark.Start-b.Start), int(b.Mark.End-b.Start))
	var h maphash.Hash
	h.SetSeed(l.seed)
	_, _ = h.Write(before)
	_, _ = h.Write(after)
	return h.Sum64() + 2*uint64(kind)
}

// hasMark reports whether a block has a mark of its own, and not only its message.
func hasMark(b *llm.Block) bool { return b.Mark.Start > b.Start && b.Mark.End <= b.End }

// withoutMark returns an object before and after a member cache_control, whose value is at a place.
func withoutMark(raw []byte, start, end int) (before, after []byte) {
	at := bytes.LastIndexByte(raw[:max(0, bytes.LastIndexByte(raw[:start], ':'))], '"')
	at = bytes.LastIndexByte(raw[:max(0, at)], '"')
	before, after = bytes.TrimRight(raw[:max(0, at)], " \t\r\n"), raw[end:]
	if rest, ok := bytes.CutSuffix(before, []byte{','}); ok {
		return rest, after
	}
	after = bytes.TrimLeft(after, " \t\r\n,")
	return before, after
}

// before returns the earlier call that c goes on from; nil if there is none.
func (l *Log) before(c *Call) (best *Call) {
	var most, shared, missing int64
	mine := l.hashes[c.Front:]
	for _, o := range slices.Backward(l.recent) {
		if o.to != c.to || o.Agent != c.Agent || o.Own != c.Own || o.Told {
			continue
		}
		if id := l.given.Previous; id != "" && o.ID == id {
			return o
		}
		size, all := l.common(o.sent(), mine, c.Front)
		if size == 0 || size < most {
			continue
		}
		if all && !o.isLeft() && o.Held == 0 {
			return o
		}
		both, lost := size, int64(0)
		if !all {
			if !o.done { // both are asked at the same time
				continue
			}
			both, lost = l.overlap(o, mine, c.Front)
		}
		switch {
		case size > most, both > shared, both == shared && best.isLeft() && !o.isLeft():
		case both == shared && best.isLeft() == o.isLeft() && lost < missing:
		default:
			continue
		}
		best, most, shared, missing = o, size, both, lost
	}
	if best != nil || l.given.Held {
		return best
	}
	// The beginning may have been replaced: by a summary, or because the oldest messages were dropped.
	for _, o := range slices.Backward(l.recent) {
		if o.to != c.to || o.Agent != c.Agent || o.Own != c.Own || o.Told || o.isLeft() || !o.done {
			continue
		}
		both, _ := l.overlap(o, mine, c.Front)
		tools, known := o.Sums[Tool], c.Agent != "" || c.session != "" && c.session == o.session
		switch {
		case both >= leastShared,
			known && tools.Count > 0 && tools == c.Sums[Tool] && o.Turn > 1 && o.messageBytes > 2*c.messageBytes:
			return o
		}
	}
	return nil
}

// leastShared is how many bytes of messages two requests of one conversation share, whose beginnings
// differ.
const leastShared = 256

// sent returns the hashes of the messages of a request.
func (c *Call) sent() []uint64 { return c.hashes[c.Front+c.Held:] }

// common returns the bytes of the messages at the beginning that are equal, apart from those of the system,
// and whether those are all messages of the other.
func (l *Log) common(theirs, mine []uint64, front int) (size int64, all bool) {
	n, m := 0, 0
	for {
		for n < len(theirs) && theirs[n]&ofSystem != 0 {
			n++
		}
		for m < len(mine) && mine[m]&ofSystem != 0 {
			m++
		}
		if n == len(theirs) || m == len(mine) || theirs[n] != mine[m] {
			return size, n == len(theirs)
		}
		block := &l.given.Blocks[front+m]
		size += int64(block.End - block.Start)
		n, m = n+1, m+1
	}
}

// overlap returns the bytes of messages that both have, not of the system, in any order, and the number of
// those that only the other has.
func (l *Log) overlap(o *Call, mine []uint64, front int) (both, lost int64) {
	theirs := map[uint64]bool{}
	for _, h := range o.sent() {
		theirs[h] = h&ofSystem == 0
	}
	for i, h := range mine {
		if theirs[h] {
			block := &l.given.Blocks[front+i]
			both += int64(block.End - block.Start)
		}
		delete(theirs, h)
	}
	return both, int64(len(theirs))
}

// isLeft reports whether another call has gone on from here, and was not refused.
func (c *Call) isLeft() bool {
	return c.heir != nil && !(c.heir.done && c.heir.Input == 0 && c.heir.ID == "")
}

// place puts a call into a conversation.
func (l *Log) place(c, before *Call) {
	l.numbers++
	c.Number = l.numbers
	switch {
	case before == nil:
		l.conversations++
		c.Conversation, c.Turn = l.conversations, 1
		return
	case before.isLeft():
		l.conversations++
		c.Conversation, c.Branch = l.conversations, true
	default:
		c.Conversation = before.Conversation
	}
	before.heir = c
	before.heirs++
	c.Turn, c.Previous, c.Since = before.Turn+1, before.Number, before.Frame
}

// fill sets the items, and compares them with those of the call before.
func (l *Log) fill(c, before *Call) {
	blocks := l.given.Blocks
	hashes := slices.Clone(l.hashes[:c.Front])
	isShared := before != nil && before.heirs > 1
	var held []*Item
	switch {
	case !l.given.Held || !l.Keep:
	case before != nil && before.ID == l.given.Previous && !before.Omitted:
		held = before.Items[before.Front:]
		if before.output != nil {
			held = append(slices.Clip(held), before.output)
		}
	default:
		held = []*Item{{Kind: History, Turn: c.Turn, Frame: c.Frame, hash: 1}}
	}
	c.Held = len(held)
	for _, i := range held {
		hashes = append(hashes, i.hash)
		c.Sums[i.Kind].addBytes(i.Bytes)
	}
	hashes = append(hashes, l.hashes[c.Front:]...)
	same := 0
	if before != nil {
		for same < min(len(hashes), len(before.hashes)) && hashes[same] == before.hashes[same] {
			same++
		}
		if same == len(before.hashes) { // share what both have, if no other call has gone on from there
			hashes = append(clipIf(isShared, before.hashes), hashes[same:]...)
		}
	}
	c.hashes = hashes
	c.Omitted = !l.Keep || l.items >= maxItems || before != nil && before.Omitted && c.Held > 0
	if !c.Omitted {
		reuse := before != nil && !before.Omitted
		switch {
		case reuse && same == len(before.Items):
			c.Items = clipIf(isShared, before.Items)
		case reuse:
			c.Items = append(make([]*Item, 0, len(hashes)+len(hashes)/4), before.Items[:same]...)
			l.items += same
		default:
			same = 0
		}
		for n := len(c.Items); n < len(hashes); n++ {
			switch i := n; {
			case i < c.Front:
				c.Items = append(c.Items, l.item(c, hashes[n], &blocks[i]))
			case i < c.Front+c.Held:
				c.Items = append(c.Items, held[i-c.Front])
			default:
				c.Items = append(c.Items, l.item(c, hashes[n], &blocks[i-c.Held]))
			}
			l.items++
		}
	}
	if before != nil {
		l.compare(c, before, same)
	}
}

func clipIf[T any](isShared bool, list []T) []T {
	if isShared {
		return slices.Clip(list)
	}
	return list
}

// item returns the item of a block, which may have been in the conversation before.
func (l *Log) item(c *Call, hash uint64, b *llm.Block) *Item {
	key := hash ^ uint64(c.Conversation)*0x9e3779b97f4a7c15
	if i := l.known[key]; i != nil && i.hash == hash {
		return i
	}
	body := l.given.Body
	i := &Item{Kind: kindOf(b), Bytes: size(b), Turn: c.Turn, Frame: c.Frame, hash: hash}
	raw := body[b.Start:b.End]
	switch i.Kind {
	case Tool:
		i.Name = l.word(llm.ToolName(raw))
	case ToolCall, Result, Attachment, Other:
		name, id := b.Of(body)
		i.Name = l.word(name)
		if i.Kind == ToolCall {
			i.Path = l.show([]byte(llm.PathOf(raw)))
			if id != "" && len(l.made) < maxItems {
				l.made[id] = i
			}
		} else if of := l.made[id]; id != "" && of != nil && i.Kind == Result {
			i.Name, i.Path = of.Name, of.Path
		}
	default:
		if b.Text != (llm.Span{}) {
			text, _ := jsonscan.Unquote(head(b.Text.Of(body)))
			i.Head = l.show(text)
		}
	}
	if len(l.known) >= maxItems {
		clear(l.known)
	}
	l.known[key] = i
	return i
}

// head returns the beginning of a string token as a token.
func head(token []byte) []byte {
	const most = maskSize
	if len(token) <= most {
		return token
	}
	cut := token[:most]
	for n := len(cut) - 1; n > most-8; n-- { // not within an escape or a character
		if cut[n] == '\\' || cut[n] >= 0x80 {
			cut = cut[:n]
		}
	}
	return append(slices.Clip(cut), '"')
}

// show returns the beginning of a text on one line, without secrets.
func (l *Log) show(text []byte) string {
	if l.Mask != nil && len(text) > 0 {
		text = []byte(l.Mask(string(render.Clip(text, maskSize))))
	}
	return render.Shorten(string(bytes.Join(bytes.Fields(render.Clip(text, 4*headSize)), []byte{' '})), headSize)
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
