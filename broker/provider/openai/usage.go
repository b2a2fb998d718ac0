package openai

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// Backends count the tokens of a stream only on request. The broker requests it for its
// accounts, and hides it from clients that did not.

// option is the member that requests the usage.
const option = `"stream_options":{"include_usage":true}`

// asks reports whether the client's request has stream_options.
func asks(chat []byte) bool {
	options, ok := jsonscan.Get(chat, "stream_options")
	return ok && jsonscan.KindOf(options) != jsonscan.Null
}

// withOption adds the option to the body of a request, a JSON object with members.
func withOption(body []byte) []byte {
	at := bytes.IndexByte(body, '{') + 1
	return slices.Concat(body[:at], []byte(option+","), body[at:])
}

const space = " \t\r\n"

// unasked returns a chunk as it would be without the option, nil if it would not exist: it has the
// usage and no choices.
func unasked(chunk []byte, choices bool) []byte {
	var s jsonscan.Scanner
	s.Init(chunk)
	last, start, end := -1, -1, -1 // the end of the member before; the place of the usage
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

// isRefusal reports whether an error may be the answer of a backend that does not know the option:
// it names the option, or nothing.
func isRefusal(err error) bool {
	var e *provider.Error
	if !errors.As(err, &e) || e.Status != http.StatusBadRequest && e.Status != http.StatusUnprocessableEntity {
		return false
	}
	return e.Param == "" || strings.HasPrefix(e.Param, "stream_options")
}

// refusals are the models whose backends do not know the option.
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
