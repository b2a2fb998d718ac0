package agent

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
)

// A transcript is where an agent writes what it does, and how it tells of shell commands. Agents that offer
// no hook for these have one here: they start commands by the path of a shell, or in a sandbox.
type transcript struct {
	dir  string // below the folder of the agent's configuration
	mark string // in each line that read needs
	// read calls done with each command that a line completes. Open has those that it may begin, by id.
	read func(line []byte, open map[string]*ranCommand, done func(ranCommand))
}

var transcripts = map[string]transcript{
	"codex":   {"sessions", `"CommandExecution"`, readCodex},
	"gemini":  {"tmp", `"run_shell_command"`, readGemini},
	"qwen":    {"projects", `"run_shell_command"`, readQwen},
	"copilot": {"session-state", `"tool.execution_`, readCopilot},
}

// A ranCommand is a shell command in a transcript.
type ranCommand struct {
	id, command string // the id is "" if the model gave none
	start, end  time.Time
	status      *int // nil if it has none, as that of a command that goes on
	signal      string
}

const (
	// virtualPID is added to the numbers of commands whose process ids an agent does not tell. No system gives
	// a process an id beyond that.
	virtualPID = 1 << 22
	// maxTranscriptLine is the longest line of a transcript that is read.
	maxTranscriptLine = 16 << 20
	lengthOfUUID      = 36
)

// tellCommands reports the shell commands in the transcripts below a folder that an agent has written since
// the run began. Those of other runs have ids that the wires of this one do not name.
func (h *hooks) tellCommands(folder string, since time.Time) {
	t := transcripts[h.Agent]
	number := virtualPID + h.PID<<8 // so that those of runs within a run differ
	_ = filepath.WalkDir(filepath.Join(folder, t.dir), func(file string, entry fs.DirEntry, err error) error {
		name, ok := strings.CutSuffix(filepath.Base(file), ".jsonl")
		if err != nil || !ok || !entry.Type().IsRegular() {
			return nil //nolint:nilerr // what cannot be read is not reported
		}
		if info, err := entry.Info(); err != nil || info.ModTime().Before(since.Truncate(time.Second)) {
			return nil //nolint:nilerr // as above
		}
		var found []ranCommand
		open := map[string]*ranCommand{}
		readLines(file, t.mark, func(line []byte) {
			t.read(line, open, func(c ranCommand) {
				if c.start.UnixMilli() >= since.UnixMilli() {
					found = append(found, c)
				}
			})
		})
		if len(found) == 0 {
			return nil
		}
		keys, onWire := map[string]string{}, cmp.Or(found[0].id, string(jsonscan.MustMarshal(found[0].command)))
		if h.Agent == "codex" && len(name) > lengthOfUUID {
			onWire = name[len(name)-lengthOfUUID:]
			keys["thread"] = onWire
		}
		if !h.isOnWire(onWire) {
			return nil
		}
		for _, c := range found {
			if delete(keys, "call"); c.id != "" {
				keys["call"] = render.Clip(c.id, maxKey)
			}
			number++
			start := history.Event{Event: "start", Time: c.start, PID: number, Parent: h.PID, What: "shell", Keys: keys}
			start.Name, start.Command = h.shown(c.command)
			_ = history.AppendEvent(h.Folder, start) // the rest of the record is of use without it
			if c.status != nil {
				if c.end.Before(c.start) {
					c.end = c.start
				}
				_ = history.AppendEvent(h.Folder, history.Event{Event: "exit", Time: c.end, PID: start.PID, Status: c.status, Signal: c.signal})
			}
		}
		return nil
	})
}

// isOnWire reports whether the captures of the run have a text.
func (h *hooks) isOnWire(text string) bool {
	files, _ := filepath.Glob(filepath.Join(h.Folder, "*.pcapng"))
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			continue
		}
		buf, kept := make([]byte, 1<<16+len(text)), 0
		for found := false; ; {
			n, err := f.Read(buf[kept:])
			found = bytes.Contains(buf[:kept+n], []byte(text))
			if found || err != nil {
				f.Close()
				if found {
					return true
				}
				break
			}
			from := max(kept+n-len(text), 0)
			kept = copy(buf, buf[from:kept+n])
		}
	}
	return false
}

// readLines calls f for each line of a file that has a mark.
func readLines(file, mark string, f func(line []byte)) {
	in, err := os.Open(file)
	if err != nil {
		return
	}
	defer in.Close()
	for lines := bufio.NewReader(in); err == nil; {
		var line []byte
		for more := true; more && err == nil; {
			var part []byte
			part, err = lines.ReadSlice('\n')
			if more = err == bufio.ErrBufferFull; more {
				err = nil
			}
			if len(line)+len(part) <= maxTranscriptLine {
				line = append(line, part...)
			}
		}
		if (err == nil || err == io.EOF) && bytes.Contains(line, []byte(mark)) {
			f(line)
		}
	}
}

func readCodex(line []byte, _ map[string]*ranCommand, done func(ranCommand)) {
	var record struct {
		Payload struct {
			Type string
			Item struct {
				Type     string
				ID       string
				Command  []string
				ExitCode *int `json:"exit_code"`
			}
			Started   int64 `json:"started_at_ms"`
			Completed int64 `json:"completed_at_ms"`
		}
	}
	p := &record.Payload
	if json.Unmarshal(line, &record) == nil && p.Type == "item_completed" && p.Item.ExitCode != nil && len(p.Item.Command) > 0 {
		done(ranCommand{p.Item.ID, p.Item.Command[len(p.Item.Command)-1], time.UnixMilli(p.Started), time.UnixMilli(p.Completed), p.Item.ExitCode, ""}) // of a shell with -c
	}
}

