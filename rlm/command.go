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
	"time"

	"github.com/wirectl/wirectl/internal/render"
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
