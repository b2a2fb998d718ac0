package capture

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
)

// spokenValues lists the paths to JSON values that belong to the protocol and not to the
// conversation: those of JSON-RPC and its dialects, A2A, DAP, Claude Code and rlm. Lists add nothing to a
// path.
var spokenValues = map[string]bool{
	"jsonrpc": true, "id": true, "method": true, "error.code": true,
	"type": true, "seq": true, "request_seq": true,
	"params.id": true, "params.requestId": true, "params.progressToken": true, "params._meta.progressToken": true,
	"params.name": true, "params.protocolVersion": true, "params.clientInfo.name": true, "params.clientInfo.version": true,
	"result.protocolVersion": true, "result.serverInfo.name": true, "result.serverInfo.version": true,
	"result.agentInfo.name": true, "result.agentInfo.version": true, "result.info.name": true, "result.info.version": true,
	"result.tools.name": true, "result.prompts.name": true, "result.content.type": true, "result.resultType": true,
	"params.sessionId": true, "result.sessionId": true, "params.update.sessionUpdate": true, "result.stopReason": true,
	"params.taskId": true, "params.level": true, "params.mode": true,
	"params._meta." + reserved + "protocolVersion": true, "params._meta." + reserved + "subscriptionId": true,
	"result._meta." + reserved + "subscriptionId": true, "params._meta." + reserved + "logLevel": true,
	"result.id": true, "result.taskId": true, "result.task.id": true, "result.task.taskId": true,
	"params.update.state": true, "params.update.stopReason": true,
	"params.update.toolCallId": true, "params.toolCall.toolCallId": true, "params.options.optionId": true,
	"result.outcome.outcome": true, "result.outcome.optionId": true,
	"params.event.type": true, "params.turnId": true, "params.turn.id": true, "params.turn.status": true, "result.turn.id": true, "result.turn.status": true,
	"params.itemId": true, "params.item.id": true, "params.item.type": true, "params.expectedTurnId": true,
	"result.kind": true, "result.status.state": true, "result.task.status.state": true, "result.statusUpdate.status.state": true,
	"task.id": true, "task.status.state": true, "statusUpdate.taskId": true, "statusUpdate.status.state": true,
	"artifactUpdate.taskId": true, "message.taskId": true, "status.state": true,
	"result.artifact.artifactId": true, "result.artifactUpdate.artifact.artifactId": true, "artifactUpdate.artifact.artifactId": true,
	"params.event.data.toolCallId": true, "params.event.data.requestId": true, "params.workDoneToken": true,
	"request_id": true, "subtype": true, "parent_tool_use_id": true, "terminal_reason": true,
	"request.subtype": true, "response.subtype": true, "response.request_id": true, "event.type": true, "event.index": true,
	"correlation_id": true, "params.request_id": true,
	"result.statusUpdate.taskId": true, "result.artifactUpdate.taskId": true, "params.message.taskId": true,
}

// reserved begins the names that MCP has reserved in _meta.
const reserved = "io.modelcontextprotocol/"

// spokenIn lists further paths, which belong to the protocol in some protocols only. In others,
// such values may be secrets.
var spokenIn = map[string][]string{
	"dap": {"command", "event", "arguments.requestId"},
	"lsp": {"params.token"},
	"claude": {
		"uuid", "command_uuid", "state", "user_message_uuid", "user_message_uuids", "origin.kind", "local_command",
		"request.message_uuid", "response.response.still_queued", "response.response.cancelled",
	},
}

// spokenInAny has all paths of spokenIn.
var spokenInAny = slices.Concat(slices.Collect(maps.Values(spokenIn))...)

// appendOutline appends the outline of a payload that is valid JSON. The outline has the same
// length: text and digits that do not belong to the protocol are masked. Member names stay if
// they look like names. Values at the paths in also stay, too.
func appendOutline(dst, text []byte, also []string) []byte {
	var path []string // the current member name of each open object; "" for a list
	from := len(dst)
	dst = append(dst, text...)
	for i := 0; i < len(text); {
		start := i
		i = tokenEnd(text, i)
		token := dst[from+start : from+i]
		switch jsonscan.KindOf(text[start:]) {
		case jsonscan.Object, jsonscan.Array:
			path = append(path, "")
		case jsonscan.String:
			switch {
			case len(path) > 0 && isKey(text[i:]):
				if name := string(token[1 : len(token)-1]); isName(name) {
					path[len(path)-1] = name
				} else {
					path[len(path)-1] = "*"
					blot(token[1:len(token)-1], '*')
				}
			case !isSpoken(path, also):
				blot(token[1:len(token)-1], '*')
			}
		case jsonscan.Number:
			if !isSpoken(path, also) {
				blotDigits(token)
			}
		default:
			if c := text[start]; (c == '}' || c == ']') && len(path) > 0 {
				path = path[:len(path)-1]
			}
		}
	}
	return dst
}

// isSpoken reports whether the value at a path belongs to the protocol.
func isSpoken(path, also []string) bool {
	const deepest = 4
	var names []string
	for _, name := range path {
		if name != "" {
			names = append(names, name)
		}
		if len(names) > deepest {
			return false
		}
	}
	name := strings.Join(names, ".")
	return spokenValues[name] || slices.Contains(also, name)
}

