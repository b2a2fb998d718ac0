package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
)

// mcpserver is a server of MCP over HTTP that prints its URL, and ends with a signal. The path of a request says what it does with calls of tools:
//
//	/pings    events, with a ping and an answer that nobody has asked for
//	/login    401
//	/forgets  the first is answered, and then its session is forgotten
//	/faulty   as plain text, after a question that the client has not agreed to answer; 200 to a
//	          notification and to GET
func mcpserver() {
	s := httptest.NewServer(http.HandlerFunc((&mcpServer{listened: make(chan struct{}, 9)}).serve))
	defer s.Close()
	fmt.Println(s.URL)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt)
	<-ended
}

type mcpServer struct {
	sessions, forgotten atomic.Int64
	listened            chan struct{} // for each GET
}

func (s *mcpServer) serve(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	_ = json.NewDecoder(r.Body).Decode(&m)
	session := fmt.Sprintf("s%d", s.sessions.Load())
	answer := func(result string) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result) }
	w.Header().Set("Content-Type", "application/json")
	faulty := strings.HasPrefix(r.URL.Path, "/faulty")
	switch {
	case faulty && r.Method == http.MethodGet, faulty && m.Method == "notifications/initialized":
		_, _ = io.WriteString(w, "null")
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
		select {
		case s.listened <- struct{}{}:
		default:
		}
	case r.Method == http.MethodDelete:
	case m.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", fmt.Sprintf("s%d", s.sessions.Add(1)))
		_, _ = io.WriteString(w, answer(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`))
	case r.Header.Get("Mcp-Session-Id") != session || s.forgotten.Load() == s.sessions.Load():
		http.Error(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`, http.StatusNotFound)
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "tools/list":
		_, _ = io.WriteString(w, answer(fmt.Sprintf(`{"tools":[{"name":"t","description":"Answers in session %s.","inputSchema":{"type":"object"}}]}`, session)))
	case strings.HasPrefix(r.URL.Path, "/login"):
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":"invalid_token"}`)
	case faulty && string(m.ID) == "2":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"sampling/createMessage\"}\n\ndata: done\n\ndata: %s\n\n", answer(`{"content":[]}`))
	case faulty:
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, answer(`{"content":[]}`))
	case strings.HasPrefix(r.URL.Path, "/pings"):
		select { // a client may leave before it listens
		case <-s.listened:
		case <-r.Context().Done():
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "event: ping\ndata: 1\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}\n\nevent: message\ndata: %s\n\n", answer(`{"content":[]}`))
	default:
		if strings.HasPrefix(r.URL.Path, "/forgets") {
			s.forgotten.CompareAndSwap(0, s.sessions.Load())
		}
		_, _ = io.WriteString(w, answer(`{"content":[{"type":"text","text":"`+session+`"}]}`))
	}
}
