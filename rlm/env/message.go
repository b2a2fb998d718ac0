package env

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/wirectl/wirectl/protocol/repl"
	"github.com/wirectl/wirectl/rlm"
)

// A message is a message of a worker.
type message struct {
	Kind string
	ID   uint64
	Cell uint64

	Stream, Text string
	Seconds      float64

	Model   string
	Prompt  json.RawMessage
	Prompts prompts

	Name      string // of a tool
	Arguments json.RawMessage

	Locals  map[string]string
	Error   *rlm.CellError
	Final   *string
	Best    string
	Omitted int64
}

// maxPrompts bounds the prompts in a message. The workers of wirectl split larger batches.
const maxPrompts = 1024

// prompts are the prompts of a batch. Small ones need many times their size in memory, so
// their number is checked while they are read.
type prompts []json.RawMessage

func (p *prompts) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return errors.New("prompts must be an array")
	}
	for *p = (*p)[:0]; d.More(); {
		if len(*p) == maxPrompts {
			return fmt.Errorf("more than %d prompts in a message", maxPrompts)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return err
		}
		*p = append(*p, raw)
	}
	return nil
}

// The messages of the host. Members with the same name have the same meaning.
type (
	loadContext struct {
		Kind string `json:"kind"`
		ID   uint64 `json:"id"`
		Path string `json:"path"`
		Type string `json:"type"`
	}
	execute struct {
		Kind string `json:"kind"`
		ID   uint64 `json:"id"`
		Code string `json:"code"`
	}
	finalVar struct {
		Kind string `json:"kind"`
		ID   uint64 `json:"id"`
		Name string `json:"name"`
	}
	cancel struct {
		Kind   string `json:"kind"`
		Target uint64 `json:"target"`
	}
	set struct {
		Kind  string `json:"kind"`
		Name  string `json:"name"`
		From  int    `json:"from,omitempty"`
		Value any    `json:"value"`
	}
	answer struct {
		Kind      string `json:"kind"`
		ID        uint64 `json:"id"`
		OK        bool   `json:"ok"`
		Response  any    `json:"response,omitempty"`  // a text, or the JSON of a tool
		Responses []any  `json:"responses,omitempty"` // texts and failures
		Error     string `json:"error,omitempty"`
	}
	failure struct {
		Error string `json:"error"`
	}
)

var errTooLarge = errors.New("message larger than 16 MiB")

// appendFrame appends a message to b.
func appendFrame(b *bytes.Buffer, m any) error {
	start := b.Len()
	b.Write(make([]byte, 4))
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		b.Truncate(start)
		return err
	}
	b.Truncate(b.Len() - 1) // the line feed
	n := b.Len() - start - 4
	if n > repl.Limit {
		b.Truncate(start)
		return errTooLarge
	}
	binary.BigEndian.PutUint32(b.Bytes()[start:], uint32(n))
	return nil
}
