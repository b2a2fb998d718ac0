package theory

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// presignTime is how long a presigned URL is valid.
const presignTime = 3600 * time.Second

// A Scope resolves the names of an intent.
type Scope struct {
	RunID   string
	WorldID string
	// Presign returns the URL that allows a method on a key of the artifacts bucket; nil if
	// there is no bucket.
	Presign func(ctx context.Context, method, key string) (url string, err error)
}

// NewScope returns the scope of a run, whose id is JSON and may be a number.
func NewScope(runID json.RawMessage, worldID string) Scope {
	s := Scope{RunID: string(runID), WorldID: worldID}
	var text string
	if json.Unmarshal(runID, &text) == nil {
		s.RunID = text
	}
	return s
}

// Resolve turns the inputs and outputs of an intent into those of a Request. The key becomes
// NAME, and the value depends on the scope:
//
//   - The path of NAME.world becomes a presigned URL of WORLD_ID/PATH, to GET an input or PUT
//     an output.
//   - The path of NAME.local becomes /artifacts/RUN_ID/PATH.
//
// Other inputs are inline. Other outputs have no destination, and are left out: they come back inline.
func (s *Scope) Resolve(ctx context.Context, inputs, outputs map[string]json.RawMessage) (in, out map[string]json.RawMessage, err error) {
	if in, err = s.resolveAll(ctx, inputs, "GET"); err != nil {
		return nil, nil, err
	}
	if out, err = s.resolveAll(ctx, outputs, "PUT"); err != nil {
		return nil, nil, err
	}
	return in, out, nil
}

func (s *Scope) resolveAll(ctx context.Context, intent map[string]json.RawMessage, method string) (map[string]json.RawMessage, error) {
	resolved := make(map[string]json.RawMessage, len(intent))
	for _, key := range slices.Sorted(maps.Keys(intent)) { // sorted, so that the first error is always the same
		value := intent[key]
		name, scope := cutScope(key)
		if scope == "" {
			if method == "GET" {
				err := enter(resolved, key, value)
				if err != nil {
					return nil, err
				}
			}
			continue
		}
		place, err := s.place(ctx, scope, value, method)
		if err != nil {
			return nil, &Error{ErrInputs, fmt.Sprintf("%q: %v", key, err)}
		}
		if err := enter(resolved, name, jsonscan.MustMarshal(place)); err != nil {
			return nil, err
		}
	}
	return resolved, nil
}

// HasScope reports whether the key of an input or output names a place for it.
func HasScope(key string) bool {
	_, scope := cutScope(key)
	return scope != ""
}

// cutScope splits a key into its name and scope.
func cutScope(key string) (name, scope string) {
	for _, scope := range []string{"world", "local"} {
		if name, ok := strings.CutSuffix(key, "."+scope); ok && name != "" {
			return name, scope
		}
	}
	return key, ""
}

func enter(resolved map[string]json.RawMessage, name string, value json.RawMessage) error {
	if _, twice := resolved[name]; twice {
		return &Error{ErrInputs, fmt.Sprintf("%q is named in two scopes", name)}
	}
	resolved[name] = value
	return nil
}

// place returns the URL or path for the path in value.
func (s *Scope) place(ctx context.Context, scope string, value json.RawMessage, method string) (string, error) {
	var path string
	if err := json.Unmarshal(value, &path); err != nil {
		return "", fmt.Errorf("a path must be a string; got %s", value)
	}
	path = strings.TrimLeft(path, "/") // it is relative to the root of the world or run
	kind, owner := "run", s.RunID
	if scope == "world" {
		kind, owner = "world", s.WorldID
	}
	switch {
	case !isSegment(owner):
		return "", fmt.Errorf("the id of the %s is %q, which cannot be part of a path", kind, owner)
	case !inside(path):
		return "", fmt.Errorf("the path %q leaves its %s, or names no file in it", path, kind)
	case scope == "local":
		return artifacts + owner + "/" + path, nil
	case s.Presign == nil:
		return "", errors.New("no store for names that end in .world: give --s3")
	}
	return s.Presign(ctx, method, owner+"/"+path)
}

// isSegment reports whether an id is one segment of a path.
func isSegment(id string) bool { return inside(id) && !strings.Contains(id, "/") }

// An Intent describes a run: a Request, of which most may be omitted.
type Intent struct {
	Kind    string                     `json:"kind"`
	Control intentControl              `json:"control"`
	Inputs  map[string]json.RawMessage `json:"inputs"`
	Outputs map[string]json.RawMessage `json:"outputs"`
}

type intentControl struct {
	RunID json.RawMessage `json:"run_id,omitempty"`
	Mode  string          `json:"mode"`
}

// ParseIntent reads an intent, whose mode and run_id may be in control or at the top. The error
// continues "it is not an intent".
func ParseIntent(data []byte) (*Intent, error) {
	var read struct {
		Intent
		intentControl
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields() // a member that is not obeyed must not be lost
	if err := d.Decode(&read); err != nil {
		if shape, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && shape.Field != "" {
			return nil, fmt.Errorf("its %s cannot be a JSON %s", shape.Field[strings.LastIndexByte(shape.Field, '.')+1:], shape.Value)
		} else if ok {
			return nil, fmt.Errorf("want an object with inputs and outputs, not a JSON %s", shape.Value)
		}
		if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
			return nil, fmt.Errorf("it has a member %s: want kind, inputs, outputs, and mode and run_id, which may be in control", name)
		}
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("more follows the object")
	}
	c, top := &read.Control, &read.intentControl
	switch {
	case read.Kind != "" && read.Kind != "Request":
		return nil, fmt.Errorf("its kind is %q; want a Request", read.Kind)
	case c.Mode != "" && top.Mode != "" && c.Mode != top.Mode, c.RunID != nil && top.RunID != nil && !bytes.Equal(c.RunID, top.RunID):
		return nil, errors.New("its control contradicts the mode or run_id at the top")
	}
	c.Mode = cmp.Or(c.Mode, top.Mode)
	if c.RunID == nil {
		c.RunID = top.RunID
	}
	return &read.Intent, nil
}
