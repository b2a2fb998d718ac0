package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/wirectl/wirectl/rlm"
)

// A Schema checks JSON. It implements [rlm.Schema].
type Schema struct {
	document json.RawMessage
	resolved *jsonschema.Resolved
}

// NewSchema reads a JSON Schema: draft 2020-12 or draft-07.
func NewSchema(document []byte) (*Schema, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(document, &s); err != nil {
		if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, fmt.Errorf("line %d: %w", 1+bytes.Count(document[:min(int(wrong.Offset), len(document))], []byte("\n")), err)
		}
		return nil, err
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, document); err != nil {
		return nil, err
	}
	return &Schema{compact.Bytes(), resolved}, nil
}

// Document implements [rlm.Schema].
func (s *Schema) Document() json.RawMessage { return s.document }

// checkJSON returns why JSON does not match.
func (s *Schema) checkJSON(text []byte) error {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return s.resolved.Validate(value)
}

// Match implements [rlm.Schema]. The JSON may be in a block of code, or in text.
func (s *Schema) Match(answer string) (string, error) {
	text := extract(answer)
	return text, s.checkJSON([]byte(text))
}

// extract returns the JSON in an answer, if there is any.
func extract(answer string) string {
	answer = strings.TrimSpace(answer)
	if json.Valid([]byte(answer)) {
		return answer
	}
	if blocks, _ := rlm.CodeBlocks(answer, []string{"json", ""}); len(blocks) > 0 {
		return strings.TrimSpace(blocks[0])
	}
	if from, to := strings.IndexAny(answer, "{["), strings.LastIndexAny(answer, "}]"); from >= 0 && to > from {
		return answer[from : to+1]
	}
	return answer
}
