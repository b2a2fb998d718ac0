package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/transport"
)

// messageWire takes messages to a peer that speaks WebSocket: each is one text
// message, without the framing that a stream needs.
type messageWire struct {
	rpc   *RPC
	conn  transport.Messenger
	watch *Watch

	writing sync.Mutex
	ended   chan struct{} // closed when nothing more is read
}

func newMessageWire(r *RPC, conn transport.Messenger, w *Watch) *messageWire {
	m := &messageWire{rpc: r, conn: conn, watch: w, ended: make(chan struct{})}
	go m.read()
	return m
}

func (w *messageWire) read() {
	defer close(w.ended)
	for {
		m, err := w.conn.ReadMessage(context.Background())
		if err == nil {
			err = w.receive(m.Data)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = ErrEnded
			}
			w.rpc.fail(err)
			return
		}
	}
}

func (w *messageWire) receive(message []byte) error {
	payload := bytes.TrimSpace(message)
	if _, err := w.watch.see(1, frame.U2C, frame.Line.Name(), asLine(payload)); err != nil {
		return &FaultError{err}
	}
	return w.rpc.receive(payload)
}

// send sends a message. As that of a link, it ends the connection if a peer does not
// read.
func (w *messageWire) send(ctx context.Context, payload []byte) error {
	lasting, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer cutAfter(ctx, cut)()
	w.writing.Lock()
	defer w.writing.Unlock()
	if _, err := w.watch.see(1, frame.C2U, frame.Line.Name(), asLine(payload)); err != nil {
		return err
	}
	err := w.conn.WriteMessage(lasting, transport.Message{Text: true, Data: payload})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (w *messageWire) close() error {
	err := w.conn.Close()
	<-w.ended
	w.watch.end(1)
	return err
}
