package agents

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/source"
)

// A table says what the records of a program tell. Paths are keys that spaces separate; `|` separates
// paths of which the first that is there counts.
type table struct {
	program string
	// The first record, or in a document the members before the list, says these.
	session, version, created, parent string
	// list is the member of a document that has its records; "" if each line is a record.
	list string
	// kind and time are members of a record, and rules those of a kind.
	kind, time string
	rules      map[string][]rule
	silent     bool // turns that fail or are interrupted have no end
}

// A rule says what a record, or each element of a list in it, tells. Its paths begin there.
type rule struct {
	does step
	in   string // the list; "" for the record
	when string // a member that must be there, or "path=value"
	// id names what is told, and key, if that is another, says what copies of it have in common.
	id, key            string
	time, name, server string
	text, model        string
	status, exit       string // how a call ended
	reason             string // of a bad end
	more               string // a list of calls that follow an answer
	agent, role        string // the sub-agent that a call has run, and its kind
	late               bool   // a call is told when it has ended
	usage              *counts
}

// counts are the paths to numbers of tokens. Those of the input are added, and so are those of the
// output, which is at least what the total has besides the input.
type counts struct {
	input, output []string
	cached, total string
}

type step uint8

const (
	prompt step = iota + 1
	answer
	held       // the usage of an answer that counts only if no answer has its own
	totals     // the usage of all answers by model, which counts in the same way
	call       // of a tool
	result     // of a call
	failure    // of the turn, unless the agent goes on
	abort      // of the turn
	compaction // of the context
	remark
	records // are in a list
)

var gemini = table{
	program: "Gemini CLI", session: "sessionId", created: "startTime", kind: "type", time: "timestamp", parent: "kind=subagent", silent: true,
	rules: map[string][]rule{
		"": {{does: records, in: "$set messages|messages"}, {does: remark, when: "$rewindTo", text: "$rewindTo", name: "rewind"}},
		"user": {
			{does: prompt, id: "id", text: "content"},
		},
		"gemini": {
			{does: answer, id: "id", model: "model", text: "content", more: "toolCalls", usage: &counts{
				input: []string{"tokens input", "tokens tool"}, output: []string{"tokens output", "tokens thoughts"}, cached: "tokens cached",
			}},
			{does: call, in: "toolCalls", id: "id", name: "name", text: "args", agent: "agentId", role: "args agent_name|name", late: true},
			{does: result, in: "toolCalls", id: "id", time: "timestamp", status: "status", reason: "resultDisplay", text: "result"},
		},
		"error": {{does: failure, reason: "content"}},
	},
}

// geminiDocument is the form before April 2026: one object.
var geminiDocument = func() table {
	t := gemini
	t.list = "messages"
	return t
}()

var qwen = table{
	program: "Qwen Code", session: "sessionId", version: "version", created: "timestamp",
	kind: "systemPayload uiEvent event.name|subtype|type", time: "timestamp",
	rules: map[string][]rule{
		"user": {{does: prompt, id: "uuid", text: "message parts"}},
		"assistant": {
			{does: answer, id: "uuid", model: "model", text: "message parts", usage: &counts{
				input: []string{"usageMetadata promptTokenCount"}, output: []string{"usageMetadata candidatesTokenCount"},
				cached: "usageMetadata cachedContentTokenCount", total: "usageMetadata totalTokenCount",
			}},
			{does: call, in: "message parts", when: "functionCall", id: "functionCall id", name: "functionCall name", text: "functionCall args"},
		},
		"tool_result": {{
			does: result, id: "toolCallResult callId", status: "toolCallResult status", reason: "toolCallResult error|toolCallResult resultDisplay",
			text: "message parts",
		}},
		"qwen-code.api_response": {{
			does: held, id: "systemPayload uiEvent response_id", model: "systemPayload uiEvent model", usage: &counts{
				input: []string{"systemPayload uiEvent input_token_count"}, output: []string{"systemPayload uiEvent output_token_count"},
				cached: "systemPayload uiEvent cached_content_token_count", total: "systemPayload uiEvent total_token_count",
			},
		}},
		"qwen-code.api_error": {{does: failure, reason: "systemPayload uiEvent error_message"}},
		"chat_compression":    {{does: compaction}},
	},
}

var copilot = table{
	program: "Copilot CLI", session: "data sessionId", version: "data copilotVersion", created: "data startTime", kind: "type", time: "timestamp",
	rules: map[string][]rule{
		"user.message":      {{does: prompt, id: "id", text: "data content"}},
		"assistant.message": {{does: answer, id: "id", text: "data content", model: "data model", more: "data toolRequests"}},
		"session.usage_record": {{does: answer, id: "id", model: "data usage model", usage: &counts{
			input: []string{"data usage inputTokens"}, output: []string{"data usage outputTokens"}, cached: "data usage cacheReadTokens",
		}}},
		"session.shutdown": {{does: totals, in: "data modelMetrics", key: "id", usage: &counts{
			input: []string{"usage inputTokens"}, output: []string{"usage outputTokens"}, cached: "usage cacheReadTokens",
		}}},
		"tool.execution_start": {{
			does: call, id: "data toolCallId", name: "data mcpToolName|data toolName", server: "data mcpServerName", text: "data arguments",
		}},
		"tool.execution_complete": {{
			does: result, id: "data toolCallId", status: "data success", exit: "data shellExecution exitCode", reason: "data error message|data error",
			text: "data result content",
		}},
		"abort":                       {{does: abort}},
		"session.error":               {{does: failure, reason: "data message"}},
		"session.compaction_complete": {{does: compaction}},
	},
}

