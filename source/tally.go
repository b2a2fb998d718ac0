package source

import (
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/prices"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/agentlog"
)

// A Place is where a program keeps the files of its sessions.
type Place struct {
	// Agent is the word for the program before the id of a session: "claude".
	Agent string
	// The folder is the value of the variable Env or, if that is not set, Home in the user's folder.
	Env, Home string
	// Files are the files below it: patterns as of [path.Match], with slashes.
	Files []string
	// ID matches the id of a session in the name of its file, below the folder, as a group.
	ID *regexp.Regexp
	// Beside is the folder of more files of the session, in one with the name of its id; "" for none.
	Beside string
}

// Of is what tokens belong to: a model, and the one of [prices.Bands] in which the input of the call is.
type Of struct {
	Model string
	Band  int64
	Apart bool // as in [protocol.Usage]
}

// A Tally counts what a session has, as a list of its calls has it, without its texts.
type Tally struct {
	Calls, Failures int64
	Usage           map[Of]protocol.Usage
	// Prompt is the beginning of the first prompt of the user; "" if there was none so far.
	Prompt string

	pending map[string]bool // turns and calls that have not ended
}

const (
	maxPrompt = 4 << 10 // bytes of a prompt
	maxOpen   = 1 << 17 // turns and calls that are remembered
	maxModels = 64
)

// programPattern is how a prompt begins that the program has written.
var programPattern = regexp.MustCompile(`^\s*(<[a-z]+[_-][a-z_-]+>|# AGENTS\.md instructions)`)

// Add counts an event.
func (t *Tally) Add(e *agentlog.Event) {
	switch e.Type {
	case agentlog.Prompt:
		t.addOpen("turn " + e.Turn)
		if t.Prompt == "" && e.Of == "" {
			text, _ := jsonscan.Unquote(e.Text)
			if text = render.Clip(text, maxPrompt); !programPattern.Match(text) {
				t.Prompt = strings.TrimSpace(string(text))
			}
		}
	case agentlog.Call:
		t.addOpen("call " + e.ID)
	case agentlog.Result:
		t.addEnd("call "+e.ID, e.Outcome)
	case agentlog.End:
		t.addEnd("turn "+e.Turn, e.Outcome)
	case agentlog.Answer:
		if e.Usage == (protocol.Usage{}) {
			return
		}
		if t.Usage == nil {
			t.Usage = map[Of]protocol.Usage{}
		}
		of := Of{e.Model, prices.Band(e.Usage.Input), e.Usage.Apart}
		if _, known := t.Usage[of]; !known && len(t.Usage) >= maxModels {
			of.Model = ""
		}
		t.Usage[of] = t.Usage[of].Plus(e.Usage)
	}
}

func (t *Tally) addOpen(name string) {
	t.Calls++
	if t.pending == nil {
		t.pending = map[string]bool{}
	}
	if len(t.pending) < maxOpen {
		t.pending[name] = true
	}
}

func (t *Tally) addEnd(name, outcome string) {
	if t.pending[name] && (outcome == agentlog.Failed || outcome == agentlog.ToolError) {
		t.Failures++
	}
	delete(t.pending, name)
}

// Take reads a session to its end. Readers that do not use [File.Tally] themselves tell their events.
func (t *Tally) Take(r Reader) error {
	var rec Record
	for {
		switch err := r.Next(&rec); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if rec.Kind == Message && rec.Protocol == agentlog.Spec.Name() {
			if e, ok := agentlog.Read(rec.Data); ok {
				t.Add(&e)
			}
		}
	}
}

// A Beginning reads a file only until the first prompt is known.
type Beginning struct {
	io.Reader
	Tally *Tally
}

// Read reads little at once, because all that is read is parsed.
func (b Beginning) Read(p []byte) (int, error) {
	const piece = 2 << 10
	if b.Tally.Prompt != "" {
		return 0, io.EOF
	}
	return b.Reader.Read(p[:min(len(p), piece)])
}

// plainTime parses a time as programs write it.
func plainTime(raw []byte) (at time.Time, ok bool) {
	text, ok := jsonscan.Unquote(raw)
	if !ok {
		return at, false
	}
	return at, at.UnmarshalText(text) == nil
}
