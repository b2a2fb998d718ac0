package rlm

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// Do makes a call that did not come through a door. It is published on the connection, which
// may be nil, like a client's request and its response.
func Do(ctx context.Context, b *broker.Broker, c *broker.Call, on *observe.Conn) error {
	c.Door = Name
	// Whatever ends ctx, the broker sees a call that its client cancelled.
	call, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(broker.ErrCancelled) })()
	if on == nil {
		return b.Do(call, c)
	}
	c.Tap = on.Tap()
	prompt := c.Prompt
	if c.Body != nil {
		prompt, _ = jsonscan.Get(c.Body, "messages") // the rest is in the request to the provider
	}
	published := buffers.Get().(*[]byte)
	defer buffers.Put(published)
	*published = appendRequest(append((*published)[:0], 0, 0, 0, 0), c, prompt)
	on.Frame(frame.C2U, *published, prefix)
	err := b.Do(call, c)
	c.Prompt = prompt
	r := begin((*published)[:0], jsonscan.AppendQuote(nil, []byte(c.Ref)))
	if err != nil {
		r.fail(broker.Message(err)) // the whole response: an error in a result is not a failed exchange
	} else {
		r.results()
		r.result(c, nil)
	}
	*published = r.endResponse(err != nil)
	on.Frame(frame.U2C, *published, prefix)
	return err
}

// buffers are for what is published: fresh memory costs more than the call.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// appendRequest appends a call as a request, after the space for its length.
func appendRequest(b []byte, c *broker.Call, prompt []byte) []byte {
	b = append(b, `{"correlation_id":`...)
	b = jsonscan.AppendQuote(b, []byte(c.Ref))
	if c.Model != "" {
		b = append(b, `,"model":`...)
		b = jsonscan.AppendQuote(b, []byte(c.Model))
	}
	b = append(append(append(b, `,"prompt":`...), prompt...), '}')
	binary.BigEndian.PutUint32(b, uint32(len(b)-prefix))
	return b
}
