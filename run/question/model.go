package question

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/config"
	door "github.com/wirectl/wirectl/broker/door/rlm"
	"github.com/wirectl/wirectl/broker/host"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/prices"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/env"
	"github.com/wirectl/wirectl/rlm/prompt"
	"github.com/wirectl/wirectl/rlm/tool"
)

// A model gives a run the models of a broker.
type model struct {
	broker *broker.Broker
	config *config.Config
	conn   *observe.Conn // publishes the calls; may be nil
	prices prices.List

	client, account string // of the calls; may be empty
}

var errNoPrice = errors.New("the cost of the run is limited, and no price is known")

// checkName returns an error if a model cannot be used.
func (m *model) checkName(name string, needPrice bool) error {
	if err := m.broker.Find(name); err != nil {
		return err
	}
	if m.config.Facts(name).RLM {
		return fmt.Errorf("the model %q is a recursive language model itself: use a model with a provider", name)
	}
	if _, known := m.price(name); !known && needPrice {
		return fmt.Errorf("%w for the model %q", errNoPrice, m.config.Facts(name).Names[0])
	}
	return nil
}

// Complete implements [rlm.Model].
func (m *model) Complete(ctx context.Context, r rlm.Request) (rlm.Completion, error) {
	c := broker.Call{Model: r.Model, Ref: r.Ref, Parent: r.Traceparent, Client: m.client, Account: m.account, Prompt: r.Prompt}
	if r.Messages != nil {
		if err := setMessages(&c, &r); err != nil {
			return rlm.Completion{}, err
		}
	}
	if err := door.Do(ctx, m.broker, &c, m.conn); err != nil {
		return rlm.Completion{Model: c.Name, Took: c.Took}, errors.New(broker.Message(err))
	}
	price, _ := m.price(r.Model)
	tokens := func(in, out int64) rlm.Tokens {
		return rlm.Tokens{Input: in, Output: out, Cost: price.Cost(in, out)}
	}
	used, text := c.Completion.Usage, c.Completion.Plain()
	done := rlm.Completion{
		Model: c.Name, Text: text, Finish: c.Completion.Finish, Took: c.Took, Tokens: tokens(used.Input, used.Output),
		Estimate: tokens(int64(len(c.Prompt)+len(c.Body))/rlm.BytesPerToken, int64(len(text))/rlm.BytesPerToken),
	}
	for i, call := range c.Completion.ToolCalls {
		id := cmp.Or(call.ID, fmt.Sprintf("%s-%d", r.Ref[strings.LastIndex(r.Ref, "/")+1:], i+1))
		done.Calls = append(done.Calls, rlm.ToolCall{ID: id, Name: call.Name, Arguments: call.Arguments})
	}
	return done, nil
}

// setMessages makes a conversation the prompt of a call, or a chat if there are tools or a
// schema.
func setMessages(c *broker.Call, r *rlm.Request) (err error) {
	if c.Prompt == nil {
		c.Prompt, err = jsonscan.Marshal(r.Messages)
	}
	if err != nil || len(r.Tools) == 0 && r.Schema == nil {
		return err
	}
	type object = map[string]any
	chat := object{"messages": json.RawMessage(c.Prompt)}
	c.Prompt = nil
	if len(r.Tools) > 0 {
		tools := make([]object, len(r.Tools))
		for i, t := range r.Tools {
			tools[i] = object{"type": "function", "function": t}
		}
		chat["tools"] = tools
		switch chat["tool_choice"] = r.ToolChoice; r.ToolChoice {
		case "auto", "none", "required":
		default:
			chat["tool_choice"] = object{"type": "function", "function": object{"name": r.ToolChoice}}
		}
	}
	if r.Schema != nil {
		chat["response_format"] = object{"type": "json_schema", "json_schema": object{"name": "answer", "schema": r.Schema}}
	}
	c.Body, err = jsonscan.Marshal(chat)
	return err
}

// CountTokens implements [rlm.TokenCounter], for models whose provider counts.
func (m *model) CountTokens(ctx context.Context, name string, messages []rlm.Message) (int, error) {
	c := broker.Call{Door: door.Name, Model: name}
	var err error
	if c.Prompt, err = jsonscan.Marshal(messages); err == nil {
		err = m.broker.Count(ctx, &c)
	}
	return int(c.Completion.Usage.Input), err
}

