package rlm

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/rlm/prompt"
	"github.com/wirectl/wirectl/transport"
)

// A Command is a policy that is a program. It is started for each question, reads one line
// of JSON and writes one:
//
//	stop      {"iteration":…,"max_iterations":…,"mode":…,"depth":…,"history":[…],"last_result":…}
//	          {"stop":"reason"}, or {"stop":false}, or {"stop":true}
//	compress  {"text":…,"max_tokens":…}                 {"text":…}
//	nest      {"prompt":…,"depth":…}                    {"nested":true,"mode":…,"tools":[…],"max_iterations":…,"max_depth":…}
type Command struct {
	Args    []string
	Timeout time.Duration // of one question; 0 is 10 s
}

const (
	commandTimeout = 10 * time.Second
	maxReply       = 16 << 20
)

// Stop implements [StoppingPolicy].
func (c Command) Stop(ctx context.Context, s State) (string, error) {
	var reply struct {
		Stop json.RawMessage `json:"stop"`
	}
	if err := c.ask(ctx, s, &reply); err != nil {
		return "", err
	}
	switch string(reply.Stop) {
	case "", "null", "false":
		return "", nil
	case "true":
		return "stopped", nil
	}
	var reason string
	if err := json.Unmarshal(reply.Stop, &reason); err != nil {
		return "", fmt.Errorf("%s: stop is %s, want a string, true or false", c.Args[0], reply.Stop)
	}
	return reason, nil
}

// Done implements [StoppingPolicy]. The program is told of a turn by the next Stop.
func (Command) Done(State) {}

// Compress implements [ContextCompressor].
func (c Command) Compress(ctx context.Context, text string, maxTokens int) (string, error) {
	var reply struct {
		Text *string `json:"text"`
	}
	question := struct {
		Text      string `json:"text"`
		MaxTokens int    `json:"max_tokens"`
	}{text, maxTokens}
	if err := c.ask(ctx, question, &reply); err != nil {
		return "", err
	}
	if reply.Text == nil {
		return "", fmt.Errorf("%s: the reply has no text", c.Args[0])
	}
	return *reply.Text, nil
}

// Orchestrate implements [NestedCallPolicy].
func (c Command) Orchestrate(ctx context.Context, prompt json.RawMessage, depth int) (Nested, bool, error) {
	var reply struct {
		Start *bool `json:"nested"`
		Nested
	}
	question := struct {
		Prompt json.RawMessage `json:"prompt"`
		Depth  int             `json:"depth"`
	}{prompt, depth}
	err := c.ask(ctx, question, &reply)
	n := reply.Nested
	switch {
	case err != nil:
		return Nested{}, false, err
	case reply.Start == nil:
		err = errors.New("the reply has no nested, which is true or false")
	case n.Mode != "" && n.Mode != Code && n.Mode != ToolsMode:
		err = fmt.Errorf("mode is %q, want code or tools", n.Mode)
	case n.MaxIterations < 0 || n.MaxDepth < 0:
		err = errors.New("max_iterations and max_depth are 1 or more")
	default:
		return n, *reply.Start, nil
	}
	return Nested{}, false, fmt.Errorf("%s: %w", c.Args[0], err)
}

// ask starts the program, asks it a question, and ends it.
func (c Command) ask(ctx context.Context, question, reply any) error {
	if len(c.Args) == 0 {
		return errors.New("the policy names no program")
	}
	line, err := json.Marshal(question)
	if err != nil {
		return err
	}
	limit := cmp.Or(c.Timeout, commandTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s: no reply within %v", c.Args[0], limit))
	defer cancel()
	_, answer, err := Ask(ctx, c.Args, append(line, '\n'), io.Discard, readLine)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.Args[0], err)
	}
	answer = bytes.TrimSpace(answer)
	d := json.NewDecoder(bytes.NewReader(answer))
	d.DisallowUnknownFields()
	err = d.Decode(reply)
	if _, rest := d.Token(); err == nil && (rest != io.EOF || answer[0] != '{') {
		err = errors.New("want one JSON object")
	}
	if err != nil {
		shown, _ := render.First(string(answer), maxShown)
		return fmt.Errorf("%s: the reply %q is not as expected: %w", c.Args[0], shown, err)
	}
	return nil
}

// maxShown is how much of a wrong reply is in its error, in characters.
const maxShown = 80

// readLine reads the reply of a program.
func readLine(r io.Reader) ([]byte, error) {
	answer, err := bufio.NewReader(io.LimitReader(r, maxReply)).ReadBytes('\n')
	switch {
	case err == io.EOF && len(answer) > 0:
		return answer, nil
	case err == io.EOF:
		return nil, errors.New("it ended without a reply")
	}
	return answer, err
}

