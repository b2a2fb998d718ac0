package httpproxy

import (
	"bytes"
	"sync"

	"github.com/wirectl/wirectl/frame/carrier"
)

// answers follows the server's side of a connection, to know when it has answered every
// request.
type answers struct {
	mu    sync.Mutex
	asked []string // the methods of the requests that are not answered completely
	lost  bool     // what the server sends cannot be assigned to requests any more

	body carrier.Delimiter
	held []byte // the beginning of a head, or of the size of a chunk
}

// maxAsked bounds the requests that wait for their answers.
const maxAsked = 10_000

// expect adds a request.
func (a *answers) expect(method string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, method)
	a.lost = a.lost || len(a.asked) > maxAsked
}

// push reads what the server has sent.
func (a *answers) push(data []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.held) > 0 {
		data = append(a.held, data...)
	}
	a.held = nil
	for len(data) > 0 && !a.lost {
		n := a.next(data)
		if n == 0 {
			a.held = bytes.Clone(data)
			return
		}
		data = data[n:]
	}
	if a.lost {
		a.asked = nil
	}
}

// next reads a head, or a part of a body. If it returns 0, it needs more bytes.
func (a *answers) next(data []byte) int {
	if a.body.Ended() {
		return a.head(data)
	}
	n, _, err := a.body.Next(data)
	a.lost = err != nil
	a.end()
	return n
}

// end removes a request whose answer is complete.
func (a *answers) end() {
	if a.body.Ended() {
		a.asked = a.asked[1:]
	}
}

func (a *answers) head(data []byte) int {
	if blank := len(data) - len(bytes.TrimLeft(data, "\r\n")); blank > 0 {
		return blank
	}
	n := carrier.HeadEnd(data)
	if n == 0 {
		a.lost = len(data) > carrier.MaxHead
		return 0
	}
	head := carrier.ParseHead(data[:n])
	status := head.Status()
	size, ok := carrier.SizeOf(head)
	switch {
	case len(a.asked) == 0, status == "", status == "101", a.asked[0] == "CONNECT" && status[0] == '2':
		a.lost = true // it is no answer, or no more HTTP follows
		return 0
	case status[0] == '1':
		return n
	case a.asked[0] == "HEAD", status == "204", status == "304":
		size = carrier.BodySize{}
	case !ok:
		a.lost = true
		return 0
	}
	a.body.Begin(size)
	a.end()
	return n
}
