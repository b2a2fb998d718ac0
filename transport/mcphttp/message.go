package mcphttp

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// stateless is the first version of MCP without initialize, whose requests carry the
// version, and are cancelled by closing their streams.
const stateless = "2026-07-28"

// A message has the fields that HTTP needs. They are empty for a batch and for anything that
// is not a message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		URI       string          `json:"uri"`
		TaskID    string          `json:"taskId"`
		RequestID json.RawMessage `json:"requestId"`
		Meta      struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	} `json:"params"`
	Result struct {
		ProtocolVersion string `json:"protocolVersion"`
	} `json:"result"`
}

const (
	initialize  = "initialize"
	initialized = "notifications/initialized"
)

func parse(payload []byte) (m message) {
	_ = json.Unmarshal(withoutBOM(payload), &m) // fields of another type stay empty
	return m
}

func (m *message) isRequest() bool { return m.Method != "" && len(m.ID) > 0 }

func (m *message) isResponse() bool { return m.Method == "" && len(m.ID) > 0 }

// isStateless reports whether a request is of a version without sessions.
func (m *message) isStateless() bool { return m.Params.Meta.Version >= stateless }

// outlives reports whether a message that is not a request makes sense in another session than
// the one for which it was written.
func (m *message) outlives() bool {
	return m.Method != "" && !slices.Contains([]string{"notifications/cancelled", "notifications/progress"}, m.Method)
}

func (m *message) title() string { return cmp.Or(m.Method, "the answer to request "+string(m.ID)) }

// sessionHeader names the session of a message.
const sessionHeader = "Mcp-Session-Id"

// outsideSession removes the headers of a session, which no request that begins one has.
func outsideSession() http.Header {
	return http.Header{sessionHeader: nil, "Mcp-Protocol-Version": nil}
}

// header returns the headers for a message that states its version, or begins a session.
func (m *message) header() http.Header {
	switch {
	case m.Method == initialize:
		return outsideSession()
	case !m.isStateless():
		return nil
	}
	return m.headerOf(m.Params.Meta.Version)
}

// Header returns the headers for a message in a version of MCP without a handshake.
func Header(version string, payload []byte) http.Header {
	m := parse(payload)
	return m.headerOf(version)
}

func (m *message) headerOf(version string) http.Header {
	h := http.Header{}
	h.Set("Mcp-Protocol-Version", headerValue(version))
	h.Set("Mcp-Method", headerValue(m.Method))
	switch m.Method {
	case "tools/call", "prompts/get":
		h.Set("Mcp-Name", headerValue(m.Params.Name))
	case "resources/read":
		h.Set("Mcp-Name", headerValue(m.Params.URI))
	case "tasks/get", "tasks/update", "tasks/cancel":
		h.Set("Mcp-Name", headerValue(m.Params.TaskID))
	}
	return h
}

// headerValue encodes text as the value of a header, which must be ASCII.
func headerValue(text string) string {
	isPlain := text == strings.TrimSpace(text) && !strings.HasPrefix(text, "=?base64?")
	for i := range len(text) {
		isPlain = isPlain && text[i] >= ' ' && text[i] <= '~'
	}
	if isPlain {
		return text
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
}
