package nexus

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/observe"
)

// Agents are the conversations that newer clients create. Parameters for an agent with tools
// (a folder, permissions, a parent) are ignored.
type agents struct {
	broker *broker.Broker
	server *web.Server

	mu   sync.Mutex
	of   map[string]*agent
	made int // how many names were generated
}

type agent struct {
	*talk
	id      string
	created time.Time
}

// maxAgents bounds the agents that exist at once, each with its messages.
const maxAgents = 100

func newAgents(b *broker.Broker) *agents {
	return &agents{broker: b, of: map[string]*agent{}}
}

// find returns the agent of that name, or nil.
func (g *agents) find(id string) *agent {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.of[id]
}

// create makes an agent and sends its initial message, if any.
func (g *agents) create(ctx context.Context, r *web.Request, req *request, tap *observe.Conn) (any, *fault) {
	text := map[string][]byte{}
	for _, name := range []string{"agent_id", "model", "system_prompt", "initial_message"} {
		raw, f := req.textOf(name)
		if f != nil {
			return nil, f
		}
		text[name] = raw
	}
	wait, f := req.flag("wait_for_initial_response")
	if f != nil {
		return nil, f
	}
	model := plain(text["model"])
	if err := g.broker.Find(model); model != "" && err != nil {
		return nil, &fault{codeParams, broker.Message(err)}
	}
	t := newTalk(g.broker, model, text["system_prompt"])
	said, id := bytes.Clone(text["initial_message"]), newID()
	queued := said != nil && !wait
	var sending context.Context
	release := func() {}
	if queued { // before another client can send or cancel
		t.turn <- struct{}{}
		sending, release, _ = t.reserve(g.server.Context(), id)
	}
	a, f := g.addAgent(text["agent_id"], t)
	if f != nil {
		release()
		return nil, f
	}
	made := created{ID: a.id, URL: agentPath + a.id}
	if said != nil {
		made.Request = id
	}
	switch {
	case queued:
		made.Status = "queued"
		call := a.call(r, id, nil)
		g.server.Go(func() {
			defer release()
			defer a.pass()
			_, _ = a.exchange(sending, call, said) // a failure is in the log of calls
		})
	case said != nil:
		if made.Response, f = a.say(ctx, r, said, id, tap); f != nil {
			made.Response = map[string]any{"error": f}
		}
	}
	return made, nil
}

// created is the result of create_agent.
type created struct {
	ID       string          `json:"agent_id"`
	URL      string          `json:"url"`
	Request  json.RawMessage `json:"initial_request_id,omitempty"`
	Status   string          `json:"initial_status,omitempty"`
	Response any             `json:"response,omitempty"`
}

// addAgent registers an agent, with a generated name unless it has one.
func (g *agents) addAgent(token []byte, t *talk) (*agent, *fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := plain(token)
	for named := token != nil; !named; named = g.of[id] == nil {
		g.made++
		id = "." + strconv.Itoa(g.made)
	}
	switch {
	case !isName(id):
		return nil, &fault{codeParams, "agent_id must be 1 to 64 letters, digits, '.', '_' and '-', not dots alone"}
	case g.of[id] != nil:
		return nil, &fault{codeParams, "Agent already exists: " + id}
	case len(g.of) >= maxAgents:
		return nil, &fault{codeParams, fmt.Sprintf("There are too many agents (max %d)", maxAgents)}
	}
	a := &agent{t, id, time.Now().UTC()}
	g.of[id] = a
	return a, nil
}

// isName reports whether id can be the name of an agent, which is part of a path.
func isName(id string) bool {
	const bytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return len(id) <= 64 && strings.Trim(id, ".") != "" && strings.Trim(id, bytes) == ""
}

func (g *agents) destroy(req *request) (any, *fault) {
	raw, f := req.textOf("agent_id")
	switch {
	case f != nil:
		return nil, f
	case raw == nil:
		return nil, &fault{codeParams, "Missing required parameter: agent_id"}
	}
	return object(`{"success":%t,"agent_id":%s}`, g.remove(plain(raw)), raw), nil
}

// remove removes an agent and cancels its sends. It reports whether it existed.
func (g *agents) remove(id string) bool {
	g.mu.Lock()
	a := g.of[id]
	delete(g.of, id)
	g.mu.Unlock()
	if a == nil {
		return false
	}
	a.cancelAll()
	return true
}

// A listed agent is an entry of list_agents.
type listed struct {
	ID      string    `json:"agent_id"`
	Model   string    `json:"model"`
	Created time.Time `json:"created_at"`
	Count   int       `json:"message_count"`
}

// list describes the agents, in the order of their creation.
func (g *agents) list() any {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]listed, 0, len(g.of))
	for _, a := range g.of {
		list = append(list, listed{a.id, a.model, a.created, a.size()})
	}
	slices.SortFunc(list, func(a, b listed) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return map[string]any{"agents": list}
}