// price returns the price of a model: from the configuration, or else from the user's prices
// under any of its names.
func (m *model) price(name string) (prices.Price, bool) {
	facts := m.config.Facts(name)
	if facts.Price != nil {
		return *facts.Price, true
	}
	for _, name := range facts.Names {
		if price, ok := m.prices.Of(name); ok {
			return price, true
		}
	}
	return prices.Price{}, false
}

// Window implements [rlm.Model].
func (m *model) Window(name string) int { return m.config.Facts(name).ContextWindow }

// Models returns the maker of recursive language models for [host.Options]: each call to such a
// model is a run with other models of the broker.
func Models(version string) func(*host.Host, *config.Config, string, []config.Setting) (provider.Provider, error) {
	return func(h *host.Host, of *config.Config, name string, settings []config.Setting) (provider.Provider, error) {
		s, err := Read(Values(settings, nil))
		if err != nil {
			return nil, err
		}
		env.RemoveStrays()
		return &deep{host: h, config: of, name: name, settings: s, version: version}, nil
	}
}

// A deep is a model that is a recursive language model. It implements [provider.Provider].
type deep struct {
	host     *host.Host
	config   *config.Config
	name     string
	settings *Settings
	version  string

	mu    sync.Mutex
	ready open        // the opener of interpreters, once it is known
	o     rlm.Options // the options at that time
}

// deepKind is the kind of a deep, for requests.
var deepKind = provider.Kind{Name: "rlm"}

// refuse is the error for a part of a request that a run has no use for.
func refuse(api llm.API, at, instead string) error {
	return deepKind.Refusal(api, &llm.Gap{At: at, Code: llm.Unsupported, Instead: instead})
}

// inRun marks the context of a run's calls.
type inRun struct{}

// Complete implements [provider.Provider] by a run.
func (d *deep) Complete(ctx context.Context, q *provider.Request, c *provider.Completion) (err error) {
	if ctx.Value(inRun{}) != nil {
		return provider.Unanswerable("model", "model_not_available", fmt.Sprintf("The model %q is a recursive language model, and another one cannot ask it.", d.name))
	}
	chat, err := q.Read(deepKind)
	if err != nil {
		return err
	}
	settings, _ := chat.Settings() // they were read
	if len(chat.Tools) > 0 && chat.Choice != "none" {
		return refuse(q.API, "tools", "Name tools in the configuration of the model")
	}
	b, seen := d.host.Calls()
	r := &run{
		Settings: d.settings, World: World{Getenv: d.host.Getenv, Say: d.say, Version: d.version},
		config: d.config, hide: d.host.Hide, seen: seen, o: d.settings.Run, client: q.Client, account: q.Account,
	}
	folder, err := env.NewFolder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Remove()) }()
	r.dir = folder.Path
	root := seen.Open("root of "+d.name, "rlm", "len32")
	defer root.Close()
	if err := d.open(ctx, r); err != nil {
		return ended(ctx, err)
	}
	if err := r.model(b, root); err != nil {
		return err
	}
	size, err := r.take(ctx, chat, settings.Schema)
	if err != nil {
		return err
	}
	if id, _, ok := strings.Cut(strings.TrimPrefix(q.Traceparent, "00-"), "-"); ok && len(id) == 32 {
		r.o.NewID = func() string { return id } // one trace with the client's
	}
	end, err := r.prepare(ctx, size)
	if err != nil {
		return ended(ctx, err)
	}
	defer func() { err = errors.Join(err, end()) }()
	return d.answer(ctx, r, q, c, settings.Stop)
}

// say writes a line about a run to the broker's log.
func (d *deep) say(line string) { d.host.Log().Info(line, slog.String("model", d.name)) }

// open finds the opener of interpreters once.
func (d *deep) open(ctx context.Context, r *run) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ready == nil && r.o.Mode == rlm.Code && r.o.Limits.Depth > 0 {
		if d.ready, err = r.interpreter(ctx, r.Env, r.Python); err != nil {
			d.ready = nil
			return err
		}
		d.o = r.o
	}
	if r.ready = d.ready; r.ready != nil {
		r.o = d.o
	}
	return nil
}

