package again

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/sse"
	"github.com/wirectl/wirectl/llm"
)

var quietLog = log.New(io.Discard, "", 0)

// serveSocket plays a WebSocket: each message of the agent is answered by what followed the same message in the record, on
// whatever connection.
func (p *player) serveSocket(w http.ResponseWriter, r *http.Request) {
	if p.ModelLive && p.From == 0 && p.ModelURL == nil || p.toolIsLive(r.URL.Host) {
		p.mu.Lock()
		p.isLive, p.liveCalls = true, p.liveCalls+1
		p.mu.Unlock()
		p.forward(w, r, nil, &url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host}, func(string) {})
		return
	}
	s := p.socketAt(r.URL.Path)
	if s == nil && !(p.ModelLive && apiOf(r.URL.Path) == llm.Responses) {
		q := p.read(r.Method, r.URL.RequestURI(), nil)
		q.label = "WebSocket " + r.URL.Path
		p.reject(w, r, &q)
		return
	}
	o := &websocket.AcceptOptions{InsecureSkipVerify: true} // the connection comes from the agent itself
	if s != nil {
		for _, f := range s.upgrade.head.Fields {
			switch name := strings.ToLower(f.Name); {
			case name == "sec-websocket-protocol":
				o.Subprotocols = []string{f.Value}
			case !slices.Contains(hopByHop, name) && !strings.HasPrefix(name, "sec-websocket-"):
				w.Header().Add(f.Name, f.Value)
			}
		}
	}
	conn, err := websocket.Accept(w, r, o)
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(maxBody)
	if s != nil {
		if p.sendPieces(r.Context(), conn, s.first, time.Now()) != nil {
			return
		}
	}
	for {
		_, data, err := conn.Read(r.Context())
		if err != nil {
			return
		}
		q := p.read("message", r.URL.RequestURI(), data)
		live := q.kind == model && p.goesLive(&q)
		var c *call
		loosely := false
		if !live {
			c, loosely = p.recordedFor(&q)
			live = c == nil && q.kind == model && p.afterLive()
		}
		switch {
		case live:
			err = p.askOverHTTP(r, conn, data)
		case c == nil:
			answer := &held{header: http.Header{}}
			p.reject(answer, r, &q)
			err = conn.Write(r.Context(), websocket.MessageText, errorEvent(answer.Bytes()))
		default:
			p.tally(c, &q, loosely)
			p.learn(c, data)
			err = p.sendPieces(r.Context(), conn, c.pieces, time.Now())
		}
		if err != nil {
			return
		}
	}
}

// errorEvent returns an error as an event of Responses and of Realtime.
func errorEvent(body []byte) []byte {
	text, _ := jsonscan.Get(body, "error")
	if len(text) == 0 {
		text = body
	}
	return slices.Concat([]byte(`{"type":"error","status":400,"error":`), text, []byte("}"))
}

// A held answer is kept instead of being sent.
type held struct {
	bytes.Buffer
	header http.Header
}

func (h *held) Header() http.Header { return h.header }
func (h *held) WriteHeader(int)     {}

func (p *player) socketAt(path string) *socket {
	at := slices.IndexFunc(p.sockets, func(s *socket) bool { return pathIn(s.upgrade.target) == path })
	if at < 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sockets[at].upgrade.asked++
	return p.sockets[at]
}

func (p *player) sendPieces(ctx context.Context, conn *websocket.Conn, pieces []piece, began time.Time) error {
	for _, piece := range pieces {
		if !p.pause(ctx, began, piece.after) {
			return ctx.Err()
		}
		kind := websocket.MessageText
		if piece.opcode == frame.BinMsg {
			kind = websocket.MessageBinary
		}
		if err := conn.Write(ctx, kind, piece.data); err != nil {
			return err
		}
	}
	return nil
}

// askOverHTTP asks a model over HTTP for an agent that speaks WebSocket, as Codex does. The events of the answer are its
// messages.
func (p *player) askOverHTTP(r *http.Request, conn *websocket.Conn, data []byte) error {
	ctx := r.Context()
	p.mu.Lock()
	p.liveCalls++
	p.mu.Unlock()
	var object map[string]json.RawMessage
	if err := json.Unmarshal(p.liveBody(data), &object); err != nil {
		return err
	}
	if string(object["generate"]) == "false" { // it only prepares a connection
		answer := []byte(`{"type":"response.completed","response":{"id":"resp_prepared","object":"response","status":"completed","output":[]}}`)
		p.keep(data, answer)
		return conn.Write(ctx, websocket.MessageText, answer)
	}
	delete(object, "type")
	delete(object, "generate")
	object["stream"] = json.RawMessage("true")
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL.String(), bytes.NewReader(jsonscan.MustMarshal(object)))
	if err != nil {
		return err
	}
	for name, values := range r.Header {
		if lower := strings.ToLower(name); lower != "connection" && lower != "upgrade" && !strings.HasPrefix(lower, "sec-websocket-") {
			request.Header[name] = values
		}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/event-stream")
	if p.ModelURL != nil {
		p.redirect(request)
		request.URL.Scheme, request.URL.Host = p.ModelURL.Scheme, p.ModelURL.Host
		request.URL.Path = strings.TrimSuffix(p.ModelURL.Path, "/") + request.URL.Path
	}
	request.Host = request.URL.Host
	answer, err := p.outside.RoundTrip(request)
	if err != nil {
		return conn.Write(ctx, websocket.MessageText, errorEvent(jsonscan.MustMarshal(map[string]any{"error": map[string]string{"message": err.Error()}})))
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
		if !json.Valid(text) {
			text = jsonscan.AppendQuote(nil, text)
		}
		return conn.Write(ctx, websocket.MessageText, errorEvent(text))
	}
	for e, err := range sse.Events(answer.Body, maxBody, errTooLarge) {
		if err != nil {
			return err
		}
		if e == sse.Comment || len(e.Data) == 0 || string(e.Data) == "[DONE]" {
			continue
		}
		if kind, _ := jsonscan.Get(e.Data, "type"); llm.Unquote(kind) == "response.completed" {
			p.keep(data, e.Data)
		}
		if err := conn.Write(ctx, websocket.MessageText, e.Data); err != nil {
			return err
		}
	}
	return nil
}
