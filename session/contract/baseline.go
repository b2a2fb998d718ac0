package contract

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// baselineVersion is the version of the format of baselines.
const baselineVersion = 1

// A baseline is the file with the tools that a project has agreed to.
type baseline struct {
	Version int          `json:"baseline"`
	Tools   []definition `json:"tools"`
}

// A definition is the part of a tool that a baseline keeps because clients and models rely on
// it.
type definition struct {
	Name         string `json:"name"`
	Description  any    `json:"description,omitempty"`
	InputSchema  any    `json:"inputSchema,omitempty"`
	OutputSchema any    `json:"outputSchema,omitempty"`
	Annotations  any    `json:"annotations,omitempty"`
}

// definitionOf returns the definition of a tool.
func definitionOf(it Item) definition {
	member := func(key string) any {
		value, _ := jsonscan.Get(it.JSON, key)
		return decoded(value)
	}
	return definition{it.Name, member("description"), member(inputSchema), member(outputSchema), member("annotations")}
}

// WriteBaseline writes a baseline of tools as JSON. Tools and their members are sorted, so that
// versions can be compared line by line.
func WriteBaseline(w io.Writer, tools []Item) error {
	file := baseline{Version: baselineVersion, Tools: []definition{}}
	for _, it := range tools {
		file.Tools = append(file.Tools, definitionOf(it))
	}
	slices.SortFunc(file.Tools, func(a, b definition) int { return cmp.Compare(a.Name, b.Name) })
	enc := jsonscan.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(file)
}

// A Baseline holds the tools that a project has agreed to.
type Baseline struct{ tools []Item }

var errNoBaseline = errors.New(`want an object such as {"baseline":1,"tools":[{"name":"…"}]}`)

// ReadBaseline reads a baseline.
func ReadBaseline(text []byte) (*Baseline, error) {
	var file baseline
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("%s: %w", faultOf(err), errNoBaseline)
	}
	if file.Version != baselineVersion {
		return nil, fmt.Errorf("version %d of the format, not %d: %w", file.Version, baselineVersion, errNoBaseline)
	}
	b, seen := new(Baseline), make(map[string]bool)
	for i, tool := range file.Tools {
		if tool.Name == "" || seen[tool.Name] {
			return nil, fmt.Errorf("tool %d repeats the name %q: want unique names", i+1, tool.Name)
		}
		seen[tool.Name] = true
		b.tools = append(b.tools, tool.item())
	}
	return b, nil
}

// faultOf describes a fault in the JSON of a baseline without names of Go types.
func faultOf(err error) string {
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF):
		return "the file is empty"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the file ends before the JSON does"
	case errors.As(err, &mismatch):
		return fmt.Sprintf("%s is of the type %s, at byte %d", cmp.Or(mismatch.Field, "the file"), mismatch.Value, mismatch.Offset)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

func (d definition) item() Item { return Item{d.Name, encoded(d)} }

// Masked reports whether the definitions of tools are masked, as in a record of metadata.
func Masked(tools []Item) bool {
	return slices.ContainsFunc(tools, func(it Item) bool {
		raw, _ := jsonscan.Get(it.JSON, inputSchema, "type")
		text, _ := jsonscan.Unquote(raw)
		return len(text) > 0 && len(bytes.Trim(text, "*")) == 0
	})
}

// Drift returns how tools differ from the baseline.
func (b *Baseline) Drift(tools []Item) []Change {
	now := make([]Item, len(tools))
	for i, it := range tools {
		now[i] = definitionOf(it).item()
	}
	return Tools.Compare(b.tools, now, nil)
}