// runChild answers a call by a child run, with half of the turns of its parent. Its calls
// count towards the same account, and its time towards that of the cell.
func (k *call) runChild(ctx context.Context, n Nested) (string, error) {
	mode := cmp.Or(n.Mode, k.mode)
	if mode != Code && (mode != ToolsMode || k.o.Tools == nil) {
		return "", fmt.Errorf("a child run in mode %q is not possible here", mode)
	}
	slots := k.childSlots(k.depth + 1)
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return "", causeOf(ctx)
	}
	defer func() { <-slots }()
	c, shape, remove, err := k.promptContext(k.prompt)
	if err != nil {
		return "", err
	}
	defer remove()
	r := &run{
		tree: k.tree, ref: k.ref, depth: k.depth + 1, model: k.model, question: childQuestion(k.prompt),
		context: c, shape: shape, mode: mode, tools: only(k.o.Tools, n.Tools),
		iterations: cmp.Or(n.MaxIterations, max(1, k.iterations/2)), maxDepth: n.MaxDepth,
		meter: k.cell.account.newMeter(k.meter), began: k.o.Now(),
	}
	if k.log != nil {
		k.child = &childLog{}
		r.log = k.child
	}
	end, err := r.run(ctx)
	k.model, k.finish = cmp.Or(r.named, k.model), string(end.finish)
	switch {
	case err != nil:
		return "", fmt.Errorf("child run failed: %w", err)
	case end.finish == Stop, end.finish == MaxIterations, end.finish == MaxErrors, end.finish == PolicyStop:
		return end.answer, nil
	case end.finish == Calls && end.answer != "":
		return end.answer, nil
	case ctx.Err() != nil:
		return "", causeOf(ctx)
	}
	return "", fmt.Errorf("child run ended without an answer: %s", end.finish)
}

// shortQuestion is up to how many characters the prompt of a child is also its question.
const shortQuestion = 2000

func childQuestion(p json.RawMessage) string {
	text := promptText(p)
	if _, omitted := render.First(text, shortQuestion); omitted == 0 {
		return text
	}
	return "Do what the prompt in the variable context asks for."
}

// promptContext returns the prompt of a call as the context of a child run.
func (t *tree) promptContext(p json.RawMessage) (c Context, shape prompt.Shape, remove func(), err error) {
	var text string
	if json.Unmarshal(p, &text) == nil {
		c, remove, err = t.fileContext(text, "text")
		return c, prompt.ShapeOf(text), remove, err
	}
	var value any
	if err := json.Unmarshal(p, &value); err != nil {
		return c, shape, nil, errors.New("the prompt is not JSON")
	}
	c, remove, err = t.fileContext(string(p), "json")
	return c, shapeOf(value), remove, err
}

// shapeOf returns the shape of a decoded value. Its type is named as in Python.
func shapeOf(value any) prompt.Shape {
	chunks := []any{value}
	s := prompt.Shape{Type: "object"}
	switch v := value.(type) {
	case []any:
		s.Type, chunks = "list", v
	case map[string]any:
		s.Type, chunks = "dict", nil
		for _, name := range slices.Sorted(maps.Keys(v)) {
			chunks = append(chunks, v[name])
		}
	}
	s.Chunks = int64(len(chunks))
	for i, chunk := range chunks {
		n := textLength(chunk)
		if s.Chars += n; i < prompt.Shown {
			s.Lengths = append(s.Lengths, n)
		}
	}
	return s
}

// textLength returns how many characters a text has, or the content of a message, or the JSON
// of another value.
func textLength(value any) int64 {
	if m, ok := value.(map[string]any); ok {
		if content, ok := m["content"].(string); ok {
			value = content
		}
	}
	text, ok := value.(string)
	if !ok {
		b, _ := json.Marshal(value) // it was JSON
		text = string(b)
	}
	return int64(utf8.RuneCountInString(text))
}

// fileContext writes a context to a temporary file.
func (t *tree) fileContext(text, kind string) (c Context, remove func(), err error) {
	f, err := os.CreateTemp(t.o.Dir, "wirectl-rlm-*")
	if err != nil {
		return c, nil, errors.New("a temporary file for the context cannot be created")
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return c, nil, errors.New("the temporary file of the context cannot be written")
	}
	return Context{Path: f.Name(), Type: kind}, func() { _ = os.Remove(f.Name()) }, nil
}

// grace is how long a program may take to end.
const grace = time.Second

// Ask starts a program, writes text to it, and reads its output by read. Standard error is
// copied to stderr. The program has ended when Ask returns, also because ctx has ended.
func Ask(ctx context.Context, args []string, text []byte, stderr io.Writer, read func(io.Reader) ([]byte, error)) (transport.Process, []byte, error) {
	p, err := transport.Start(ctx, args, transport.Options{Grace: grace})
	if err != nil {
		return nil, nil, err
	}
	done := make(chan struct{}, 2)
	go func() {
		_, _ = io.Copy(stderr, p.Stderr())
		done <- struct{}{}
	}()
	go func() {
		_, _ = p.Write(text) // a program need not read it
		_ = p.CloseWrite()
		done <- struct{}{}
	}()
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = p.Signal(syscall.SIGTERM)
		_ = p.Close()
		close(killed)
	})
	output, err := read(p)
	if !stop() {
		<-killed
	}
	_ = p.Close()
	<-done
	<-done
	return p, output, err
}
