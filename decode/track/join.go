package track

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
)

// maxReturned bounds the tool results of a request that are joined: the newest, which come last.
const maxReturned = 64

// linksOf returns what a message has in common with other wires: a request, or what the answer to a prompt
// tells of its turn.
func (f *Follower) linksOf(it *decode.Item) []protocol.Link {
	m := &it.Message
	switch {
	case m.Phase == protocol.Open:
		return f.links(it, nil)
	case !f.trackers.Joins || all.Of(it.Protocol).Prompts == nil:
	case m.Phase == protocol.Part && m.Step.Does == protocol.Open && jsonscan.KindOf(m.Step.ID.Text) == jsonscan.String:
		return linked(protocol.Reports, m.Step.ID.Text)
	case m.Phase == protocol.Close && m.Bind.Space == protocol.SpaceTurn && len(m.Bind.Text) > 0:
		return linked(protocol.OfTurn, m.Bind.Text)
	}
	return nil
}

func linked(as protocol.Linked, id []byte) []protocol.Link {
	text, _ := jsonscan.Unquote(id)
	return []protocol.Link{{As: as, Text: string(text)}}
}

// links returns what a request has in common with other wires. The head may be that of its frame; in
// HTTP/2 and over WebSocket, it came before.
func (f *Follower) links(it *decode.Item, head *frame.Head) []protocol.Link {
	if !f.trackers.Joins {
		return nil
	}
	if e := f.web.of(it.Frame); head == nil && e != nil {
		head = e.head
	}
	spec := all.Of(it.Protocol)
	links := spec.AppendLinks(nil, head, it.Payload)
	isModel := spec.API != nil || spec.Live != protocol.NotLive
	if text := it.Message.Text; len(text) > 0 && (isModel || slices.Contains(spec.Prompts, string(it.Message.Kind))) {
		if text[0] != '"' {
			text = fmt.Appendf(nil, `"%s"`, text)
		}
		links = append(links, protocol.Link{As: protocol.Asks, Arguments: protocol.HashOfArguments(text)})
	}
	if !isModel {
		return links
	}
	if asksForTitle(it.Payload) {
		links = append(links, protocol.Link{As: protocol.ForItself, Text: "title"})
	}
	var returned []protocol.Link
	prompts := false
	for part, message := range llm.Prompt(it.Payload) {
		if part != llm.MessagePart {
			continue
		}
		before, says := len(returned), llm.EndsInWords(message)
		for r := range llm.ToolResults(message) {
			returned = append(returned, protocol.Link{As: protocol.Returns, Text: r.ID, Tool: r.Name, Ended: ended[string(r.Failed)]})
			if agent := spawned(spec.SpawnedBy, r.Content); agent != "" {
				returned = append(returned, protocol.Link{As: protocol.Spawned, Text: agent, Of: r.ID})
			}
		}
		prompts = says || prompts && len(returned) == before
	}
	if prompts && len(returned) > 0 {
		returned = append(returned, protocol.Link{As: protocol.Prompts})
	}
	return append(links, returned[max(0, len(returned)-maxReturned):]...)
}

// ended is how a tool call ended, by what its result says.
var ended = map[string]protocol.Phase{"false": protocol.Close, "true": protocol.Fail}

// titles are how agents begin what they say to a model that is to name a session: those of Claude Code
// 2.1.330 and opencode 1.18.
var titles = [...]string{`"You are naming a coding session`, `"You are a title generator.`}

// asksForTitle reports whether a text of the system prompt asks for the name of a session.
func asksForTitle(body []byte) bool {
	if !isTitle(body) {
		return false
	}
	for part, system := range llm.Prompt(body) {
		if part == llm.SystemPart && isTitle(system) {
			return true
		}
	}
	return false
}

// isTitle reports whether a text asks for the name of a session.
func isTitle(text []byte) bool {
	return slices.ContainsFunc(titles[:], func(title string) bool { return bytes.Contains(text, []byte(title)) })
}

var agentName = regexp.MustCompile(`^[\w-]{4,64}\b`)

// spawned returns the name of the agent that a tool call has started, which its result tells after a text.
func spawned(after string, result []byte) string {
	if _, rest, ok := bytes.Cut(result, []byte(after)); ok && after != "" {
		return string(agentName.Find(rest))
	}
	return ""
}

// maxWires bounds the connections whose names are kept.
const maxWires = 1 << 14

// name keeps the name of a connection or a session.
func (ts *Trackers) name(wire [2]int, name string) {
	if ts.Wires == nil {
		ts.Wires = map[[2]int]string{}
	}
	if len(ts.Wires) < maxWires {
		ts.Wires[wire] = name
	}
}
