package again

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/inflate"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/peer/replay"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/run/agent"
)

// A player answers what an agent asks over HTTP: from the record or, where that is wanted, by the real server.
type player struct {
	*record
	*reader
	Options
	alike, loosely map[[32]byte][]*call
	outside        http.RoundTripper

	mu         sync.Mutex
	isLive     bool // a model has been asked
	liveCalls  int
	liveFailed int
	liveError  string // the last one
	played     int    // model calls,
	tools      map[string]int
	others     int
	loose      int // of these, where the agent's own texts differ
	refused    []refusal
	idle       bool     // nothing was asked
	own        []string // hosts that were refused and that the agent calls for itself
	transcript map[string]*thread
}

// A refusal is a request that was not answered.
type refusal struct {
	text string
	// departs means that the agent has left the record; else it is a call that it makes for itself.
	departs bool
	at      time.Time
}

// A thread is the conversation up to an answer, which a provider would hold.
type thread struct {
	items []json.RawMessage
	turn  int
}

func newPlayer(r *record, o Options) *player {
	here := o.folder()
	p := &player{record: r, reader: newReader(o.Agent.Getenv, r.run.Project, here), Options: o, alike: map[[32]byte][]*call{}, loosely: map[[32]byte][]*call{}, tools: map[string]int{}, transcript: map[string]*thread{}}
	p.outside = agent.Outside(o.Agent.Getenv)
	for _, c := range r.calls {
		c.question = p.read(c.method, c.target, c.body)
		p.alike[c.sum] = append(p.alike[c.sum], c)
		p.loosely[c.question.loose] = append(p.loosely[c.question.loose], c)
	}
	return p
}

// recordedFor returns the recorded call with the same question: of several, the next one, or else the last.
func (p *player) recordedFor(q *question) (*call, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, list := range [][]*call{p.alike[q.sum], p.loosely[q.loose]} {
		list = slices.DeleteFunc(slices.Clone(list), func(c *call) bool { return !c.isPlayable() })
		if len(list) == 0 {
			continue
		}
		c := list[len(list)-1]
		if j := slices.IndexFunc(list, func(c *call) bool { return c.asked == 0 }); j >= 0 {
			c = list[j]
		}
		c.asked++
		return c, i > 0
	}
	return nil, false
}

func (c *call) isPlayable() bool { return c.status > 0 || c.dropped }

const maxBody = frame.DefaultLimit

var errTooLarge = fmt.Errorf("a body is over the limit of %d bytes", maxBody)

// ServeHTTP answers a request.
func (p *player) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		p.serveSocket(w, r)
		return
	}
	body, err := inflate.ReadAll(r.Body, maxBody, errTooLarge)
	if err != nil {
		http.Error(w, "wirectl: "+err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	plain := body
	if name := r.Header.Get("Content-Encoding"); inflate.Knows(name) {
		if in, err := inflate.Open(name, bytes.NewReader(body)); err == nil {
			if plain, err = inflate.ReadAll(in, maxBody, errTooLarge); err != nil {
				plain = body
			}
			in.Close()
		}
	}
	q := p.read(r.Method, r.URL.RequestURI(), plain)
	if q.kind != model && p.toolIsLive(r.URL.Host) {
		p.forward(w, r, body, &url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host}, func(string) {})
		return
	}
	if q.kind == model && p.goesLive(&q) {
		p.askLive(w, r, plain)
		return
	}
	c, loosely := p.recordedFor(&q)
	switch {
	case c == nil && q.kind == model && p.afterLive():
		p.askLive(w, r, plain)
	case c == nil && q.kind == answer: // nothing is answered, so that anything may be said
		w.WriteHeader(http.StatusAccepted)
	case c == nil:
		p.reject(w, r, &q)
	default:
		p.tally(c, &q, loosely)
		p.learn(c, plain)
		p.replayCall(r.Context(), w, c, &q)
	}
}

// tally counts a call that is played.
func (p *player) tally(c *call, q *question, loosely bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch q.kind {
	case model:
		p.played++
	case rpc:
		p.tools[cmp.Or(p.nameOf(c.host), c.wire)]++
	case other, answer:
		p.others++
	}
	if loosely {
		p.loose++
	}
}

