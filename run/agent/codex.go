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
	"time"

	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/internal/render"
)

// virtualPID is added to Codex's own numbers of its commands, whose ids it does not tell. No system gives a
// process an id beyond that.
const virtualPID = 1 << 22

// codexCommands reports the shell commands of Codex, which starts them by the path of a shell and in a sandbox,
// where no hook could write. It takes them from the transcripts that Codex has written since the run began.
// Those of other runs have a thread that the wires of this one do not name.
func (h *hooks) codexCommands(sessions string, since time.Time) {
	_ = filepath.WalkDir(sessions, func(file string, entry fs.DirEntry, err error) error {
		name, ok := strings.CutSuffix(filepath.Base(file), ".jsonl")
		if err != nil || !ok || !entry.Type().IsRegular() || !strings.HasPrefix(name, "rollout-") || len(name) < lengthOfUUID {
			return nil //nolint:nilerr // what cannot be read is not reported
		}
		info, err := entry.Info()
		if thread := name[len(name)-lengthOfUUID:]; err == nil && !info.ModTime().Before(since.Truncate(time.Second)) && h.hasThread(thread) {
			h.codexThread(file, thread, since)
		}
		return nil
	})
}

const lengthOfUUID = 36

// hasThread reports whether the captures of the run name a thread.
func (h *hooks) hasThread(thread string) bool {
	files, _ := filepath.Glob(filepath.Join(h.Folder, "*.pcapng"))
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			continue
		}
		buf, kept := make([]byte, 1<<16), 0
		for found := false; ; {
			n, err := f.Read(buf[kept:])
			found = bytes.Contains(buf[:kept+n], []byte(thread))
			if found || err != nil {
				f.Close()
				if found {
					return true
				}
				break
			}
			from := max(kept+n-len(thread), 0)
			kept = copy(buf, buf[from:kept+n])
		}
	}
	return false
}

// maxTranscriptLine is the longest line of a transcript that is read.
const maxTranscriptLine = 16 << 20

// codexThread reports the commands in a transcript.
func (h *hooks) codexThread(file, thread string, since time.Time) {
	f, err := os.Open(file)
	if err != nil {
		return
	}
	defer f.Close()
	for in := bufio.NewReader(f); err != io.EOF; {
		var line []byte
		for more := true; more && err == nil; {
			var part []byte
			part, err = in.ReadSlice('\n')
			if more = err == bufio.ErrBufferFull; more {
				err = nil
			}
			if len(line)+len(part) <= maxTranscriptLine {
				line = append(line, part...)
			}
		}
		if err != nil && err != io.EOF {
			return
		}
		if !bytes.Contains(line, []byte(`"CommandExecution"`)) {
			continue
		}
		var record struct {
			Payload struct {
				Type string
				Item struct {
					Type      string
					ID        string
					ProcessID string `json:"process_id"`
					Command   []string
					ExitCode  *int `json:"exit_code"`
				}
				Started   int64 `json:"started_at_ms"`
				Completed int64 `json:"completed_at_ms"`
			}
		}
		p := &record.Payload
		if json.Unmarshal(line, &record) != nil || p.Type != "item_completed" || p.Item.ExitCode == nil || len(p.Item.Command) == 0 || p.Started < since.UnixMilli() {
			continue
		}
		number, _ := strconv.Atoi(p.Item.ProcessID)
		start := history.Event{
			Event: "start", Time: time.UnixMilli(p.Started), PID: virtualPID + number, Parent: h.PID, What: "shell",
			Keys: map[string]string{"thread": thread, "call": render.Clip(p.Item.ID, maxKey)},
		}
		start.Name, start.Command = h.shown(p.Item.Command[len(p.Item.Command)-1]) // of a shell with -c
		exit := history.Event{Event: "exit", Time: time.UnixMilli(max(p.Completed, p.Started)), PID: start.PID, Status: p.Item.ExitCode}
		_ = history.AppendEvent(h.Folder, start) // the rest of the record is of use without it
		_ = history.AppendEvent(h.Folder, exit)
	}
}

// maxKey is the length of the longest key of an event.
const maxKey = 200

// shown returns the name of a shell command, and its text without known secrets. At the level of metadata
// that is only its first word.
func (h *hooks) shown(command string) (name, text string) {
	text = masked(command)
	words, _ := splitWords(text)
	if len(words) > 0 {
		name = render.Clip(words[0], 100)
	}
	if h.Level == history.Metadata {
		text = name
	}
	return cmp.Or(name, "sh"), text
}
