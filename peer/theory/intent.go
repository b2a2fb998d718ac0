package theory

import (
	"encoding/json"
	"errors"
	"fmt"
)

// An Intent is what a run is to be given: a Request, of which most may be left out.
type Intent struct {
	Kind    string `json:"kind"`
	Control struct {
		RunID json.RawMessage `json:"run_id,omitempty"`
		Mode  string          `json:"mode"`
	} `json:"control"`
	Inputs  map[string]json.RawMessage `json:"inputs"`
	Outputs map[string]json.RawMessage `json:"outputs"`
}

// ParseIntent reads an intent. The error goes on from "it is no intent".
func ParseIntent(data []byte) (*Intent, error) {
	read := &Intent{}
	var shape *json.UnmarshalTypeError
	switch err := json.Unmarshal(data, read); {
	case errors.As(err, &shape):
		return nil, fmt.Errorf("a JSON %s stands where an object with inputs and outputs, or one of these, is to be", shape.Value)
	case err != nil:
		return nil, err
	}
	if read.Kind != "" && read.Kind != "Request" {
		return nil, fmt.Errorf("its kind is %q; want a Request", read.Kind)
	}
	return read, nil
}
