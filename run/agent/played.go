package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/transport"
)

// playedFile holds the notes on the servers that hooks have played, beside hooksFile.
const playedFile = "played.ndjson"

// A playedUnit is a server that is played from its records.
type playedUnit struct {
	hook *Hook
	name string
	n    int // starts of it before
}

func (u *playedUnit) String() string { return u.name }

// Dial starts playing.
func (u *playedUnit) Dial(ctx context.Context) (transport.Conn, error) {
	client, server := pipe()
	go func() { // it ends with the connection, and Close waits for it
		defer close(client.done)
		k := u.hook
		err := k.Play(context.WithoutCancel(ctx), k.hooks.Servers, u.name, u.n, server, k.hooks.append)
		if err != nil {
			k.hooks.append(ServerNote{Name: u.name, Refused: err.Error()})
			_, _ = io.WriteString(k.stderr, "wirectl: "+render.Safe(u.name+": "+err.Error())+"\n")
		}
		server.Close()
	}()
	return client, nil
}

// append adds a note to those of the run, in one write.
func (h *hooks) append(note ServerNote) {
	note.Time = time.Now()
	f, err := os.OpenFile(filepath.Join(h.dir, playedFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil { // the run may be over
		_, _ = f.Write(append(jsonscan.MustMarshal(note), '\n'))
		f.Close()
	}
}

// notesIn returns the notes of all hooks of a run.
func notesIn(private string) (list []ServerNote) {
	files, _ := filepath.Glob(filepath.Join(private, hooksPrefix+"*", playedFile))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for line := range bytes.Lines(text) {
			var n ServerNote
			if json.Unmarshal(line, &n) == nil {
				list = append(list, n)
			}
		}
	}
	return list
}

// startsBefore counts the starts of a server before one that was recorded.
func (h *hooks) startsBefore(begin history.Event) (n int) {
	text, _ := os.ReadFile(filepath.Join(h.Folder, history.EventsFile))
	for line := range bytes.Lines(text) {
		var e history.Event
		if json.Unmarshal(line, &e) != nil || e.Event != "start" || e.What != "server" || e.Name != begin.Name {
			continue
		}
		if e.PID == begin.PID {
			break
		}
		n++
	}
	return n
}

// A pipeEnd is one end of a connection within this process.
type pipeEnd struct {
	*io.PipeReader
	w    *io.PipeWriter
	done chan struct{} // of the client: the other side has ended
}

func pipe() (client, server *pipeEnd) {
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	return &pipeEnd{PipeReader: toClient, w: fromClient, done: make(chan struct{})}, &pipeEnd{PipeReader: toServer, w: fromServer}
}

func (p *pipeEnd) Write(b []byte) (int, error) { return p.w.Write(b) }

func (p *pipeEnd) CloseWrite() error { return p.w.Close() }

func (p *pipeEnd) Close() error {
	_ = p.w.Close()
	_ = p.PipeReader.Close()
	if p.done != nil {
		<-p.done
	}
	return nil
}
