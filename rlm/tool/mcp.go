package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/wirectl/wirectl/rlm"
)

const (
	maxPages   = 100  // of a list of tools
	maxOffered = 1000 // tools of a server
)

// addMCP adds the tools of a server.
func (s *Set) addMCP(ctx context.Context, name string, e *entry, w World) error {
	token := ""
	if e.Token != "" {
		if token = w.Getenv(e.Token); token == "" {
			return fmt.Errorf("%s: the environment variable %s is not set", name, e.Token)
		}
	}
	server, err := w.Dial(ctx, e.MCP, token)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s.close = append(s.close, server.Close)
	tools, err := listTools(ctx, server)
	if err != nil {
		return fmt.Errorf("%s: list of tools: %w", name, err)
	}
	for _, t := range tools {
		theirs := t.Name
		t.Name = uncallable.ReplaceAllString(t.Name, "_")
		if !e.wants(t.Name) {
			continue
		}
		if !isCallable(t.Name) {
			return fmt.Errorf("%s: the tool %q has a name that models cannot call: list the others in only", name, theirs)
		}
		err := s.addTool(t, func(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error) {
			return callMCP(ctx, server, theirs, arguments)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// listTools asks a server for all its tools.
func listTools(ctx context.Context, server Server) (tools []rlm.Tool, err error) {
	params := json.RawMessage(`{}`)
	for range maxPages {
		result, err := server.Ask(ctx, "tools/list", params)
		if err != nil {
			return nil, err
		}
		var page struct {
			Tools []struct {
				Name        string          `json:"name"`
				Description string          `json:"description"`
				Schema      json.RawMessage `json:"inputSchema"`
			} `json:"tools"`
			Next string `json:"nextCursor"`
		}
		if err := json.Unmarshal(result, &page); err != nil {
			return nil, err
		}
		for _, t := range page.Tools {
			parameters := t.Schema
			if len(parameters) == 0 || parameters[0] != '{' {
				parameters = anyObject
			}
			tools = append(tools, rlm.Tool{Name: t.Name, Description: t.Description, Parameters: parameters})
		}
		if page.Next == "" {
			return tools, nil
		}
		if len(tools) > maxOffered {
			break
		}
		if params, err = json.Marshal(map[string]string{"cursor": page.Next}); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("more than %d pages or %d tools", maxPages, maxOffered)
}

// callMCP calls a tool. The result is the structured content, or the text, or else the whole
// content.
func callMCP(ctx context.Context, server Server, name string, arguments json.RawMessage) (json.RawMessage, error) {
	params, err := json.Marshal(map[string]any{"name": name, "arguments": arguments})
	if err != nil {
		return nil, err
	}
	answer, err := server.Ask(ctx, "tools/call", params)
	if err != nil {
		return nil, err
	}
	var result struct {
		Content    json.RawMessage `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool            `json:"isError"`
	}
	if err := json.Unmarshal(answer, &result); err != nil {
		return nil, err
	}
	text, isText := textOf(result.Content)
	switch {
	case result.IsError && isText:
		return nil, errors.New(text)
	case result.IsError:
		return nil, fmt.Errorf("the tool failed: %s", result.Content)
	case len(result.Structured) > 0 && result.Structured[0] == '{':
		return result.Structured, nil
	case isText:
		return asResult(text), nil
	case len(result.Content) == 0:
		return json.RawMessage("null"), nil
	}
	return result.Content, nil
}

// textOf returns the text of content that is only text.
func textOf(content json.RawMessage) (text string, ok bool) {
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &parts) != nil || len(parts) == 0 {
		return "", false
	}
	texts := make([]string, len(parts))
	for i, p := range parts {
		if p.Type != "text" {
			return "", false
		}
		texts[i] = p.Text
	}
	return strings.Join(texts, "\n"), true
}
