package context

import (
	"hash/maphash"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
)

// told is a conversation of which a transcript tells: the items so far.
type told struct {
	items     []*Item
	sums      [NumKinds]Share
	last      *Call
	kind      string // of a sub-agent
	compacted string // since the last call
	number    int
}

// Told adds a message of a transcript. The conversation of an agent has a connection of its own. Prompts,
// calls and results become items. An answer that begins makes a call of the model.
func (l *Log) Told(frame int64, at time.Time, conn int, m *protocol.Message) {
	if !l.Keep {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.init()
	t := l.told[conn]
	if t == nil {
		t = &told{}
		l.told[conn] = t
	}
	if len(t.items) == 0 {
		t.items = append(t.items, &Item{Kind: History, Head: "system prompt and tools, which a transcript lacks", Turn: 1, Frame: frame})
		t.sums[History].Count++
	}
	switch string(m.Kind) {
	case "prompt":
		if len(m.Label) > 0 {
			t.kind = l.word(string(m.Label))
		}
		l.tellItem(t, frame, &Item{Kind: User, Head: l.plain(m.Text)}, m.Text)
	case "call":
		i := &Item{Kind: ToolCall, Name: l.word(string(m.Label)), Path: l.show([]byte(llm.PathIn(m.Text)))}
		if len(l.made) < maxItems {
			l.made[string(m.ID.Text)] = i
		}
		l.tellItem(t, frame, i, m.Text)
	case "result":
		i := &Item{Kind: Result}
		if of := l.made[string(m.ID.Text)]; of != nil {
			i.Name, i.Path = of.Name, of.Path
		}
		l.tellItem(t, frame, i, m.Text)
	case "compaction":
		t.compacted = l.word(string(m.Text))
		kept := &Item{Kind: History, Head: "what the compaction has kept, which a transcript lacks", Turn: t.turn(), Frame: frame}
		t.items = append(make([]*Item, 0, 16), t.items[0], kept)
		t.sums = [NumKinds]Share{History: {Count: 2}}
	case "answer":
		if m.Count > 0 || t.last == nil && m.Usage != (protocol.Usage{}) {
			l.tellCall(t, frame, at)
		}
		if c := t.last; c != nil {
			c.Input, c.Cached, c.Written, c.Output = c.Input+m.Usage.Input, c.Cached+m.Usage.Cached, c.Written+m.Usage.Written, c.Output+m.Usage.Output
			if m.Usage.Written > m.Usage.Kept {
				c.least, c.most = 5*time.Minute, 5*time.Minute
			}
			c.CacheTold, c.Last = c.Cached+c.Written > 0, at
			if len(m.Model) > 0 {
				c.Model = l.word(string(m.Model))
			}
		}
		if len(m.Text) > 0 {
			l.tellItem(t, frame, &Item{Kind: Assistant, Head: l.plain(m.Text)}, m.Text)
		}
	}
}

func (t *told) turn() int {
	if t.last == nil {
		return 1
	}
	return t.last.Turn + 1
}

// tellItem adds an item.
func (l *Log) tellItem(t *told, frame int64, i *Item, text []byte) {
	if l.items >= maxItems {
		return
	}
	l.items++
	i.Bytes, i.Turn, i.Frame = int64(len(text)), t.turn(), frame
	i.hash = maphash.Bytes(l.seed, text) + uint64(l.items)
	t.items = append(t.items, i)
	t.sums[i.Kind].addBytes(i.Bytes)
}

// plain returns the beginning of a text, which is a string or a list of blocks.
func (l *Log) plain(text []byte) string {
	if jsonscan.KindOf(text) == jsonscan.Array {
		for _, block := range llm.Elements(text) {
			if raw, ok := jsonscan.Get(block, "text"); ok {
				text = raw
				break
			}
		}
	}
	plain, _ := jsonscan.Unquote(head(text))
	return l.show(plain)
}

// tellCall makes a call of what is there. Tool calls at the end belong to its answer: some programs write
// them before they tell of the answer.
func (l *Log) tellCall(t *told, frame int64, at time.Time) {
	n := len(t.items)
	sums := t.sums
	for n > 1 && t.items[n-1].Kind == ToolCall {
		n--
		sums[ToolCall].Count--
		sums[ToolCall].Bytes -= t.items[n].Bytes
	}
	if t.number == 0 { // without a call it is none: the driver's side of one on a wire
		l.conversations++
		t.number = l.conversations
	}
	l.numbers++
	c := &Call{
		Number: l.numbers, Conversation: t.number, Turn: t.turn(), Frame: frame, Time: at, Told: true, Type: t.kind,
		Items: t.items[:n:n], Sums: sums, Compacted: strings.TrimSpace(t.compacted), most: time.Hour,
	}
	if p := t.last; p != nil {
		c.Previous, c.Since = p.Number, p.Frame
		switch {
		case c.Compacted != "":
			c.Same, c.Dropped = 1, Share{int64(len(p.Items) - 1), p.Bytes()}
			c.New = Share{int64(n - 1), c.Bytes()}
		default:
			c.Same, c.SameSize = min(n, len(p.Items)), p.Bytes()
			for _, i := range c.Items[c.Same:] {
				c.New.addBytes(i.Bytes)
			}
		}
	}
	t.last, t.compacted = c, ""
	l.keepCall(c)
}
