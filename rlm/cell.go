package rlm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/rlm/prompt"
	"github.com/wirectl/wirectl/rlm/runlog"
)

// A cell is a block of code that is running. It answers the calls of the code.
type cell struct {
	*turn
	ref   string
	meter *meter
	life  context.Context // ends with the cell

	mu      sync.Mutex
	ended   bool
	prompts int            // prompts so far
	done    []*call        // for the log
	wg      sync.WaitGroup // one for each Query
}

var errCellEnded = errors.New("the cell has ended")

// cell runs a block. It returns the answer, if the code has given one. An error means that
// the run cannot go on.
func (t *turn) cell(ctx context.Context, n int, code string) (final *string, err error) {
	c := &cell{turn: t, ref: fmt.Sprintf("%s/c%d", t.ref, n), meter: t.account.newMeter(t.meter)}
	t.tell(Event{Kind: EventCell, Ref: c.ref, Depth: t.depth, Code: code})
	var end context.CancelCauseFunc
	c.life, end = context.WithCancelCause(ctx)
	defer t.o.Interrupts.begin(c.ref, end)()
	start := t.o.Now()
	res, err := t.env.Exec(c.life, Cell{Code: code, Ref: c.ref, Calls: c})
	end(errCellEnded)
	c.close()
	took := cmp.Or(res.Took, t.o.Now().Sub(start))
	if res.Lost {
		t.kept = t.best // a new interpreter does not know it
	}
	if res.Best != "" || err == nil && !res.Lost && ctx.Err() == nil {
		t.best = cmp.Or(res.Best, t.kept)
	}
	if err != nil && res.Err == nil {
		res.Err = &CellError{Type: "Execution", Message: err.Error()}
	}
	t.broken = t.broken || res.Err != nil
	output := cellOutput(res)
	t.outputs = append(t.outputs, output)
	t.blocks = append(t.blocks, c.block(code, res, took))
	usage := c.meter.read().Total()
	t.calls += int(usage.Calls)
	e := Event{
		Kind: EventCell, Done: true, Ref: c.ref, Depth: t.depth, Text: output,
		Calls: int(usage.Calls), Tokens: &usage.Tokens, Took: took.Seconds(),
	}
	if res.Err != nil {
		e.Error = res.Err.Error()
	}
	t.tell(e)
	switch {
	case res.Final != nil:
		return res.Final, nil
	case err == nil && ctx.Err() != nil:
		return nil, causeOf(ctx)
	}
	return nil, err
}

// begin numbers n prompts, unless the cell has ended.
func (c *cell) begin(n int) (first int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return 0, false
	}
	first = c.prompts + 1
	c.prompts += n
	c.wg.Add(1)
	return first, true
}

// close admits no more calls, and waits for those that are being cancelled.
func (c *cell) close() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.wg.Wait()
	slices.SortFunc(c.done, func(a, b *call) int { return cmp.Compare(a.n, b.n) })
}

// Query implements [Caller].
func (c *cell) Query(ctx context.Context, q Query) []Answer {
	answers := make([]Answer, len(q.Prompts))
	first, ok := c.begin(len(q.Prompts))
	if !ok {
		for i := range answers {
			answers[i].Err = errCellEnded
		}
		return answers
	}
	defer c.wg.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.life, func() { cancel(context.Cause(c.life)) })()
	if q.Tool != "" {
		answers[0] = c.tool(ctx, first, q)
		return answers
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	ask := func() {
		for i := int(next.Add(1)) - 1; i < len(answers); i = int(next.Add(1)) - 1 {
			answers[i] = c.call(ctx, first+i, q.Prompts[i], q)
		}
	}
	for range min(len(q.Prompts), c.o.Parallel) - 1 {
		wg.Go(ask)
	}
	ask()
	wg.Wait()
	return answers
}

// tool calls a tool for the code.
func (c *cell) tool(ctx context.Context, n int, q Query) Answer {
	ref := fmt.Sprintf("%s/q%d", c.ref, n)
	id := strings.TrimPrefix(ref, c.turn.ref+"/")
	done := c.callTool(ctx, ref, q.ID, ToolCall{ID: id, Name: q.Tool, Arguments: q.Prompts[0]})
	c.mu.Lock()
	c.toolCalls = append(c.toolCalls, done)
	c.mu.Unlock()
	if done.Error != "" {
		return Answer{Err: errors.New(done.Error)}
	}
	return Answer{Text: string(done.Result)}
}

