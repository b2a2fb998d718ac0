package session

import (
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/wirectl/wirectl/llm"
)

// A Prompt is the input of a model in a request, split into parts. Bytes count the JSON as
// written.
type Prompt struct {
	System, Tools, Messages, Attachments Share
	// Each holds the first 256 tools.
	Each []ToolShare
	// Previous is the frame number of the previous request in the same conversation; 0 if
	// there is none. Same is the number of equal bytes at the beginning of both, in the
	// order tools, system, messages: those that a cache can serve. Added are the messages
	// after the common ones.
	Previous, Same int64
	Added          Share
}

// A Share is a part of a prompt: the number of its items, and their bytes.
type Share struct{ Count, Bytes int64 }

// A ToolShare is a tool offered to a model.
type ToolShare struct {
	Name  string
	Bytes int64
}

// Bytes returns the bytes of all parts.
func (p *Prompt) Bytes() int64 {
	return p.System.Bytes + p.Tools.Bytes + p.Messages.Bytes + p.Attachments.Bytes
}

func (s *Share) addBytes(bytes int) {
	s.Count++
	s.Bytes += int64(bytes)
}

const (
	maxPromptTools    = 256
	maxPromptSegments = 4096
	maxConversations  = 64
)

// Conversations holds the latest requests to models, for comparison with the next one. The zero
// value is empty.
type Conversations struct {
	seed   maphash.Seed
	recent []*promptSeen // the newest last
	each   []ToolShare   // of the last request
}

// promptSeen is the remembered part of a request.
type promptSeen struct {
	seq      int64
	to       uint64
	tools    []segment
	system   []segment
	messages []segment
}

// A segment is a tool, a part of the system prompt, or a message.
type segment struct {
	hash  uint64
	bytes uint32
}

// Prompt splits the body of a request into its parts, and compares it with earlier ones to the
// same address. It calls offer, unless nil, with each tool as written. It returns nil if no
// part of the body is input for a model.
func (c *Conversations) Prompt(seq int64, to string, body []byte, offer func(tool []byte)) *Prompt {
	if c.recent == nil {
		c.seed = maphash.MakeSeed()
	}
	w := promptWalk{seed: c.seed, offer: offer, seen: promptSeen{seq: seq, to: maphash.String(c.seed, to)}}
	w.read(body)
	if w.Bytes() == 0 {
		return nil
	}
	if before := c.before(&w.seen); before != nil {
		w.compare(before)
	}
	if slices.Equal(w.Each, c.each) {
		w.Each = c.each // so that it is stored once
	}
	c.each = w.Each
	if len(c.recent) == maxConversations {
		c.recent = append(c.recent[:0], c.recent[1:]...)
	}
	c.recent = append(c.recent, &w.seen)
	return &w.Prompt
}

// before returns the earlier request that shares the most messages with p, the newest if
// several do; nil if none does.
func (c *Conversations) before(p *promptSeen) (best *promptSeen) {
	most := 0
	for _, o := range slices.Backward(c.recent) {
		if o.to != p.to {
			continue
		}
		if n := common(o.messages, p.messages); n > most {
			best, most = o, n
		}
	}
	return best
}

// common returns how many leading segments are equal.
func common(a, b []segment) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// promptWalk reads a body.
type promptWalk struct {
	Prompt
	seed  maphash.Seed
	offer func([]byte)
	seen  promptSeen
}

// compare sets the fields that compare with an earlier request.
func (w *promptWalk) compare(before *promptSeen) {
	w.Previous = before.seq
	for _, part := range [][2][]segment{{before.tools, w.seen.tools}, {before.system, w.seen.system}, {before.messages, w.seen.messages}} {
		n := common(part[0], part[1])
		for _, s := range part[1][:n] {
			w.Same += int64(s.bytes)
		}
		if n < len(part[0]) || n < len(part[1]) {
			break
		}
	}
	for _, s := range w.seen.messages[common(before.messages, w.seen.messages):] {
		w.Added.addBytes(int(s.bytes))
	}
}

// read walks a body.
func (w *promptWalk) read(body []byte) {
	for part, raw := range llm.Prompt(body) {
		switch part {
		case llm.SystemPart:
			w.System.addBytes(len(raw))
			w.seen.system = w.note(w.seen.system, raw)
		case llm.ToolPart:
			w.addTool(raw)
		case llm.MessagePart:
			attached := 0
			for one := range llm.Attachments(raw) {
				w.Attachments.addBytes(len(one))
				attached += len(one)
			}
			w.Messages.addBytes(len(raw) - attached)
			w.seen.messages = w.note(w.seen.messages, raw)
		}
	}
}

func (w *promptWalk) note(list []segment, raw []byte) []segment {
	if len(list) == maxPromptSegments {
		last := &list[len(list)-1] // covers all later segments, so that a new one is noticed
		var h maphash.Hash
		h.SetSeed(w.seed)
		_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, last.hash))
		_, _ = h.Write(raw)
		last.hash, last.bytes = h.Sum64(), last.bytes+uint32(len(raw))
		return list
	}
	return append(list, segment{maphash.Bytes(w.seed, raw), uint32(len(raw))})
}

func (w *promptWalk) addTool(raw []byte) {
	w.Tools.addBytes(len(raw))
	w.seen.tools = w.note(w.seen.tools, raw)
	if len(w.Each) < maxPromptTools {
		w.Each = append(w.Each, ToolShare{ToolName(raw), int64(len(raw))})
	}
	if w.offer != nil {
		w.offer(raw)
	}
}

// ToolName returns the name of a tool offered to a model. If it has no name, ToolName returns
// its type, or "".
func ToolName(tool []byte) string { return string(clip([]byte(llm.ToolName(tool)), maxText)) }
