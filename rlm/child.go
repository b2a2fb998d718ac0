package rlm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"unicode/utf8"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/rlm/prompt"
)

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