// A call is one prompt of the code.
type call struct {
	*cell
	n      int
	ref    string
	prompt json.RawMessage
	model  string // the requested one, and later the one that has answered
	meter  *meter
	child  *childLog // of a child run; nil if it is not logged
	finish string
	took   time.Duration
	text   string
	err    error
}

func (c *cell) call(ctx context.Context, n int, prompt json.RawMessage, q Query) Answer {
	k := &call{
		cell: c, n: n, ref: fmt.Sprintf("%s/q%d", c.ref, n), prompt: prompt,
		model: cmp.Or(q.Model, c.o.Sub), meter: c.account.newMeter(c.meter),
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer c.o.Interrupts.begin(k.ref, end)()
	nested, start := k.nests(ctx, q.Nested)
	c.tell(Event{Kind: EventCall, Ref: k.ref, Depth: c.depth, Model: k.model, Nested: start, Query: q.ID, Prompt: c.shown(prompt)})
	at := c.o.Now()
	policyErr := k.answer(ctx, q.Nested, start, nested)
	k.took = c.o.Now().Sub(at)
	usage := k.meter.read().Total()
	c.tell(Event{
		Kind: EventCall, Done: true, Ref: k.ref, Depth: c.depth, Model: k.model, Nested: start, Text: cutEvent(k.text),
		Tokens: &usage.Tokens, Took: k.took.Seconds(), Finish: FinishReason(k.finish), Error: errorText(cmp.Or(k.err, policyErr)),
	})
	if c.log != nil {
		c.mu.Lock()
		c.done = append(c.done, k)
		c.mu.Unlock()
	}
	return Answer{Text: k.text, Err: k.err}
}

// nests decides whether the call is a child run.
func (k *call) nests(ctx context.Context, asked bool) (Nested, bool) {
	var n Nested
	start := asked
	if !asked && k.o.Nesting != nil {
		var err error
		if n, start, err = k.o.Nesting.Orchestrate(ctx, k.prompt, k.depth); err != nil {
			start = false
			if ctx.Err() == nil {
				k.policyFailed(k.ref, k.depth, fmt.Errorf("nesting policy: %w", err))
			}
		}
	}
	n.MaxDepth = cmp.Or(n.MaxDepth, k.maxDepth)
	return n, start && k.depth+1 < n.MaxDepth
}

// answer sets text or err. It returns an error of a policy, after which the call goes on.
func (k *call) answer(ctx context.Context, unwrap, child bool, n Nested) error {
	k.text, k.err = k.raw(ctx, unwrap, child, n)
	if k.err != nil {
		var limit *limitError
		if k.text = ""; errors.As(k.err, &limit) {
			k.finish = string(limit.reason)
		} else if ctx.Err() != nil {
			k.finish = string(reasonOf(ctx, k.err))
		}
		return nil
	}
	if k.o.Compressor == nil {
		return nil
	}
	short, err := k.o.Compressor.Compress(context.WithValue(ctx, askKey{}, askFunc(k.askFor(ctx))), k.text, compressTo)
	if err != nil {
		err = fmt.Errorf("compressor: %w", err)
		if ctx.Err() == nil {
			k.policyFailed(k.ref, k.depth, err)
		}
		return err
	}
	k.text = short
	return nil
}

// compressTo is how many tokens a compressor should leave: as many as the root model sees of
// the output of a cell.
const compressTo = 5000

// raw returns the answer before it is compressed.
func (k *call) raw(ctx context.Context, unwrap, child bool, n Nested) (string, error) {
	if k.o.Check != nil {
		if err := k.o.Check(k.model); err != nil {
			return "", err
		}
	}
	if k.o.Handler != nil {
		text, handled, err := k.o.Handler.Handle(ctx, NestedCall{Prompt: k.prompt, Model: k.model, Ref: k.ref, Depth: k.depth, Nested: child})
		if err != nil || handled {
			k.model = "handler"
			k.meter.addTokens(k.model, Tokens{}, Tokens{})
			return text, err
		}
	}
	if child {
		return k.runChild(ctx, n)
	}
	text, err := k.plain(ctx, k.model, k.prompt)
	if err == nil && unwrap {
		text = Unwrap(text, k.finish == "length")
	}
	return text, err
}

// plain asks a model once. It waits for a slot before the call is counted.
func (k *call) plain(ctx context.Context, model string, prompt json.RawMessage) (string, error) {
	select {
	case k.slots <- struct{}{}:
	case <-ctx.Done():
		return "", causeOf(ctx)
	}
	defer func() { <-k.slots }()
	c, err := k.complete(ctx, k.meter, true, Request{Model: model, Prompt: prompt, Ref: k.ref})
	if c.Model != "" {
		k.model = c.Model
	}
	k.finish = c.Finish
	return c.Text, err
}

// askFor makes calls for a compressor. They count towards the call, but do not change its
// model.
func (k *call) askFor(ctx context.Context) askFunc {
	return func(model string, prompt json.RawMessage) (string, error) {
		named, finish := k.model, k.finish
		defer func() { k.model, k.finish = named, finish }()
		return k.plain(ctx, model, prompt)
	}
}

// A Function is a tool as code calls it.
type Function struct {
	Name      string   `json:"function"`
	Tool      string   `json:"name"`
	Arguments []string `json:"arguments"` // in the order of positional arguments
}

// reserved are names with a meaning in the code of some environment.
var reserved = strings.Fields(`
	context history answer FINAL FINAL_VAR SHOW_VARS RLM_CORRELATION_ID RLM_DEPTH ToolError
	llm_query llm_query_batched rlm_query rlm_query_batched print json math regex_find regex_all
	False None True and as assert async await break class continue def del elif else except finally for from
	global if import in is lambda load nonlocal not or pass raise return try while with yield`)

var isFunction = regexp.MustCompile(`^[A-Za-z]\w*$`).MatchString

// Function returns the function of a tool. The error says why code cannot call the tool.
func (t Tool) Function() (Function, error) {
	f := Function{Name: strings.ReplaceAll(t.Name, "-", "_"), Tool: t.Name, Arguments: []string{}}
	if !isFunction(f.Name) || slices.Contains(reserved, f.Name) {
		return f, fmt.Errorf("code cannot call a tool %q, because that name is reserved or not a valid name of a function: choose another name, or list the others in only", t.Name)
	}
	properties, required := t.properties()
	names := keysOf(properties)
	for _, wanted := range []bool{true, false} {
		for _, name := range names {
			if slices.Contains(required, name) == wanted {
				f.Arguments = append(f.Arguments, name)
			}
		}
	}
	return f, nil
}

// properties returns the arguments in the schema of a tool.
func (t Tool) properties() (properties json.RawMessage, required []string) {
	var schema struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	_ = json.Unmarshal(t.Parameters, &schema) // without a schema, the code may pass any arguments
	return schema.Properties, schema.Required
}

// keysOf returns the keys of an object, in their order.
func keysOf(object json.RawMessage) (keys []string) {
	d := json.NewDecoder(bytes.NewReader(object))
	if start, _ := d.Token(); start != json.Delim('{') {
		return nil
	}
	for d.More() {
		key, _ := d.Token()
		var value json.RawMessage
		if d.Decode(&value) != nil {
			break
		}
		keys = append(keys, key.(string)) //nolint:forcetypeassert // keys are strings
	}
	return keys
}

// functionsOf returns tools as functions of the code, and as the model is told of them.
func functionsOf(tools Tools) (list []Function, described []prompt.Tool) {
	if tools == nil {
		return nil, nil
	}
	for _, t := range tools.Definitions() {
		f, err := t.Function()
		if err != nil {
			continue // package tool has refused it
		}
		properties, required := t.properties()
		arguments := slices.Clone(f.Arguments)
		for i, name := range arguments {
			if !slices.Contains(required, name) {
				arguments[i] += "=..."
			}
		}
		text := strings.TrimSpace(t.Description)
		if len(arguments) > 0 {
			text = strings.TrimSpace(text + " Arguments, as JSON Schema: " + string(properties))
		}
		list = append(list, f)
		described = append(described, prompt.Tool{Signature: f.Name + "(" + strings.Join(arguments, ", ") + ")", Description: text})
	}
	return list, described
}

// text returns the error for the log.
func (e *CellError) text() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s (line %d)", e.Error(), e.Line)
	}
	return e.Error()
}

// cellOutput returns the output of a cell as the model sees it.
func cellOutput(res Result) string {
	o := prompt.Output{
		Stdout: res.Stdout, Stderr: res.Stderr, Dropped: res.Omitted, Lost: res.Lost,
		Variables: slices.Sorted(maps.Keys(runlog.Locals(res.Locals, nil))),
	}
	if res.Err != nil {
		o.Error, o.Line = res.Err.Error(), res.Err.Line
	}
	return o.String()
}

// request returns the request for turn n, or for the answer if there are no more turns.
func (r *run) request(n int) string {
	if n > r.iterations {
		return prompt.Last
	}
	return prompt.Next(n, r.iterations)
}

func joinLines(a, b string) string {
	if a == "" || b == "" || strings.HasSuffix(a, "\n") {
		return a + b
	}
	return a + "\n" + b
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