var opencode = table{
	program: "opencode", session: "info id", version: "info version", created: "info time created", parent: "info parentID",
	list: "messages", kind: "info role", time: "info time created",
	rules: map[string][]rule{
		"user": {{does: prompt, id: "info id", key: "info time created", text: "parts"}},
		"assistant": {
			{
				does: answer, id: "info id", key: "info time created", time: "info time completed", model: "info modelID", text: "parts",
				usage: &counts{
					input:  []string{"info tokens input", "info tokens cache read", "info tokens cache write"},
					output: []string{"info tokens output"}, cached: "info tokens cache read", total: "info tokens total",
				},
			},
			{does: call, in: "parts", when: "type=tool", id: "callID", time: "state time start", name: "tool", text: "state input"},
			{does: result, in: "parts", when: "type=tool", id: "callID", time: "state time end", status: "state status", reason: "state error", text: "state output"},
			{does: compaction, in: "parts", when: "type=compaction"},
			{does: abort, when: "info error name=MessageAbortedError"},
			{does: failure, when: "info error", reason: "info error data message|info error name"},
		},
	},
}

var cline = table{
	program: "Cline", session: "sessionId", version: "origin version", list: "messages", kind: "role", time: "ts",
	rules: map[string][]rule{
		"user": {
			{does: prompt, id: "id", text: "content"},
			{does: result, in: "content", when: "type=tool_result", id: "tool_use_id", status: "is_error", reason: "content", text: "content"},
		},
		"assistant": {
			{does: answer, id: "id", model: "modelInfo id", text: "content", usage: &counts{
				input: []string{"metrics inputTokens"}, output: []string{"metrics outputTokens"}, cached: "metrics cacheReadTokens",
			}},
			{does: call, in: "content", when: "type=tool_use", id: "id", name: "name", text: "input"},
		},
	},
}

// Forms are those of the sessions that these programs keep or export.
var Forms = []*source.Form{
	{
		Name: "gemini-chat", About: "a session of Gemini CLI",
		Lines: []string{"sessionId projectHash startTime"}, Open: gemini.openFile, Instead: unchanged, Beside: besideGemini,
		Place: &source.Place{Agent: "gemini", Home: ".gemini", Files: []string{"tmp/*/chats/session-*.jsonl"}, ID: geminiID},
	},
	{
		Name: "gemini-document", About: "a session of an older Gemini CLI",
		Document: []string{"sessionId projectHash startTime messages"}, Open: geminiDocument.openFile, Instead: unchanged,
		Place: &source.Place{Agent: "gemini", Home: ".gemini", Files: []string{"tmp/*/chats/session-*.json"}, ID: geminiID},
	},
	{
		Name: "qwen-chat", About: "a chat of Qwen Code",
		Lines: []string{"uuid parentUuid sessionId timestamp type message.role message.parts", "uuid parentUuid sessionId timestamp subtype systemPayload"},
		Open:  qwen.openFile, Instead: unchanged,
		Place: &source.Place{Agent: "qwen", Home: ".qwen", Files: []string{"projects/*/chats/*.jsonl"}, ID: regexp.MustCompile(`([^/]+)\.jsonl$`)},
	},
	{
		Name: "copilot", About: "a session of GitHub Copilot CLI",
		Lines: []string{"type=session.start data.producer=copilot-agent id timestamp parentId"},
		Open:  copilot.openFile, Instead: unchanged,
		Place: &source.Place{Agent: "copilot", Home: ".copilot", Files: []string{"session-state/*/events.jsonl"}, ID: regexp.MustCompile(`([^/]+)/events\.jsonl$`)},
	},
	{
		Name: "opencode", About: "an exported session of opencode",
		Document: []string{"info.id info.projectID messages.0.info messages.0.parts"}, Open: opencode.openFile, Instead: "export it again (opencode export ID)",
	},
	{
		Name: "cline", About: "a session of Cline",
		Document: []string{"version updated_at agent sessionId messages"}, Open: cline.openFile, Instead: unchanged,
	},
}

// besideGemini reports whether a file is in a folder with the id of a session that is next to it.
func besideGemini(folder fs.FS, name string) bool {
	id := path.Base(path.Dir(name))
	if len(id) != len("2cc3b2ef-3068-4b73-a4c7-83ac08a16fc7") {
		return false
	}
	sessions, _ := fs.ReadDir(folder, path.Dir(path.Dir(name)))
	return slices.ContainsFunc(sessions, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), "-"+id[:8]+".jsonl") })
}

// geminiID is the end of the name of a session.
var geminiID = regexp.MustCompile(`-([0-9a-f]+)\.jsonl?$`)

const unchanged = "check that the file was not changed"
