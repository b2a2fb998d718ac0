package question

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/peer/client"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/env"
	"github.com/wirectl/wirectl/rlm/tool"
	"github.com/wirectl/wirectl/transport"
)

// tools loads the tools of the run, if it has any. The returned function ends them.
func (r *run) tools(ctx context.Context) (end func(), err error) {
	if r.Tools == "" {
		return func() {}, nil
	}
	set, err := tool.Load(ctx, r.Tools, tool.World{Dial: r.dialMCP, Open: r.openFunctions, Getenv: r.Getenv, Patience: r.o.Limits.Timeout, Code: r.o.Mode == rlm.Code})
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, cmdline.Errorf("%w", err)
	}
	end = func() {
		if err := set.Close(); err != nil {
			r.Say("warning: tools: " + err.Error())
		}
	}
	if choice := r.o.ToolChoice; choice != "" && !chosen(choice, set.Definitions()) {
		end()
		return nil, cmdline.Errorf("tool_choice is %q: want auto, none, required, or the name of a tool", choice)
	}
	r.o.Tools = set
	return end, nil
}

func chosen(choice string, tools []rlm.Tool) bool {
	return slices.Contains([]string{"auto", "none", "required"}, choice) || slices.ContainsFunc(tools, func(t rlm.Tool) bool { return t.Name == choice })
}

// openFunctions starts the interpreter of a file of functions, with the isolation of code.
func (r *run) openFunctions(ctx context.Context, code string) (rlm.Environment, error) {
	of := r.o.Metadata
	open, err := r.interpreter(ctx, "python", env.PythonOptions{Site: r.Python.Site})
	r.o.Metadata = of // the run may have another one
	if err != nil {
		return nil, err
	}
	conn := r.seen.Open("worker of tools", "repl", "len32")
	return r.start(open, conn, env.Config{Spec: env.Spec{Memory: cmp.Or(r.Memory, baseMemory)}, Setup: code})
}

// dialMCP connects to an MCP server. Its messages are published as a connection.
func (r *run) dialMCP(ctx context.Context, words []string, token string) (tool.Server, error) {
	isAddress := len(words) == 1 && transport.IsWord(words[0])
	if !isAddress {
		words = append([]string{"exec"}, words...)
	}
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	endpoint, err := transport.Parse(words, transport.Options{Header: header})
	if err != nil {
		return nil, err
	}
	s := &server{conn: r.seen.Open("tools of "+endpoint.String(), jsonrpc.MCP.Name(), frame.Line.Name())}
	watch := client.NewWatch(jsonrpc.MCP, seenBy{s.conn})
	if h, ok := endpoint.(transport.HTTP); ok {
		s.rpc, err = client.DialHTTP(ctx, h.String(), client.MCP, watch, client.RPCOptions{Version: r.Version}, client.HTTPOptions{Header: header})
	} else if conn, dialErr := endpoint.Dial(ctx); dialErr != nil {
		err = dialErr
		s.conn.Unstarted(err)
	} else {
		if p, ok := conn.(transport.Process); ok {
			s.reading.Go(func() { _, _ = io.Copy(&s.complaints, p.Stderr()) })
		}
		s.rpc, err = client.DialRPC(ctx, conn, client.MCP, watch, client.RPCOptions{Version: r.Version})
	}
	if err != nil {
		s.reading.Wait()
		s.conn.Close()
		return nil, fmt.Errorf("%w%s", err, s.complaints.Said())
	}
	return s, nil
}

// A server is an MCP server. It implements [tool.Server].
type server struct {
	rpc  *client.RPC
	conn *observe.Conn

	reading    sync.WaitGroup
	complaints tool.Tail // on standard error
}

// Ask makes a request.
func (s *server) Ask(ctx context.Context, method string, params json.RawMessage) (result json.RawMessage, err error) {
	err = s.rpc.Call(method, params)(ctx, func(p client.Part) {
		if !p.Aside && p.JSON != nil {
			result = jsonscan.AppendCompact(nil, p.JSON)
		}
	})
	if answered, ok := errors.AsType[*client.PeerError](err); ok {
		return nil, fmt.Errorf("the server answered an error: %w", answered)
	}
	return result, err
}

// Close ends the connection.
func (s *server) Close() error {
	err := s.rpc.Close()
	s.reading.Wait()
	s.conn.Close()
	return err
}

// seenBy publishes the records of a client.
type seenBy struct{ conn *observe.Conn }

// Write implements [capture.Writer].
func (s seenBy) Write(r *capture.Record) error {
	s.conn.Frame(r.Frame.Dir, r.Frame.Raw, r.Frame.Start)
	return nil
}