// maxName is the length of the longest member name that an outline keeps.
const maxName = 40

func isName(name string) bool {
	name = strings.TrimPrefix(name, reserved)
	return len(name) <= maxName && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-$") == ""
}

func blot(text []byte, with byte) {
	for i := range text {
		text[i] = with
	}
}

func blotDigits(number []byte) {
	for i, c := range number {
		if '0' <= c && c <= '9' {
			number[i] = '1'
		}
	}
}

// outline reduces a frame to its outline.
func (x *redactor) outline(r *Record, p protocol.Protocol) {
	if r.Gap {
		r.Raw = outlineOfGap(r.Raw, r.Framing, spokenIn[p.Name()])
		return
	}
	payload := r.Payload()
	if !r.Compressed && jsonscan.WellFormed(payload) == nil {
		x.payload = appendOutline(x.payload[:0], payload, spokenIn[p.Name()])
	} else {
		x.payload = append(x.payload[:0], stars(payload)...)
	}
	if r.Meta == nil {
		x.splice(r, x.payload)
		return
	}
	event := r.Meta.Event
	if !isName(event) || event == "endpoint" {
		event = ""
	}
	if at := sessionInQuery.FindSubmatchIndex(payload); r.Meta.Event == "endpoint" && at != nil && !r.Compressed {
		event = r.Meta.Event
		x.payload = append(append(x.payload[:at[0]], payload[at[0]:at[2]]...), pseudonym(string(payload[at[2]:at[3]]))...)
	}
	m := frame.Meta{Framing: r.Meta.Framing, Signal: r.Meta.Signal, Opcode: r.Meta.Opcode, Code: r.Meta.Code, Event: event}
	if r.Meta.EventID != "" {
		m.EventID = "*"
	}
	if m.Signal == frame.Reset {
		m.Text = r.Meta.Text // the name of its code
	}
	if h := r.Meta.Head; h != nil {
		start, query, found := strings.Cut(h.Start, "?")
		if id := sessionInQuery.FindStringSubmatch("?" + query); id != nil {
			start += "?sessionId=" + pseudonym(id[1])
		}
		if at := strings.LastIndexByte(query, ' '); found && at >= 0 {
			start += query[at:] // the version
		}
		m.Head = &frame.Head{Start: start}
		for _, f := range h.Fields {
			if !isKept(f) {
				continue
			}
			if strings.EqualFold(f.Name, "Mcp-Session-Id") {
				f.Value = pseudonym(f.Value)
			}
			m.Head.Fields = append(m.Head.Fields, f)
		}
	}
	r.Meta, r.Raw = &m, bytes.Clone(x.payload)
	r.Start, r.End = 0, len(r.Raw)
}

// outlineOfGap returns the outline of bytes that are no frame, of the same length. If they begin or
// end a message over the limit, it keeps what an outline of the message would.
func outlineOfGap(raw []byte, framing string, also []string) []byte {
	out := stars(raw)
	if framing == frame.Line.Name() {
		for i, c := range raw {
			if c == '\n' {
				out[i] = c
			}
		}
	}
	begin := max(0, bytes.IndexByte(raw, '{'))
	if text := jsonscan.Close(raw[begin:]); text != nil {
		outline := appendOutline(nil, text, also)
		for i := 0; i < len(text) && begin+i < len(raw) && text[i] == raw[begin+i]; i++ {
			out[begin+i] = outline[i]
		}
	}
	if last := jsonscan.Last(raw); last != nil {
		outline := appendOutline(nil, slices.Concat([]byte{'{'}, last, []byte{'}'}), also)
		copy(out[bytes.LastIndex(raw, last):], outline[1:])
	}
	return out
}

// isKept reports whether an outline keeps a field of a head.
func isKept(f frame.Field) bool {
	switch strings.ToLower(f.Name) {
	case "accept", "content-encoding", "content-length", "content-type", "transfer-encoding", "upgrade", "mcp-session-id", "mcp-protocol-version", "a2a-version":
		return true
	}
	return false
}

// IsOutline reports whether a head may have lost fields to an outline. The head of a whole
// request has others, such as Host.
func IsOutline(h *frame.Head) bool {
	return !slices.ContainsFunc(h.Fields, func(f frame.Field) bool { return !isKept(f) })
}

// IsOutlined reports whether a payload is an outline that has masked text.
func IsOutlined(payload []byte) bool {
	if !bytes.HasSuffix(payload, []byte("*")) && !bytes.Contains(payload, []byte(`*"`)) {
		return false
	}
	if jsonscan.WellFormed(payload) != nil {
		return len(bytes.Trim(payload, "*")) == 0
	}
	return bytes.Equal(appendOutline(nil, payload, spokenInAny), payload)
}

// sessionInQuery matches the id of an MCP session in the query of an address.
var sessionInQuery = regexp.MustCompile(`[?&](?:sessionId|session_id)=([^&# \r\n]+)`)

// pseudonym returns a text that distinguishes the id of a session from others. The id itself
// may be all that a server asks for.
func pseudonym(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:8])
}
