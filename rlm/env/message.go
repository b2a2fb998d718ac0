package env

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/wirectl/wirectl/internal/jsonscan"
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

// read reads a message.
func (m *message) read(payload []byte) error {
	if m.scan(payload) {
		return nil
	}
	*m = message{}
	return json.Unmarshal(payload, m)
}

// scan reads an output, a result or a call in the form in which the workers of wirectl write
// them, faster than package json. It returns false for any other message.
func (m *message) scan(payload []byte) bool {
	var s jsonscan.Scanner
	s.Init(payload)
	ok := true
	text := func() string {
		b, isText := jsonscan.Unquote(s.Value())
		ok = ok && isText
		return string(b)
	}
	number := func() uint64 {
		n, err := strconv.ParseUint(string(s.Value()), 10, 63)
		ok = ok && err == nil
		return n
	}
	for in := s.Object(); in && s.Next(); {
		switch string(s.Key()) {
		case "kind":
			m.Kind = text()
		case "id":
			m.ID = number()
		case "cell":
			m.Cell = number()
		case "stream":
			m.Stream = text()
		case "text":
			m.Text = text()
		case "prompt":
			m.Prompt = bytes.Clone(s.Value())
		case "locals":
			m.Locals = map[string]string{}
			ok = ok && s.Peek() == jsonscan.Object
			for in := s.Object(); in && s.Next(); {
				name := string(s.Key())
				m.Locals[name] = text()
			}
		case "best":
			m.Best = text()
		case "omitted":
			m.Omitted = int64(number())
		case "execution_time":
		case "error", "final", "model":
			ok = ok && s.Peek() == jsonscan.Null
		default:
			return false
		}
	}
	return ok && s.End() == nil && m.Kind != ""
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
