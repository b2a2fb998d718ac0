package rlm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
)

// A request is a WireRequest. Its values point into the payload; they are nil if missing or
// null.
type request struct {
	id      []byte // the correlation id, as JSON
	model   []byte
	prompt  []byte
	prompts []byte
	unknown []string
}

// A wireError is an error in a request, with the text that peers expect.
type wireError string

func (e wireError) Error() string { return string(e) }

const (
	errNotObject wireError = "Frame JSON must be an object"
	errID        wireError = "WireRequest.correlation_id must be a string when present"
	errModel     wireError = "WireRequest.model must be a string when present"
	errPrompt    wireError = "WireRequest.prompt must be a valid Prompt (str | dict | list[dict])"
	errPrompts   wireError = "WireRequest.prompts must be a list"
	errEmpty     wireError = "WireRequest.prompts must not be empty"
	errItem      wireError = "WireRequest.prompts each item must be a valid Prompt"
	errBoth      wireError = "WireRequest must include only one of 'prompt' or 'prompts'"
	errNeither   wireError = "WireRequest missing 'prompt' or 'prompts'"
)

// parse reads a payload. If a key is repeated, the last one counts, as in Python.
func (r *request) parse(payload []byte) error {
	var s jsonscan.Scanner
	s.Init(payload)
	object := s.Object()
	for object && s.Next() {
		switch string(s.Key()) {
		case "correlation_id":
			r.id = s.NotNull()
		case "model":
			r.model = s.NotNull()
		case "prompt":
			r.prompt = s.NotNull()
		case "prompts":
			r.prompts = s.NotNull()
		default:
			r.unknown = append(r.unknown, string(s.Key()))
		}
	}
	err := s.End()
	if _, unpaired := s.Unpaired(); unpaired {
		err = jsonscan.Valid(payload)
	}
	switch {
	case err != nil:
		*r = request{}
		return wireError(door.InvalidJSON(payload, err))
	case !object:
		return errNotObject
	}
	return r.check()
}

// check checks the request in the order of other implementations. An id that is not a string
// is dropped: it cannot be echoed.
func (r *request) check() error {
	badID := r.id != nil && jsonscan.KindOf(r.id) != jsonscan.String
	if badID {
		r.id = nil
	}
	switch {
	case len(r.unknown) > 0:
		return r.unknownKeys()
	case badID:
		return errID
	case r.model != nil && jsonscan.KindOf(r.model) != jsonscan.String:
		return errModel
	case r.prompt != nil && !provider.ValidPrompt(r.prompt):
		return errPrompt
	case r.prompts != nil:
		if err := r.checkPrompts(); err != nil {
			return err
		}
	case r.prompt == nil:
		return errNeither
	}
	if r.prompt != nil && r.prompts != nil {
		return errBoth
	}
	return nil
}

func (r *request) checkPrompts() error {
	if jsonscan.KindOf(r.prompts) != jsonscan.Array {
		return errPrompts
	}
	count := 0
	for _, prompt := range llm.Elements(r.prompts) {
		if !provider.ValidPrompt(prompt) {
			return errItem
		}
		if count++; count > broker.MaxBatch {
			return wireError(fmt.Sprintf("WireRequest.prompts must not be more than %d", broker.MaxBatch))
		}
	}
	if count == 0 {
		return errEmpty
	}
	return nil
}

func (r *request) unknownKeys() error {
	slices.Sort(r.unknown)
	keys := slices.Compact(r.unknown)
	quoted := make([]string, len(keys))
	for i, key := range keys {
		quoted[i] = broker.PyQuote(key)
	}
	return wireError(fmt.Sprintf("Unknown keys in WireRequest: [%s]", strings.Join(quoted, ", ")))
}