// nameOf returns the name of a server that is reached over HTTP.
func (p *player) nameOf(host string) string {
	return cmp.Or(p.Names[host], strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":80"))
}

// hopByHop are fields of recorded answers that belong to their connection or to their bytes.
var hopByHop = []string{"connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "trailer", "upgrade", "date", "alt-svc", "set-cookie", "wirectl-absent"}

// replayCall plays a recorded answer.
func (p *player) replayCall(ctx context.Context, w http.ResponseWriter, c *call, q *question) {
	for _, f := range c.head.Fields {
		if name := strings.ToLower(f.Name); !slices.Contains(hopByHop, name) && !strings.HasPrefix(name, ":") {
			w.Header().Add(f.Name, f.Value)
		}
	}
	began, out := time.Now(), http.NewResponseController(w)
	started := false
	begin := func() {
		if !started {
			w.WriteHeader(c.status)
			started = true
		}
	}
	if c.events {
		begin()
		_ = out.Flush()
	}
	for _, piece := range c.pieces {
		if !p.pause(ctx, began, piece.after) {
			return
		}
		if c.dropped {
			panic(http.ErrAbortHandler)
		}
		begin()
		data := q.withIDs(piece.data, &c.question)
		if c.events {
			data = eventOf(piece, data)
		}
		if _, err := w.Write(data); err != nil {
			return
		}
		if c.events {
			_ = out.Flush()
		}
	}
	begin()
	switch c.end {
	case cut:
		_ = out.Flush()
		panic(http.ErrAbortHandler)
	case left: // the agent did not wait for the end
		<-ctx.Done()
	case whole:
	}
}

// pause waits for the time of a piece, and reports whether its client is still there.
func (p *player) pause(ctx context.Context, began time.Time, after time.Duration) bool {
	if p.Speed > 0 {
		return wait.For(ctx, time.Until(began.Add(time.Duration(float64(after)/p.Speed)))) == nil
	}
	return ctx.Err() == nil
}

func eventOf(p piece, data []byte) []byte {
	var b bytes.Buffer
	if p.event != "" && p.event != "message" {
		b.WriteString("event: " + p.event + "\n")
	}
	if p.eventID != "" {
		b.WriteString("id: " + p.eventID + "\n")
	}
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		b.WriteString("data: ")
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// withIDs puts the ids of a live request of JSON-RPC in the place of the recorded ones.
func (q *question) withIDs(data []byte, recorded *question) []byte {
	if q.kind != rpc || len(data) == 0 {
		return data
	}
	_, isAsked := jsonscan.Get(data, "method")
	var places []protocol.Place
	var s jsonscan.Scanner
	s.Init(data)
	change := func(was, is []byte) {
		s.Peek()
		at := s.Offset()
		if value := s.Value(); len(is) > 0 && bytes.Equal(value, was) {
			places = append(places, protocol.Place{Start: at, End: at + len(value), Text: is})
		}
	}
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "id":
			if !isAsked {
				change(recorded.id, q.id)
			}
		case "params":
			for ok := s.Peek() == jsonscan.Object && s.Object(); ok && s.Next(); {
				if string(s.Key()) == "progressToken" {
					change(recorded.token, q.token)
				}
			}
		}
	}
	return protocol.AppendPlaced(nil, data, places)
}

// reject answers a request that was not recorded.
func (p *player) reject(w http.ResponseWriter, r *http.Request, q *question) {
	text, departs := p.unknown(q, r.URL.Host), q.kind != other
	p.mu.Lock()
	if !slices.ContainsFunc(p.refused, func(f refusal) bool { return f.text == text }) {
		p.refused = append(p.refused, refusal{text, departs, time.Now()})
	}
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Should-Retry", "false")
	switch q.kind {
	case rpc:
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":%s}}`, q.id, jsonscan.AppendQuote(nil, []byte(text)))
	case model: // a status of the client's fault: agents would ask again after 501
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(llm.EncodeError(apiOf(r.URL.Path), &llm.Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Code: "not_recorded", Message: text}))
	default:
		w.WriteHeader(http.StatusNotImplemented)
		fmt.Fprintf(w, `{"error":{"message":%s}}`, jsonscan.AppendQuote(nil, []byte(text)))
	}
}