// readGemini takes the time of the model's answer for the start of a command: that of Gemini CLI includes the
// user's approval. A message is written again when its commands have ended.
func readGemini(line []byte, open map[string]*ranCommand, done func(ranCommand)) {
	var record struct {
		Timestamp time.Time
		ToolCalls []struct {
			ID, Name  string
			Timestamp time.Time
			Args      struct{ Command string }
			Result    []struct {
				FunctionResponse struct {
					Response struct{ Output string }
				}
			}
			ResultDisplay any
		}
	}
	_ = json.Unmarshal(line, &record) // what has no time and no calls yields nothing
	for _, call := range record.ToolCalls {
		if call.Name != "run_shell_command" || len(call.Result) == 0 || open[call.ID] != nil {
			continue
		}
		open[call.ID] = &ranCommand{}
		shown, _ := call.ResultDisplay.(string)
		status, signal, ran := endInGemini(call.Result[0].FunctionResponse.Response.Output, shown)
		if ran {
			id, isOfModel := strings.CutPrefix(call.ID, call.Name+"__")
			if !isOfModel {
				id = ""
			}
			done(ranCommand{id, call.Args.Command, record.Timestamp, call.Timestamp, status, signal})
		}
	}
}

// endInGemini reads what Gemini CLI tells its model about a command: its output, which is also shown to the
// user, and lines about its end. A status of 0 has no line.
func endInGemini(told, shown string) (status *int, signal string, ran bool) {
	told = strings.TrimSuffix(strings.TrimPrefix(told, "<untrusted_context>\n"), "\n</untrusted_context>")
	rest, ran := strings.CutPrefix(told, "Output: ")
	if !ran {
		return nil, "", strings.HasPrefix(told, "Command was ") || strings.HasPrefix(told, "Command moved to background")
	}
	rest, isWhole := strings.CutPrefix(rest, shown+"\n")
	if !isWhole {
		rest, isWhole = strings.CutPrefix(rest, "(empty)\n")
	}
	if !isWhole {
		return nil, "", true
	}
	status = new(0)
	for line := range strings.SplitSeq(rest, "\n") {
		if code, ok := strings.CutPrefix(line, "Exit Code: "); ok {
			if n, err := strconv.Atoi(code); err == nil {
				*status = n
			}
		}
		if text, ok := strings.CutPrefix(line, "Signal: "); ok {
			signal = signalOf(text)
		}
	}
	if signal != "" && *status == 0 {
		*status = 1
	}
	return status, signal, true
}

// signalOf returns the name of a signal that may be a number.
func signalOf(text string) string {
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return syscall.Signal(n).String()
	}
	return text
}

// readQwen reads the lines about a command: of its telemetry, with its times, and of its result.
func readQwen(line []byte, open map[string]*ranCommand, done func(ranCommand)) {
	var record struct {
		SystemPayload struct {
			UIEvent struct {
				Timestamp time.Time                `json:"event.timestamp"`
				ID        string                   `json:"call_id"`
				Args      struct{ Command string } `json:"function_args"`
				Took      int64                    `json:"duration_ms"`
			}
		}
		ToolCallResult struct {
			CallID        string
			ResultDisplay json.RawMessage
		}
	}
	if json.Unmarshal(line, &record) != nil {
		return
	}
	if e := record.SystemPayload.UIEvent; e.ID != "" {
		open[e.ID] = &ranCommand{id: e.ID, command: e.Args.Command, start: e.Timestamp.Add(-time.Duration(e.Took) * time.Millisecond), end: e.Timestamp}
	}
	c := open[record.ToolCallResult.CallID]
	var end struct {
		Type     string
		ExitCode *int
		Signal   any
	}
	if c == nil || json.Unmarshal(record.ToolCallResult.ResultDisplay, &end) != nil || end.Type != "shell_result" {
		return // what was not approved has a text
	}
	delete(open, c.id)
	c.status = end.ExitCode
	switch s := end.Signal.(type) {
	case string:
		c.signal = signalOf(s)
	case float64:
		c.signal = signalOf(strconv.Itoa(int(s)))
	}
	if c.signal != "" && c.status == nil {
		c.status = new(1)
	}
	done(*c)
}

func readCopilot(line []byte, open map[string]*ranCommand, done func(ranCommand)) {
	var record struct {
		Type      string
		Timestamp time.Time
		Data      struct {
			ID        string `json:"toolCallId"`
			Arguments struct{ Command string }
			Shell     *struct{ ExitCode *int } `json:"shellExecution"`
		}
	}
	if json.Unmarshal(line, &record) != nil {
		return
	}
	switch d := record.Data; record.Type {
	case "tool.execution_start":
		open[d.ID] = &ranCommand{id: d.ID, command: d.Arguments.Command, start: record.Timestamp}
	case "tool.execution_complete":
		if c := open[d.ID]; c != nil && d.Shell != nil {
			c.end, c.status = record.Timestamp, d.Shell.ExitCode
			done(*c)
		}
		delete(open, d.ID)
	}
}

// maxKey is the length of the longest key of an event.
const maxKey = 200

// shown returns the name of a shell command, and its text without known secrets. At the level of metadata
// that is only its first word.
func (h *hooks) shown(command string) (name, text string) {
	text = capture.MaskCommand(command)
	words, _ := splitWords(text)
	if len(words) > 0 {
		name = render.Clip(words[0], 100)
	}
	if h.Level == history.Metadata {
		text = name
	}
	return cmp.Or(name, "sh"), text
}
