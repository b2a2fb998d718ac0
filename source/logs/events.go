package logs

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/source"
)

// Events is the form of an event stream that curl has saved, with or without the head of the answer.
var Events = &source.Form{Name: "events", Piped: true, About: "an event stream that was saved", Is: isEvents, Open: openEvents}

var (
	fieldPattern = regexp.MustCompile(`^(event|data|id|retry)?:`)
	dataPattern  = regexp.MustCompile(`^data: ?([{\[].*|\[DONE\])$`)

	done = []byte("[DONE]")

	lengthPattern = regexp.MustCompile(`(?i)\ncontent-length:[ \t]*([0-9]+)`)
	codedPattern  = regexp.MustCompile(`(?i)\n(transfer|content)-encoding:`)
)

// isEvents recognizes server-sent events whose first data is JSON. After a head the body has to be without
// chunks, as curl writes it, and the last one; otherwise it is a stream of HTTP.
func isEvents(h *source.Head) bool {
	head, body := splitHead(h.Text())
	if size := lengthPattern.FindSubmatch(head); size != nil && !codedPattern.Match(head) {
		if n, err := strconv.Atoi(string(size[1])); err == nil && len(body) > n {
			return false
		}
	}
	lines := (&source.Head{Bytes: body, Whole: h.Whole}).Lines()
	if len(lines) == 0 || !fieldPattern.Match(lines[0]) {
		return false
	}
	for _, line := range lines {
		switch {
		case bytes.HasPrefix(line, []byte("data:")):
			return dataPattern.Match(line) && (lines[0][0] != ':' || line[len(line)-1] != ']' || bytes.HasSuffix(line, done))
		case !fieldPattern.Match(line):
			return false // a text, of which the first line begins so
		}
	}
	return false
}

// splitHead returns the head of an answer; nil if the text begins with none.
func splitHead(text []byte) (head, body []byte) {
	for bytes.HasPrefix(text, []byte("HTTP/")) {
		end := bytes.Index(text, []byte("\r\n\r\n"))
		size := 4
		if i := bytes.Index(text, []byte("\n\n")); end < 0 || i >= 0 && i < end {
			end, size = i, 2
		}
		if end < 0 {
			return nil, text
		}
		head, text = text[:end], text[end+size:] // that of a proxy, or 100 Continue, comes before
	}
	return head, text
}

// apis are the requests of APIs, by what their first event has; model is where that tells the model, and
// prompt the member of the request with its messages.
var apis = []struct{ members, path, model, prompt string }{
	{"type=message_start message", "/v1/messages", "message.model", "messages"},
	{"object=chat.completion.chunk choices", "/v1/chat/completions", "model", "messages"},
	{"type=response.created response", "/v1/responses", "response.model", "input"},
	{"candidates", "/v1beta/models/unknown:streamGenerateContent", "modelVersion", "contents"},
	{"type=start", "/api/chat", "", ""},
	{"type=error errorText", "/api/chat", "", ""},
	{"type=error error.type", "/v1/messages", "model", "messages"},
	{"error.message", "/v1/chat/completions", "model", "messages"},
	{"choices model", "/v1/chat/completions", "model", "messages"},
}

// openEvents makes the stream the answer of an exchange. A request that is marked as
// absent shows the API.
func openEvents(f *source.File) (source.Reader, error) {
	r := &eventReader{file: f, buf: make([]byte, 64<<10)}
	var start []byte
	var data []byte
	for data == nil && r.err == nil && len(start) < source.HeadSize {
		piece, err := r.read()
		start, r.err = append(start, piece...), err
		if head, body := splitHead(start); head != nil || !bytes.HasPrefix(start, []byte("HTTP/")) {
			for line := range bytes.Lines(body) {
				if value, ok := bytes.CutPrefix(line, []byte("data:")); ok && (line[len(line)-1] == '\n' || r.err != nil) {
					data = bytes.TrimSpace(value)
					break
				}
			}
		}
	}
	head, events := splitHead(start)
	path, body := "/unknown", "{}"
	event := source.Members(data)
	for _, api := range apis {
		if event.Has(api.members) {
			model, _ := jsonscan.Unquote(event[api.model])
			path, body = api.path, fmt.Sprintf(`{"model":%q,"stream":true,%q:[]}`, model, api.prompt)
			if api.model == "" { // AI SDK
				body = `{"trigger":"submit-message","messages":[]}`
			}
			break
		}
	}
	if event["jsonrpc"] == nil {
		f.Notice("the request is not in the file: taken for an answer to POST " + path)
		r.add(frame.C2U, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: unknown\r\n%s: request\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			path, frame.AbsentField, len(body), body))
	}
	answer := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	if head != nil {
		answer = ""
		for i, line := range strings.Split(string(head), "\n") {
			line = strings.TrimRight(line, "\r")
			name, _, _ := strings.Cut(line, ":")
			if i == 0 {
				_, status, _ := strings.Cut(line, " ")
				line = "HTTP/1.1 " + status
			} else if strings.EqualFold(name, "Transfer-Encoding") || strings.EqualFold(name, "Content-Encoding") || strings.EqualFold(name, "Content-Length") {
				continue
			}
			answer += line + "\r\n"
		}
	}
	r.add(frame.U2C, answer+"\r\n"+string(events))
	return r, nil
}

// An eventReader yields the bytes of a connection.
type eventReader struct {
	file  *source.File
	buf   []byte
	queue []source.Record
	err   error
}

// About describes the stream.
func (r *eventReader) About() source.About {
	return source.About{Comment: "an event stream that was saved, without its request"}
}

func (r *eventReader) add(dir frame.Dir, text string) {
	r.queue = append(r.queue, source.Record{Kind: source.Bytes, Conn: 1, Dir: dir, Data: []byte(text)})
}

// read reads a piece of the file, or has reached the end of one that grows.
func (r *eventReader) read() ([]byte, error) {
	n, err := r.file.Reader.Read(r.buf)
	if n == 0 && err == nil && r.file.Live {
		return nil, nil
	}
	return r.buf[:n], err
}

// Next reads the next record; see [source.Reader].
func (r *eventReader) Next(rec *source.Record) error {
	if len(r.queue) > 0 {
		*rec, r.queue = r.queue[0], r.queue[1:]
		return nil
	}
	if r.err != nil {
		return r.err
	}
	piece, err := r.read()
	if r.err = err; err == io.EOF {
		r.queue = append(r.queue, source.Record{Kind: source.Ended, Conn: 1, Dir: frame.U2C})
	}
	if len(piece) == 0 && err != nil {
		return r.Next(rec)
	}
	*rec = source.Record{Kind: source.Bytes, Conn: 1, Dir: frame.U2C, Data: piece}
	if len(piece) == 0 {
		rec.Kind = source.Idle
	}
	return nil
}
