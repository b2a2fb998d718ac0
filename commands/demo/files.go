package demo

import (
	"bufio"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/transport"
)

// files is the MCP server of the play. Its tool index ignores cancels.
type files struct {
	*stage
	conn  transport.Conn
	write sync.Mutex
	work  sync.WaitGroup

	mu        sync.Mutex
	cancelled map[string]chan struct{} // by the id of the request
}

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name string `json:"name"`
		Meta struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
		RequestID json.RawMessage `json:"requestId"`
	} `json:"params"`
}

// The result of tools/list.
const definitions = `{"tools":[` +
	`{"name":"read_file","description":"Read a file","inputSchema":{"type":"object"}},` +
	`{"name":"search","description":"Search for a text","inputSchema":{"type":"object"}},` +
	`{"name":"index","description":"Index a folder","inputSchema":{"type":"object"}}]}`

func (f *files) serveLines() error {
	defer f.conn.Close()
	defer f.work.Wait()
	f.cancelled = map[string]chan struct{}{}
	lines := bufio.NewScanner(f.conn)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		switch r.Method {
		case "initialize":
			f.answerRequest(&r, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"files","version":"1.0"}}`)
		case "tools/list":
			f.answerRequest(&r, definitions)
		case "tools/call":
			stop := f.openCall(string(r.ID))
			f.work.Go(func() { f.runTool(&r, stop) })
		case "notifications/cancelled":
			close(f.openCall(string(r.Params.RequestID)))
		}
	}
	return lines.Err()
}

// openCall returns the channel that is closed when a request is cancelled.
func (f *files) openCall(id string) chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cancelled[id] == nil {
		f.cancelled[id] = make(chan struct{})
	}
	return f.cancelled[id]
}

// tooLate is the least time between the cancel and the answer: lint considers less than 250 ms
// a race.
const tooLate = 400 * time.Millisecond

// runTool does the work of a tool.
func (f *files) runTool(r *request, cancelled <-chan struct{}) {
	result := "# A project"
	switch r.Params.Name {
	case "search":
		f.progress(r, 1, 6, 300*time.Millisecond)
		result = "17 matches"
	case "index":
		n := 1
		for ; !closed(cancelled) && f.ctx.Err() == nil; n++ {
			f.progress(r, n, n, 400*time.Millisecond)
		}
		f.progress(r, n, n+3, 400*time.Millisecond) // as if there had been no cancel
		_ = wait.For(f.ctx, tooLate)
		defer f.once.Do(func() { close(f.late) })
		result = "812 files"
	}
	f.answerRequest(r, fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, result))
}

// progress reports steps, with a pause before each.
func (f *files) progress(r *request, from, to int, pause time.Duration) {
	for n := from; n <= to && f.pause(pause) == nil; n++ {
		f.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, r.Params.Meta.Token, n)
	}
}

func (f *files) answerRequest(r *request, result string) {
	f.send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, r.ID, result)
}

func (f *files) send(format string, args ...any) {
	f.write.Lock()
	defer f.write.Unlock()
	fmt.Fprintf(f.conn, format+"\n", args...) //nolint:errcheck // the reader notices a client that has left
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
