package openai

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// Backends count the tokens of a stream only if they are asked to. So they are,
// for the broker's accounts; a client that has not asked is not told.

// option asks for the count, as a member of a request.
const option = `"stream_options":{"include_usage":true}`

// asks reports whether a client says itself what a stream is to tell.
func asks(chat []byte) bool {
	options, ok := jsonscan.Get(chat, "stream_options")
	return ok && jsonscan.KindOf(options) != jsonscan.Null
}

// withOption returns the body of a request, a JSON object with members, that asks
// for the count.
func withOption(body []byte) []byte {
	at := bytes.IndexByte(body, '{') + 1
	return slices.Concat(body[:at], []byte(option+","), body[at:])
}

const space = " \t\r\n"

// unasked returns a chunk as it would be had nobody asked for the count, nil if it
// would not be there: it has the count, and no choices.
func unasked(chunk []byte, choices bool) []byte {
	var s jsonscan.Scanner
	s.Init(chunk)
	last, start, end := -1, -1, -1 // where the member before ends; where the count is
	usage := jsonscan.Invalid
	for ok := s.Object(); ok && s.Next(); {
		isUsage, at, kind := string(s.Key()) == "usage", s.Offset(), s.Peek()
		value := s.Value()
		if isUsage {
			usage, start, end = kind, last, at+len(value)
		}
		last = at + len(value)
	}
	switch {
	case usage == jsonscan.Object && !choices:
		return nil
	case usage != jsonscan.Null:
		return chunk
	}
	rest := chunk[end:]
	if start < 0 { // no member before it
		start = bytes.IndexByte(chunk, '{') + 1
		rest = bytes.TrimLeft(bytes.TrimPrefix(bytes.TrimLeft(rest, space), []byte(",")), space)
	}
	return slices.Concat(chunk[:start], rest)
}

// isRefusal reports whether an error may be what backends say that do not know the
// option: it names that, or nothing.
func isRefusal(err error) bool {
	var e *provider.Error
	if !errors.As(err, &e) || e.Status != http.StatusBadRequest && e.Status != http.StatusUnprocessableEntity {
		return false
	}
	return e.Param == "" || strings.HasPrefix(e.Param, "stream_options")
}

// refusals are the models whose backend does not know the option.
type refusals struct {
	mu sync.Mutex
	of map[string]bool
}

// maxRefusals bounds how many models are remembered.
const maxRefusals = 1000

func (k *refusals) has(model string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.of[model]
}

func (k *refusals) addModel(model string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil {
		k.of = map[string]bool{}
	}
	if len(k.of) < maxRefusals {
		k.of[model] = true
	}
}
