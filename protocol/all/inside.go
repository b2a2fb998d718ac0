package all

import (
	"bytes"
	"fmt"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/opaque"
)

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
	case len(messages) == 0, p == opaque.JSON && (words || len(messages) == 1):
		return nil, nil, ""
	case len(messages) > 1:
		return messages, before, fmt.Sprintf("%d messages are on one line: write a line feed after each", len(messages))
	}
	return messages, before, "a message is on one line with other text: write that to stderr, or end it with a line feed"
}

// isMessage reports whether JSON is a message that only p has.
func isMessage(p protocol.Protocol, value []byte) bool {
	var m protocol.Message
	return p.Parse(value, &m) == nil && m.Faults&protocol.UnknownKind == 0 && evidence(Of(p), value, &m).Score != protocol.NoScore
}
