package nexus

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A request is a parsed call. Its values point into the body.
type request struct {
	id     []byte // as it is written; nil for a notification
	method string
	params []byte // an object, or nil
}

// A fault is an error for the client.
type fault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func parse(body []byte) (*request, *fault) {
	req := &request{}
	var version, method []byte
	object, err := provider.ReadMembers(body, map[string]*[]byte{"jsonrpc": &version, "id": &req.id, "method": &method, "params": &req.params})
	if err != nil {
		return nil, &fault{codeParse, "Parse error"}
	}
	if jsonscan.KindOf(req.id) == jsonscan.Null {
		req.id = nil
	}
	if jsonscan.KindOf(req.params) == jsonscan.Null {
		req.params = nil
	}
	switch {
	case !object && jsonscan.KindOf(bytes.TrimLeft(body, " \t\r\n")) == jsonscan.Array:
		return nil, &fault{codeRequest, "Batches are not supported"}
	case !object:
		return nil, &fault{codeRequest, "Request must be an object"}
	case string(version) != `"2.0"`:
		return nil, &fault{codeRequest, `jsonrpc must be "2.0"`}
	case jsonscan.KindOf(method) != jsonscan.String:
		return nil, &fault{codeRequest, "method must be a string"}
	case req.id != nil && !isID(req.id):
		return nil, &fault{codeRequest, "id must be a string, an integer or null"}
	case req.params != nil && jsonscan.KindOf(req.params) != jsonscan.Object:
		return nil, &fault{codeRequest, "params must be an object"}
	}
	req.method = provider.Unquote(method)
	return req, nil
}

// isID reports whether a value is a string or an integer.
func isID(raw []byte) bool {
	switch jsonscan.KindOf(raw) {
	case jsonscan.String:
		return true
	case jsonscan.Number:
		return !bytes.ContainsAny(raw, ".eE")
	}
	return false
}

// param returns a parameter, nil if it is missing.
func (r *request) param(name string) []byte {
	if r.params == nil {
		return nil
	}
	raw, _ := jsonscan.Get(r.params, name)
	return raw
}

// textOf returns a parameter that is a string, as a token; nil if it is missing or
// null.
func (r *request) textOf(name string) ([]byte, *fault) {
	raw := r.param(name)
	switch jsonscan.KindOf(raw) {
	case jsonscan.Null, jsonscan.Invalid:
		return nil, nil
	case jsonscan.String:
		return raw, nil
	}
	return nil, &fault{codeParams, name + " must be string, got: " + pyType(raw)}
}

// flag returns a parameter that is a boolean; false if it is missing or null.
func (r *request) flag(name string) (bool, *fault) {
	raw := r.param(name)
	switch jsonscan.KindOf(raw) {
	case jsonscan.True:
		return true, nil
	case jsonscan.False, jsonscan.Null, jsonscan.Invalid:
		return false, nil
	}
	return false, &fault{codeParams, name + " must be boolean, got: " + pyType(raw)}
}

// count returns a parameter from least to most, the usual value if it is missing or null.
func (r *request) count(name string, usual, least, most int) (int, *fault) {
	raw := r.param(name)
	switch jsonscan.KindOf(raw) {
	case jsonscan.Null, jsonscan.Invalid:
		return usual, nil
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < least || n > most {
		return 0, &fault{codeParams, fmt.Sprintf("%s must be an integer from %d to %d", name, least, most)}
	}
	return n, nil
}

// pyType is the name of a value's type in Python, the language of other implementations.
func pyType(raw []byte) string {
	switch jsonscan.KindOf(raw) {
	case jsonscan.Null:
		return "NoneType"
	case jsonscan.True, jsonscan.False:
		return "bool"
	case jsonscan.String:
		return "str"
	case jsonscan.Array:
		return "list"
	case jsonscan.Object:
		return "dict"
	}
	if bytes.ContainsAny(raw, ".eE") {
		return "float"
	}
	return "int"
}