// answer runs, and makes the outcome a completion. Progress is reported as the model's thoughts.
func (d *deep) answer(ctx context.Context, r *run, q *provider.Request, c *provider.Completion, stops []string) error {
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, inRun{}, true))
	defer cancel(nil)
	r.o.Observe = func(e rlm.Event) {
		r.workers.observe(e)
		if e.Kind == rlm.EventPolicy {
			r.Say("warning: " + e.Error)
		}
		if e.Kind != rlm.EventTurn || !e.Done || e.Depth > 0 || ctx.Err() != nil {
			return
		}
		thought := provider.Quote(turnLine(&e) + "\n")
		c.AppendThought(thought)
		if q.Emit != nil {
			if err := q.Emit(provider.Part{Delta: llm.Delta{Thought: thought}}); err != nil {
				cancel(err)
			}
		}
	}
	out, err := rlm.Run(ctx, r.o)
	r.warn(&out)
	used := out.Usage.Total()
	c.Usage, c.Cost = provider.Usage{Input: used.Input, Output: used.Output}, used.Cost
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return &provider.Error{Cause: provider.Overloaded, Status: http.StatusBadGateway, Began: q.Emit != nil && c.Thoughts != nil, Err: err}
	case out.SchemaErr != nil:
		return &provider.Error{Cause: provider.Overloaded, Began: q.Emit != nil && c.Thoughts != nil, Err: &SchemaError{out.SchemaErr}}
	}
	if c.Finish = "stop"; out.Finish.Limited() {
		c.Finish = "length"
		d.say("a limit ended a run: " + string(out.Finish))
	}
	for _, stop := range stops {
		if stop != "" {
			out.Answer, _, _ = strings.Cut(out.Answer, stop)
		}
	}
	c.Text = provider.Quote(out.Answer)
	if q.Emit != nil && out.Answer != "" {
		return q.Emit(provider.Part{Delta: llm.Delta{Text: c.Text}})
	}
	return nil
}

// ended returns why a run could not begin: the cause of ctx if it has ended, else err.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &provider.Error{Cause: provider.Internal, Err: err}
}

// shortQuestion is how many characters a message may have to be the question. A longer message
// is the context, which says what to do.
const shortQuestion = 2000

// take turns a conversation into a question and a context, and returns the context's size.
func (r *run) take(ctx context.Context, chat *llm.Request, schemaText []byte) (int64, error) {
	if schemaText != nil {
		schema, err := tool.NewSchema(schemaText)
		if err != nil {
			return 0, provider.Unanswerable("response_format", "invalid_value", "Invalid schema for response_format.")
		}
		r.o.Schema = schema
	}
	var messages []rlm.Message
	system, turns := chat.Conversation()
	if system != "" {
		messages = append(messages, rlm.Message{Role: "system", Content: system})
	}
	for i, t := range turns {
		m := rlm.Message{Role: t.Role}
		for _, p := range t.Parts {
			if p.At != "" {
				return 0, refuse(chat.API, p.At, "Send text")
			}
			m.Content += p.Text
		}
		if len(t.Calls) > 0 || t.Role == "tool" {
			return 0, refuse(chat.API, fmt.Sprintf("messages[%d]", i), "Leave out calls of tools and their results")
		}
		messages = append(messages, m)
	}
	if len(messages) == 0 {
		return 0, provider.Unanswerable("messages", "invalid_value", "There are no messages.")
	}
	last := messages[len(messages)-1]
	isShort := utf8.RuneCountInString(last.Content) <= shortQuestion
	switch {
	case r.o.Mode == rlm.ToolsMode:
		return r.contextOf(ctx, "context.json", messages)
	case len(messages) == 1 && isShort:
		r.o.Question = last.Content
		return int64(len(last.Content)), nil
	case len(messages) == 1:
		r.o.Question = "Do what the text in the variable context asks for."
		return r.contextOf(ctx, "context.txt", last.Content)
	}
	r.o.Question = "The variable context is a conversation, a list of messages with role and content. Answer its last message."
	if isShort {
		r.o.Question += " It is:\n\n" + last.Content
	}
	if system != "" && utf8.RuneCountInString(system) <= shortQuestion {
		r.o.Question = system + "\n\n" + r.o.Question
	}
	return r.contextOf(ctx, "context.json", messages)
}

// contextOf makes a value the context, and returns its size.
func (r *run) contextOf(ctx context.Context, name string, value any) (int64, error) {
	text, isText := value.(string)
	data := []byte(text)
	if !isText {
		data, _ = json.Marshal(value) // messages always have a JSON form
	}
	path := filepath.Join(r.dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return 0, err
	}
	l, err := rlm.Load(ctx, r.dir, []string{path}, nil)
	if err != nil {
		return 0, err
	}
	r.o.Context, r.o.Shape = l.Context, prompt.Shape(l.Shape)
	return l.Size, nil
}
