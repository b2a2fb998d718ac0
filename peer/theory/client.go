package theory

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

const (
	clientQueue = 256              // messages that may wait for a client
	tokenQueue  = 192              // messages above which tokens are dropped
	clientWrite = 10 * time.Second // how long a client may take to read one
	others      = 2 * time.Second  // how long it may block other clients of its run
	clientLimit = 16 << 20         // bytes of a message from a client
	requestWait = 30 * time.Second // how long a client may take to send its request
	peerLimit   = 8 << 20          // bytes of a message that clients accept
)

// A client is one connection.
type client struct {
	runtime *Runtime
	ws      *websocket.Conn
	queue   chan []byte   // messages to write
	ending  chan struct{} // closed by closeAfterQueue
	gone    chan struct{} // closed when nothing more is written

	observer bool // may not control the run

	// closeAfterQueue closes the connection once the queue is written.
	closeAfterQueue func()
}

func newClient(t *Runtime, ws *websocket.Conn) *client {
	ws.SetReadLimit(clientLimit)
	c := &client{runtime: t, ws: ws, queue: make(chan []byte, clientQueue), ending: make(chan struct{}), gone: make(chan struct{})}
	c.closeAfterQueue = sync.OnceFunc(func() { close(c.ending) })
	return c
}

// serveRequest reads the request, joins its run, and handles what the controller sends
// later.
func (c *client) serveRequest() {
	go c.writeMessages()
	defer func() { <-c.gone }()
	defer c.closeAfterQueue()
	defer c.drop()
	q := c.request()
	if q == nil {
		return
	}
	r, fresh := c.runtime.runOf(q)
	if r == nil {
		c.ws.Close(websocket.StatusGoingAway, errStopped.Error())
		return
	}
	r.join(c)
	defer r.leave(c)
	if fresh {
		go r.work()
	}
	for {
		m, ok := c.readMessage(context.Background())
		if !ok {
			return
		}
		if strings.EqualFold(m.Kind, "control") {
			r.control(m.Content, !c.observer)
		}
	}
}

// request reads the first message. If that is not a request, it closes the connection and
// returns nil.
func (c *client) request() *Request {
	patience, cancel := context.WithTimeout(context.Background(), requestWait)
	defer cancel()
	m, ok := c.readMessage(patience)
	opener := c.runtime.options.Dialect.Opener()
	switch {
	case !ok:
		return nil
	case m.Kind != opener:
		c.ws.Close(websocket.StatusProtocolError, "the first message is a "+opener)
		return nil
	}
	o := m.Control
	if opener == "Request" {
		o.Inputs, o.Outputs = m.Inputs, m.Outputs
	} else if o = (opening{}); m.Content != nil && json.Unmarshal(m.Content, &o) != nil {
		c.ws.Close(websocket.StatusProtocolError, "a member of the message has the wrong type")
		return nil
	}
	if o.unwrapPayload() != nil {
		c.ws.Close(websocket.StatusProtocolError, "a member of the payload has the wrong type")
		return nil
	}
	id := o.identity.in(c.runtime.options.Dialect)
	if id.text() == "" {
		c.ws.Close(websocket.StatusPolicyViolation, "a "+opener+" names its run_id")
		return nil
	}
	c.observer = o.Role == "observer"
	q := &Request{RunID: id.text(), id: id, Mode: cmp.Or(o.Mode, "mock"), Inputs: o.Inputs, Outputs: o.Outputs, more: o.more}
	if q.Outputs == nil {
		q.Outputs = values{}
	}
	return q
}

// drop closes the connection without a reason.
func (c *client) drop() { _ = c.ws.CloseNow() } // it may be closed already

// readMessage reads a message. Anything else closes the connection.
func (c *client) readMessage(ctx context.Context) (*incoming, bool) {
	kind, data, err := c.ws.Read(ctx)
	if err != nil {
		return nil, false
	}
	m := &incoming{}
	switch {
	case kind != websocket.MessageText:
		c.ws.Close(websocket.StatusUnsupportedData, "messages are text")
	case jsonscan.Valid(data) != nil || jsonscan.KindOf(bytes.TrimLeft(data, " \t\r\n")) != jsonscan.Object:
		c.ws.Close(websocket.StatusInvalidFramePayloadData, "a message is a JSON object")
	case json.Unmarshal(data, m) != nil:
		c.ws.Close(websocket.StatusProtocolError, "a member of the message has the wrong type")
	default:
		return m, true
	}
	return nil, false
}

// writeMessages writes the messages of runs to the client, until the client does not read,
// or after closeAfterQueue until the queue is written.
func (c *client) writeMessages() {
	defer close(c.gone)
	for {
		select {
		case m := <-c.queue:
			if !c.writeOne(m) {
				return
			}
		case <-c.ending:
			for len(c.queue) > 0 {
				if !c.writeOne(<-c.queue) {
					return
				}
			}
			c.ws.Close(websocket.StatusGoingAway, errStopped.Error())
			return
		}
	}
}

func (c *client) writeOne(m []byte) bool {
	ctx, cancel := context.WithTimeout(context.Background(), clientWrite)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageText, m) == nil
}

// push queues a message for the client. Tokens are dropped when the client is slow; other
// messages block until there is room, or the client is gone. A client that blocks others
// for too long is dropped.
func (c *client) push(m []byte, droppable, alone bool) {
	if droppable && len(c.queue) >= tokenQueue {
		return
	}
	select {
	case c.queue <- m:
		return
	default:
	}
	if !alone {
		hurry := time.AfterFunc(others, c.drop)
		defer hurry.Stop()
	}
	select {
	case c.queue <- m:
	case <-c.gone:
	}
}
