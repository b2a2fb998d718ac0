package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/wirectl/wirectl/internal/sse"
	"github.com/wirectl/wirectl/peer/client"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/transport"
)

// agent is the agent of the play. It speaks ACP with an editor, asks a model, and has it call the
// tools of the MCP server.
type agent struct {
	*stage
	conn  transport.Conn // to the editor
	api   string         // of the model
	tools transport.Conn
	write sync.Mutex
	work  sync.WaitGroup
}

func (a *agent) serveLines() error {
	defer a.conn.Close()
	defer a.work.Wait()
	mcp, err := client.DialRPC(a.ctx, a.tools, client.MCP, client.NewWatch(jsonrpc.MCP, nil), client.RPCOptions{Version: "demo"})
	if err != nil {
		a.tools.Close()
		return err
	}
	defer mcp.Close()
	turn, cancel := context.WithCancel(a.ctx)
	defer cancel()
	lines := bufio.NewScanner(a.conn)
	for lines.Scan() {
		var r struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Prompt []struct {
					Text string `json:"text"`
				} `json:"prompt"`
			} `json:"params"`
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		switch r.Method {
		case "initialize":
			a.answerEditor(r.ID, `{"protocolVersion":1,"agentCapabilities":{},"agentInfo":{"name":"demo","version":"1.0"}}`)
		case "session/new":
			a.answerEditor(r.ID, `{"sessionId":"s1"}`)
		case "session/prompt":
			a.work.Go(func() {
				reason := "end_turn"
				if err := a.turn(turn, mcp, r.Params.Prompt[0].Text); err != nil {
					reason = "cancelled"
				}
				a.answerEditor(r.ID, fmt.Sprintf(`{"stopReason":%q}`, reason))
			})
		case "session/cancel":
			cancel()
		}
	}
	return lines.Err()
}

func (a *agent) answerEditor(id json.RawMessage, result string) {
	a.sendLine(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func (a *agent) sendLine(format string, args ...any) {
	a.write.Lock()
	defer a.write.Unlock()
	fmt.Fprintf(a.conn, format+"\n", args...) //nolint:errcheck // the reader notices an editor that has left
}

// A message is a part of a conversation in OpenAI's format.
type message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// turn asks the model, and calls the tools that it asks for, until it asks for none.
func (a *agent) turn(ctx context.Context, mcp *client.RPC, prompt string) error {
	if err := mcp.Call("tools/list", []byte(`{}`))(ctx, ignore); err != nil {
		return err
	}
	chat := []message{{Role: "user", Content: prompt}}
	for n := 1; ; n++ {
		a.caption(map[int]string{1: "The agent asks the model. Its answer streams: each tick is a piece of text.", 2: "The results go back to the model, which asks for one tool more."}[n])
		said, err := a.askModel(ctx, chat)
		if err != nil || len(said.ToolCalls) == 0 {
			return err
		}
		chat = append(chat, *said)
		if n == 1 {
			a.caption("The model calls two tools: they are below the answer that asks for them. Ticks are reports of progress.")
		} else {
			a.caption("This tool is slow.")
		}
		var calls errgroup.Group
		results := make([]message, len(said.ToolCalls))
		for i, call := range said.ToolCalls {
			calls.Go(func() (err error) {
				results[i], err = a.callTool(ctx, mcp, &call)
				return err
			})
		}
		if err := calls.Wait(); err != nil {
			return err
		}
		chat = append(chat, results...)
		if err := a.pause(time.Second); err != nil {
			return err
		}
	}
}

// callTool calls a tool. The user presses Esc at the fourth report of the slow one.
func (a *agent) callTool(ctx context.Context, mcp *client.RPC, call *toolCall) (message, error) {
	a.sendLine(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call","toolCallId":%q,"title":%q,"kind":"search","status":"in_progress"}}}`, call.ID, call.Function.Name)
	reports, result := 0, ""
	params := fmt.Appendf(nil, `{"name":%q,"arguments":%s,"_meta":{"progressToken":%q}}`, call.Function.Name, call.Function.Arguments, call.ID)
	err := mcp.Call("tools/call", params)(ctx, func(p client.Part) {
		if reports++; reports == 4 && call.Function.Name == "index" {
			a.esc()
		}
		if !p.Aside {
			result += p.Text + string(p.JSON)
		}
	})
	return message{Role: "tool", Content: result, ToolCallID: call.ID}, err
}

// askModel asks the model for a streamed answer, and passes it on to the editor.
func (a *agent) askModel(ctx context.Context, chat []message) (*message, error) {
	body, err := json.Marshal(map[string]any{
		"model": "small", "stream": true, "stream_options": map[string]bool{"include_usage": true}, "messages": chat, "tools": json.RawMessage(offered),
	})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.api+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	t := &http.Transport{}
	defer t.CloseIdleConnections()
	answer, err := t.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(answer.Status)
	}
	said := &message{Role: "assistant"}
	for e, err := range sse.Events(answer.Body, 1<<20, errors.New("an event is too large")) {
		if err != nil {
			return nil, err
		}
		var part struct {
			Choices []struct{ Delta message }
		}
		if e == sse.Comment || strings.HasPrefix(string(e.Data), "[DONE]") {
			continue
		}
		if err := json.Unmarshal(e.Data, &part); err != nil {
			return nil, err
		}
		for _, c := range part.Choices {
			said.Content += c.Delta.Content
			for _, of := range c.Delta.ToolCalls {
				if of.Index == len(said.ToolCalls) {
					said.ToolCalls = append(said.ToolCalls, of)
				} else {
					said.ToolCalls[of.Index].Function.Arguments += of.Function.Arguments
				}
			}
			if c.Delta.Content != "" {
				a.sendLine(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%s}}}}`, jsonText(c.Delta.Content))
			}
		}
	}
	return said, nil
}

func jsonText(s string) []byte {
	b, _ := json.Marshal(s)
	return b
}

// offered are the tools as the model is told of them.
const offered = `[{"type":"function","function":{"name":"read_file","description":"Read a file","parameters":{"type":"object"}}},` +
	`{"type":"function","function":{"name":"search","description":"Search for a text","parameters":{"type":"object"}}},` +
	`{"type":"function","function":{"name":"index","description":"Index a folder","parameters":{"type":"object"}}}]`