// apiOf returns the API of a model by the path of a request.
func apiOf(target string) llm.API {
	switch name := path.Base(target); {
	case name == "messages" || strings.HasSuffix(target, "messages/count_tokens"):
		return llm.Messages
	case name == "responses":
		return llm.Responses
	case strings.Contains(name, ":"):
		return llm.Contents
	}
	return llm.Chat
}

// unknown says that a question was never recorded, and what differs from the nearest one.
func (p *player) unknown(q *question, host string) string {
	text := q.label
	if q.turn > 0 {
		text += fmt.Sprintf(" of turn %d", q.turn)
	}
	if host != "" && q.kind != model {
		text += " to " + p.nameOf(host)
	}
	best, changes := p.nearest(q)
	switch {
	case best == nil:
		return text + " was never recorded, nor anything like it"
	case len(changes) == 0 && best.status == 0:
		return fmt.Sprintf("%s is frame %d, whose answer is not in the record", text, best.seq)
	}
	return fmt.Sprintf("%s was never recorded; the nearest is frame %d, %s, which differs in %s", text, best.seq, best.label, replay.InWords(shortened(changes)))
}

// shortened returns changes that begin shortly before the values differ.
func shortened(changes []replay.Change) []replay.Change {
	const before, least = 20, 40
	for i, c := range changes {
		a, b := llm.Unquote([]byte(c.Recorded)), llm.Unquote([]byte(c.Live))
		n := 0
		for n < min(len(a), len(b)) && a[n] == b[n] {
			n++
		}
		if n < least {
			continue
		}
		from := n - before
		for from > 0 && !utf8.RuneStart(a[from]) {
			from--
		}
		changes[i].Recorded, changes[i].Live = string(llm.Quote("…"+a[from:])), string(llm.Quote("…"+b[from:]))
	}
	return changes
}

// nearest returns the most similar recorded call of the kind of a question, and how it differs. Model calls are similar
// as far as they begin with the same messages.
func (p *player) nearest(q *question) (best *call, changes []replay.Change) {
	const most = 20 // are compared, of those that begin alike
	var list []*call
	alike := 0
	for _, c := range p.calls {
		if c.kind != q.kind || q.kind == other && c.parts[0] != q.parts[0] {
			continue
		}
		n := 0
		for n < min(len(c.parts), len(q.parts)) && c.parts[n] == q.parts[n] {
			n++
		}
		if n > alike || list == nil {
			list, alike = nil, n
		}
		if n == alike && len(list) < most {
			list = append(list, c)
		}
	}
	for _, c := range list {
		if differ := replay.Changes(c.doc, q.doc); best == nil || len(differ) < len(changes) {
			best, changes = c, differ
		}
	}
	return best, changes
}

// refuses says why a host cannot be reached: the record has nothing of it.
func (p *player) refuses(address string, listed bool) error {
	if listed || p.hosts[address] || p.toolIsLive(address) {
		return nil
	}
	name := strings.TrimSuffix(address, ":443")
	isOwn := p.isOwn(name) || slices.Contains(p.run.Unread, name)
	p.mu.Lock()
	defer p.mu.Unlock()
	if isOwn {
		if !slices.Contains(p.own, name) {
			p.own = append(p.own, name)
		}
	} else if text := name + " (the record has nothing of it)"; !slices.ContainsFunc(p.refused, func(f refusal) bool { return f.text == text }) {
		p.refused = append(p.refused, refusal{text, true, time.Now()})
	}
	return errors.New(name + " is not in the record of " + p.run.ID + ", and a replay reaches nothing else")
}

func (p *player) isOwn(name string) bool {
	return slices.ContainsFunc(agent.KindOf(p.run.Agent).Own, func(pattern string) bool {
		found, _ := path.Match(pattern, name)
		return found
	})
}

