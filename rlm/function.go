package rlm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/rlm/prompt"
)

// A Function is a tool as code calls it.
type Function struct {
	Name      string   `json:"function"`
	Tool      string   `json:"name"`
	Arguments []string `json:"arguments"` // in the order of positional arguments
}

// reserved are names with a meaning in the code of some environment.
var reserved = strings.Fields(`
	context history answer FINAL FINAL_VAR SHOW_VARS RLM_CORRELATION_ID RLM_DEPTH ToolError
	llm_query llm_query_batched rlm_query rlm_query_batched print json math regex_find regex_all
	False None True and as assert async await break class continue def del elif else except finally for from
	global if import in is lambda load nonlocal not or pass raise return try while with yield`)

var isFunction = regexp.MustCompile(`^[A-Za-z]\w*$`).MatchString

// Function returns the function of a tool. The error says why code cannot call the tool.
func (t Tool) Function() (Function, error) {
	f := Function{Name: strings.ReplaceAll(t.Name, "-", "_"), Tool: t.Name, Arguments: []string{}}
	if !isFunction(f.Name) || slices.Contains(reserved, f.Name) {
		return f, fmt.Errorf("code cannot call a tool %q, because that name is reserved or not a valid name of a function: choose another name, or list the others in only", t.Name)
	}
	properties, required := t.properties()
	names := keysOf(properties)
	for _, wanted := range []bool{true, false} {
		for _, name := range names {
			if slices.Contains(required, name) == wanted {
				f.Arguments = append(f.Arguments, name)
			}
		}
	}
	return f, nil
}

// properties returns the arguments in the schema of a tool.
func (t Tool) properties() (properties json.RawMessage, required []string) {
	var schema struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	_ = json.Unmarshal(t.Parameters, &schema) // without a schema, the code may pass any arguments
	return schema.Properties, schema.Required
}

// keysOf returns the keys of an object, in their order.
func keysOf(object json.RawMessage) (keys []string) {
	d := json.NewDecoder(bytes.NewReader(object))
	if start, _ := d.Token(); start != json.Delim('{') {
		return nil
	}
	for d.More() {
		key, _ := d.Token()
		var value json.RawMessage
		if d.Decode(&value) != nil {
			break
		}
		keys = append(keys, key.(string)) //nolint:forcetypeassert // keys are strings
	}
	return keys
}

// functionsOf returns tools as functions of the code, and as the model is told of them.
func functionsOf(tools Tools) (list []Function, described []prompt.Tool) {
	if tools == nil {
		return nil, nil
	}
	for _, t := range tools.Definitions() {
		f, err := t.Function()
		if err != nil {
			continue // package tool has refused it
		}
		properties, required := t.properties()
		arguments := slices.Clone(f.Arguments)
		for i, name := range arguments {
			if !slices.Contains(required, name) {
				arguments[i] += "=..."
			}
		}
		text := strings.TrimSpace(t.Description)
		if len(arguments) > 0 {
			text = strings.TrimSpace(text + " Arguments, as JSON Schema: " + string(properties))
		}
		list = append(list, f)
		described = append(described, prompt.Tool{Signature: f.Name + "(" + strings.Join(arguments, ", ") + ")", Description: text})
	}
	return list, described
}
