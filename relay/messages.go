package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/transport"
)

// ErrNoFraming is the error of a relay between a message transport and a stream whose
// framing is not configured.
var ErrNoFraming = errors.New("one end carries messages and the other a byte stream: name its framing with --framing")

// ErrNoFramingToGate is the error of a gate between two message transports.
var ErrNoFramingToGate = errors.New("both ends carry messages, and changing them needs a framing: name it with --framing, such as line")

// check reports missing configuration.
func (cfg *Config) check() error {
	switch {
	case cfg.Framing != nil:
	case whole(cfg.Controller) != whole(cfg.Unit):
		return ErrNoFraming
	case whole(cfg.Unit) && cfg.Gate != nil:
		return ErrNoFramingToGate
	}
	return nil
}

// keepsFrames reports whether messages hold whole frames, wrapper included,
// rather than payloads.
func keepsFrames(f frame.Framing, p protocol.Protocol) bool {
	return f == frame.Len32 && (p == nil || all.Of(p).Rewrapped)
}

// wholes reports whether the relay carries messages of a WebSocket. Each of them is a
// frame by itself.
func (cfg *Config) wholes() bool {
	return whole(cfg.Controller) && whole(cfg.Unit) && cfg.Gate == nil && !keepsFrames(cfg.Framing, cfg.Protocol)
}

// receive appends the next message in its form in a stream.
func (cfg *Config) receive(dst []byte, from transport.Messenger) ([]byte, error) {
	m, err := from.ReadMessage(context.Background()) // closing the end interrupts it
	switch {
	case err != nil:
		return dst, err
	case keepsFrames(cfg.Framing, cfg.Protocol):
		return append(dst, m.Data...), nil
	}
	framed, err := frame.Append(dst, cfg.Framing, m.Data)
	if err != nil {
		err = fmt.Errorf("%w: %w", transport.ErrNotFramed, err)
	}
	return framed, err
}

// mover returns the function that moves the bytes of a way.
func (w *way) mover() func() {
	from, isFrom := w.src.(transport.Messenger)
	to, isTo := w.dst.(transport.Messenger)
	switch {
	case isFrom:
		return func() { w.forward(from, to) }
	case isTo:
		return func() { w.wrap(to) }
	}
	return w.copy
}

// forward moves messages unchanged to another Messenger, or each as a frame to a stream if
// to is nil.
func (w *way) forward(from, to transport.Messenger) {
	ctx := context.Background() // closing the ends interrupts reads and writes
	var framed []byte
	for {
		var m transport.Message
		var err error
		write := func() error { return to.WriteMessage(ctx, m) }
		if to != nil {
			m, err = from.ReadMessage(ctx)
		} else {
			framed, err = w.relay.cfg.receive(framed[:0], from)
			m.Data = framed
			write = func() error { _, err := w.dst.Write(framed); return err }
		}
		if err != nil {
			w.recordGoodbye(from)
			w.finishWay(err)
			return
		}
		if err := w.sendMessage(m.Data, write); err != nil {
			w.reportEnd(&sideError{w.dir, err})
			return
		}
	}
}

// recordGoodbye records the close frame of a peer that reports an error: it explains why
// requests have no answer.
func (w *way) recordGoodbye(from transport.Conn) {
	code, reason, said := transport.Goodbye(from)
	if said && carrier.RefusesBy(int(code)) {
		m := &frame.Meta{Framing: frame.WS, Signal: frame.Close, Code: code, Text: reason}
		w.relay.record(capture.Record{Framing: frame.WS, Frame: frame.Frame{Dir: w.dir, Offset: w.bytes.Load(), Meta: m}})
	}
}

// wrap sends the payload of each frame as a message. Gaps become messages, too; a stream
// that ends with one has failed.
func (w *way) wrap(to transport.Messenger) {
	cfg := &w.relay.cfg
	g := newGrammar(cfg.Framing, cfg.Protocol, cfg.Limit)
	s := frame.NewScanner(w.src, cfg.Framing)
	s.ResyncAtOnce()
	s.SetLimit(g.most())
	var fault error // of the latest frame
	for s.Scan() {
		f := s.Frame()
		if fault = nil; f.Gap && cfg.Framing != frame.Line { // a last line may lack its end
			fault = f.Flaw
		}
		m := transport.Message{Data: f.Payload()}
		if f.Gap || keepsFrames(cfg.Framing, cfg.Protocol) {
			m.Data = f.Raw
		}
		m.Text = cfg.Framing != frame.Len32 && utf8.Valid(m.Data)
		if err := w.sendMessage(f.Raw, func() error { return to.WriteMessage(context.Background(), m) }); err != nil {
			w.reportEnd(&sideError{w.dir, err})
			return
		}
	}
	w.finishWay(cmp.Or(s.Err(), fault, io.EOF))
}

// sendMessage passes data to the observer and calls write, which writes it.
func (w *way) sendMessage(data []byte, write func() error) error {
	room := w.well.atLeast(len(data))
	copy(room, data)
	c := w.noteRead(w.well.took(len(data)))
	w.wait.startWrite(len(data))
	err := write()
	w.wait.endWrite()
	w.wrote(c)
	return err
}