// toolIsLive reports whether requests to a host, other than for a model, are for its real server.
func (p *player) toolIsLive(host string) bool {
	if slices.ContainsFunc([]string{host, p.nameOf(host), hostname(host)}, func(name string) bool { return p.Tools[name] == Live }) {
		return true
	}
	_, isNamed := p.Tools[p.nameOf(host)]
	return p.ToolsLive && !isNamed && p.isServer(host)
}

func hostname(address string) string {
	name, _, _ := net.SplitHostPort(address)
	return name
}

// isServer reports whether a host is that of a server of tools.
func (p *player) isServer(host string) bool {
	if p.Names[host] != "" {
		return true
	}
	return slices.ContainsFunc(p.calls, func(c *call) bool { return c.host == host && (c.kind == rpc || c.kind == answer) })
}

// goesLive reports whether a model call is for the model, and notes that.
func (p *player) goesLive(q *question) bool {
	if !p.ModelLive {
		return false
	}
	turn := q.turn
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.transcript[q.previous]; q.previous != "" && t != nil {
		turn = t.turn + 1
	}
	if turn > p.From {
		p.isLive = true
		return true
	}
	return false
}

func (p *player) afterLive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isLive
}

// learn keeps the conversation up to an answer that names itself, so that a model can go on with it.
func (p *player) learn(c *call, body []byte) {
	if c.kind != model || !p.ModelLive || apiOf(pathIn(c.target)) != llm.Responses {
		return
	}
	for _, piece := range c.pieces {
		if kind, _ := jsonscan.Get(piece.data, "type"); !c.events && c.socket == nil || llm.Unquote(kind) == "response.completed" {
			p.keep(body, piece.data)
		}
	}
}

func pathIn(target string) string {
	target, _, _ = strings.Cut(target, "?")
	return target
}

// keep keeps the conversation of a request and its answer.
func (p *player) keep(body, data []byte) {
	response, ok := jsonscan.Get(data, "response")
	if !ok {
		response = data
	}
	id, _ := jsonscan.Get(response, "id")
	output, _ := jsonscan.Get(response, "output")
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &thread{items: p.input(body), turn: 1}
	if previous, _ := jsonscan.Get(body, "previous_response_id"); len(previous) > 0 && p.transcript[llm.Unquote(previous)] != nil {
		t.turn = p.transcript[llm.Unquote(previous)].turn + 1
	} else {
		t.turn = p.read(http.MethodPost, "/", body).turn
	}
	if generate, _ := jsonscan.Get(body, "generate"); string(generate) == "false" {
		t.turn-- // nothing was answered
	}
	for _, item := range llm.Elements(output) {
		t.items = append(t.items, bytes.Clone(item))
	}
	p.transcript[llm.Unquote(id)] = t
}

// input returns the whole input of a request of Responses.
func (p *player) input(body []byte) (items []json.RawMessage) {
	if previous, _ := jsonscan.Get(body, "previous_response_id"); len(previous) > 0 {
		if t := p.transcript[llm.Unquote(previous)]; t != nil {
			items = slices.Clone(t.items)
		}
	}
	input, _ := jsonscan.Get(body, "input")
	for _, item := range llm.Elements(input) {
		items = append(items, bytes.Clone(item))
	}
	return items
}

// credentials are the fields of requests with the credentials of the model that the agent has asked.
var credentials = []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Cookie", "Proxy-Authorization", "Chatgpt-Account-Id", "Openai-Organization", "Openai-Project"}

// KeyVariable is the variable with the key for --model URL.
const KeyVariable = "WIRECTL_MODEL_KEY"

// liveBody returns the body of a request to a model: with the whole conversation where the provider of the record held
// it, and with the name of the other model.
func (p *player) liveBody(body []byte) []byte {
	var object map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil {
		return body
	}
	changed := false
	if object["previous_response_id"] != nil {
		p.mu.Lock()
		items := p.input(body)
		known := p.transcript[llm.Unquote(object["previous_response_id"])] != nil
		p.mu.Unlock()
		if known {
			object["input"] = jsonscan.MustMarshal(items)
			delete(object, "previous_response_id")
			changed = true
		}
	}
	if p.ModelName != "" && object["model"] != nil {
		object["model"] = jsonscan.AppendQuote(nil, []byte(p.ModelName))
		changed = true
	}
	if !changed {
		return body
	}
	return jsonscan.MustMarshal(object)
}

