package recorder

import (
	"errors"
	"io"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
)

// An encoder writes records as blocks to an output.
type encoder struct {
	out    output
	label  func(*capture.Record, *pcapng.Label)
	encode Encoder
	hurry  bool  // many records are waiting: skip labels
	part   int64 // records in this part
	record capture.Record
}

// newEncoder returns an encoder, after writing the header.
func newEncoder(out output, cfg *Config) (*encoder, error) {
	e := &encoder{out: out, label: cfg.Label}
	if cfg.Label != nil {
		e.encode.Label = e.labelled
	}
	err := e.encode.Begin(&cfg.Session)
	if err == nil {
		err = e.flush()
	}
	if err != nil {
		return nil, errors.Join(err, out.close())
	}
	return e, nil
}

// labelled labels a frame, unless hurry is set.
func (e *encoder) labelled(rec *capture.Record, l *pcapng.Label) {
	if !e.hurry {
		e.label(rec, l)
	}
}

func (e *encoder) takeRecords(s *capture.Session, from source, hurry bool) error {
	e.hurry = hurry
	for {
		switch err := from.Next(&e.record); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := e.put(s); err != nil {
			return err
		}
	}
}

// blocks is the buffer size, in bytes, at which data is flushed while more records are
// waiting.
const blocks = 256 << 10

// put encodes the current record, and begins a new part if the current one is full.
func (e *encoder) put(s *capture.Session) error {
	if e.part > 0 && e.out.full(len(e.encode.Buf)) {
		if err := e.flush(); err != nil {
			return err
		}
		if err := e.out.nextPart(); err != nil {
			return err
		}
		e.encode.EndSession()
		e.part = 0
	}
	e.part++
	if err := e.encode.Write(s, &e.record); err != nil {
		return err
	}
	if len(e.encode.Buf) >= blocks {
		return e.flush()
	}
	return nil
}

// flush writes the encoded records to the output.
func (e *encoder) flush() error {
	if len(e.encode.Buf) == 0 {
		return nil
	}
	err := e.out.writeBlocks(e.encode.Buf)
	e.encode.Reset()
	return err
}

func (e *encoder) close() error { return e.out.close() }
