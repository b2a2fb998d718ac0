package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// selected is how far below the first row the selected one is.
const selected = 6

// A script is a made-up session: frames with their times, as a capture.
type script struct {
	session capture.Session
	list    []capture.Record
	next    int
	joins   bool // its connections are the wires of an agent
}

// Session says which protocol is spoken.
func (s *script) Session() *capture.Session { return &s.session }

// Next returns the next frame.
func (s *script) Next(r *capture.Record) error {
	if s.next == len(s.list) {
		return io.EOF
	}
	*r = s.list[s.next]
	s.next++
	return nil
}

var begun = time.Date(2026, 11, 21, 9, 41, 0, 0, time.UTC)

// addMessage adds a frame, so many milliseconds after the beginning.
func (s *script) addMessage(ms int, dir frame.Dir, text string) {
	text = `{"jsonrpc":"2.0",` + text + "}"
	r := capture.Record{Time: begun.Add(time.Duration(ms) * time.Millisecond)}
	r.Frame = frame.Frame{Raw: []byte(text + "\n"), End: len(text), Conn: 1, Dir: dir}
	s.list = append(s.list, r)
}

func (s *script) addRequest(ms, id int, method, params string) {
	s.addMessage(ms, frame.C2U, fmt.Sprintf(`"id":%d,"method":%q,"params":{%s,"_meta":{"progressToken":"p%d"}}`, id, method, params, id))
}

func (s *script) addCall(ms, id int, tool, args string) {
	s.addRequest(ms, id, "tools/call", fmt.Sprintf(`"name":%q,"arguments":{%s}`, tool, args))
}

// parts adds reports of progress at those times.
func (s *script) parts(id int, message string, at ...int) {
	for i, ms := range at {
		s.addMessage(ms, frame.U2C, fmt.Sprintf(`"method":"notifications/progress","params":{"progressToken":"p%d","progress":%d,"message":%q}`, id, i+1, fmt.Sprintf(message, i+1)))
	}
}

func (s *script) addAnswer(ms, id int, text string) {
	s.addMessage(ms, frame.U2C, fmt.Sprintf(`"id":%d,"result":{"content":[{"type":"text","text":%q}]}`, id, text))
}

func (s *script) addCancel(ms, id int) {
	s.addMessage(ms, frame.C2U, fmt.Sprintf(`"method":"notifications/cancelled","params":{"requestId":%d,"reason":"user pressed stop"}`, id))
}

// every returns times from one to another.
func every(from, to, step int) (list []int) {
	for i := 0; from < to; i++ {
		list = append(list, from)
		from += step + (i*37)%max(step/2, 1)
	}
	return list
}

// play returns a session with everything that lanes can show.
func play() *script {
	s := &script{session: capture.Session{Created: begun, Framing: "line", Protocol: "mcp", Unit: "research-agent"}}
	s.addRequest(0, 0, "initialize", `"protocolVersion":"2025-06-18","capabilities":{"sampling":{}},"clientInfo":{"name":"desk","version":"2.1.0"}`)
	s.addMessage(62, frame.U2C, `"id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"research-agent","version":"1.4.0"}}`)
	s.addMessage(64, frame.C2U, `"method":"notifications/initialized"`)
	s.addRequest(80, 1, "tools/list", `"cursor":""`)
	s.addMessage(118, frame.U2C, `"id":1,"result":{"tools":[{"name":"search"},{"name":"fetch"},{"name":"summarize"}]}`)
	s.addCall(150, 2, "search", `"q":"cancellation in JSON-RPC"`)
	s.addCall(170, 3, "search", `"q":"head-of-line blocking"`)
	s.addCall(240, 4, "fetch", `"url":"https://example.com/spec"`)
	s.parts(2, "%d pages read", every(260, 900, 55)...)
	s.addAnswer(930, 2, "12 results")
	s.parts(3, "%d pages read", append(every(300, 600, 70), every(1150, 1500, 60)...)...) // with a gap
	s.addAnswer(1530, 3, "9 results")
	s.parts(4, "%d kB", every(380, 760, 60)...)
	s.addCancel(790, 4)
	s.addMessage(560, frame.U2C, `"id":"r1","method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"Is this page relevant?"}}],"maxTokens":64}`)
	s.addMessage(1240, frame.C2U, `"id":"r1","result":{"role":"assistant","content":{"type":"text","text":"yes"},"model":"local"}`)
	s.addCall(980, 5, "summarize", `"doc":"spec","style":"brief"`)
	s.parts(5, "paragraph %d", every(1080, 1480, 45)...)
	s.addCancel(1500, 5)
	s.parts(5, "paragraph %d", every(1530, 2000, 60)...) // it goes on all the same
	s.addAnswer(2080, 5, "The protocol says that …")
	s.addCall(1300, 6, "fetch", `"url":"https://example.com/missing"`)
	s.addMessage(1720, frame.U2C, `"id":6,"error":{"code":-32002,"message":"404 not found"}`)
	s.addCall(1640, 7, "fetch", `"url":"https://example.com/appendix"`)
	s.addCancel(1890, 7)
	s.addAnswer(1896, 7, "appendix")
	s.addRequest(1980, 8, "ping", `"n":1`)
	s.addMessage(1991, frame.U2C, `"id":8,"result":{}`)
	s.addCall(1760, 9, "search", `"q":"日本語の仕様"`)
	s.parts(9, "%d pages read", every(1840, 2650, 24)...)
	s.addCall(2110, 10, "summarize", `"doc":"appendix","style":"long"`)
	s.parts(10, "paragraph %d", append(every(2200, 2330, 30), every(2560, 2650, 30)...)...)
	s.addCall(2380, 11, "fetch", `"url":"https://example.com/slow"`)
	slices.SortStableFunc(s.list, func(a, b capture.Record) int { return cmp.Compare(a.Time.UnixNano(), b.Time.UnixNano()) })
	return s
}