// askLive sends a model call to the model.
func (p *player) askLive(w http.ResponseWriter, r *http.Request, body []byte) {
	p.mu.Lock()
	p.liveCalls++
	p.mu.Unlock()
	body = p.liveBody(body)
	target := &url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host}
	r.Header.Del("Content-Encoding")
	if p.ModelURL != nil {
		target = p.ModelURL
		p.redirect(r)
	}
	p.forward(w, r, body, target, func(text string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.liveFailed++
		p.liveError = text
	})
}

// redirect changes a request for another model: its path, its name in the path, and its credentials.
func (p *player) redirect(r *http.Request) {
	for _, name := range credentials {
		r.Header.Del(name)
	}
	query := r.URL.Query()
	query.Del("key")
	r.URL.RawQuery = query.Encode()
	api := apiOf(r.URL.Path)
	if key := p.Agent.Getenv(KeyVariable); key != "" {
		switch api {
		case llm.Messages:
			r.Header.Set("X-Api-Key", key)
		case llm.Contents:
			r.Header.Set("X-Goog-Api-Key", key)
		case llm.Chat, llm.Responses:
			r.Header.Set("Authorization", "Bearer "+key)
		}
	}
	if p.ModelName != "" && api == llm.Contents {
		_, method, _ := strings.Cut(path.Base(r.URL.Path), ":")
		r.URL.Path = path.Dir(r.URL.Path) + "/" + p.ModelName + ":" + method
	}
	versions := []string{"/v1beta/", "/v1/"}
	if at := slices.IndexFunc(versions, func(v string) bool { return strings.Contains(r.URL.Path, v) }); at >= 0 {
		r.URL.Path = r.URL.Path[strings.Index(r.URL.Path, versions[at]):]
		if v := strings.TrimSuffix(versions[at], "/"); strings.HasSuffix(strings.TrimSuffix(p.ModelURL.Path, "/"), v) {
			r.URL.Path = strings.TrimPrefix(r.URL.Path, v)
		}
	} else if api == llm.Responses { // as of ChatGPT
		r.URL.Path = "/responses"
		if !strings.HasSuffix(strings.TrimSuffix(p.ModelURL.Path, "/"), "/v1") {
			r.URL.Path = "/v1/responses"
		}
	}
	r.URL.RawPath = ""
}

// forward sends a request to a real server. An error, or an answer with one, is noted.
func (p *player) forward(w http.ResponseWriter, r *http.Request, body []byte, target *url.URL, failed func(text string)) {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	proxy := httputil.ReverseProxy{
		Transport: p.outside, FlushInterval: -1, ErrorLog: quietLog,
		Rewrite: func(out *httputil.ProxyRequest) {
			out.SetURL(target)
			out.Out.Header.Del("Content-Length")
		},
		ModifyResponse: func(answer *http.Response) error {
			if answer.StatusCode >= http.StatusBadRequest {
				failed("HTTP " + answer.Status)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			failed(err.Error())
			http.Error(w, "wirectl: "+err.Error(), http.StatusBadGateway)
		},
	}
	proxy.ServeHTTP(w, r)
}

// never returns what of the record was not asked, as counts by what it is.
func (p *player) never() []string {
	counts := map[string]int{}
	for _, c := range p.calls {
		if c.asked > 0 || !c.isPlayable() || c.kind == answer {
			continue
		}
		switch c.kind {
		case model:
			if !p.ModelLive || c.turn > 0 && c.turn <= p.From {
				counts["model call"]++
			}
		case rpc:
			if !p.toolIsLive(c.host) {
				counts["call of "+p.nameOf(c.host)]++
			}
		case other, answer:
			counts["other request"]++
		}
	}
	var list []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, countOf(counts[what], what))
	}
	return list
}
