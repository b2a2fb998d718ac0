package context

import (
	"bytes"
	"hash/maphash"
	"slices"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/llm"
)

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
