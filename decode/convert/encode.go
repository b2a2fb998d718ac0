package convert

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/wirectl/wirectl/capture/ndjson"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
)

// EncodeConfig says which frames to make.
type EncodeConfig struct {
	// Framing and Protocol override those of a record. Lines that are bare payloads need at
	// least one of them.
	Framing  frame.Framing
	Protocol protocol.Protocol
	// Limit is the largest payload, in bytes; 0 leaves only the limit of a line.
	Limit int
}

// maxLine is the longest line, in bytes, unless the limit of a payload says more:
// any that decode writes of frames up to some hundred megabytes, whatever its limit
// was. Memory is taken as bytes arrive.
const maxLine = 1 << 30

// An EncodeError is about a line that could not be encoded.
type EncodeError struct {
	Line int // from 1
	Err  error
}

func (e *EncodeError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *EncodeError) Unwrap() error { return e.Err }

// ErrNoFraming is the error for a payload without a framing.
var ErrNoFraming = errors.New("the framing of this payload is unknown")

// Encode reads NDJSON, whose records may span several lines, from r and writes the frames to
// w. It fails at the first line that it cannot encode; the frames before it have then been
// written.
func Encode(ctx context.Context, r io.Reader, w io.Writer, cfg EncodeConfig) error {
	lines := frame.NewScanner(ndjson.Lines(r), frame.Line)
	lines.SetLimit(max(maxLine, ndjson.LineLimit(cfg.Limit)))
	lines.SetAccept(func([]byte, bool) bool { return true })
	e := encoder{reframe: Reframe(cfg)}
	var batch frame.Batch
	for number := 0; ctx.Err() == nil && lines.ScanBatch(&batch); {
		var err error
		e.out = e.out[:0]
		for i := 0; i < len(batch.Frames) && err == nil; i++ {
			f := &batch.Frames[i]
			number += ndjson.BlankLines(f)
			if !f.Gap {
				number++
				err = e.line(f.Payload())
			}
		}
		if _, werr := w.Write(e.out); werr != nil {
			return werr
		}
		if err != nil {
			return &EncodeError{number, err}
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return lines.Err()
}

// An encoder appends the frames of lines to out.
type encoder struct {
	reframe ndjson.Reframe
	out     []byte
	record  ndjson.Record
}

func (e *encoder) line(line []byte) error {
	isRecord, err := e.record.Parse(line)
	switch {
	case err != nil:
		return err
	case !isRecord:
		e.record = ndjson.Record{Payload: line}
	case e.record.Raw != nil:
		e.out = append(e.out, e.record.Raw...)
		return nil
	}
	e.out, err = e.reframe(e.out, &e.record)
	return err
}

// Reframe returns a function that makes the frame of a record with a payload and no raw
// bytes. It uses the framing of the configuration or else of the record; if neither names
// one, the usual framing of the protocol.
func Reframe(cfg EncodeConfig) ndjson.Reframe {
	var payload []byte
	return func(dst []byte, r *ndjson.Record) ([]byte, error) {
		framing, p, err := cfg.meaning(r)
		if err != nil {
			return dst, err
		}
		payload = r.Payload
		if t, ok := p.(protocol.Transcoder); ok {
			if payload, err = t.AppendPayload(nil, payload); err != nil {
				return dst, err
			}
		}
		if cfg.Limit > 0 && len(payload) > cfg.Limit {
			return dst, fmt.Errorf("the payload takes %d bytes, over the limit of %d", len(payload), cfg.Limit)
		}
		r.Framing = framing.Name()
		if p != nil {
			r.Protocol = p.Name()
		}
		return frame.Append(dst, framing, payload)
	}
}

// meaning returns the framing and the payload of a record, and its protocol, which may be
// nil.
func (cfg EncodeConfig) meaning(r *ndjson.Record) (framing frame.Framing, p protocol.Protocol, err error) {
	framing, p = cfg.Framing, cfg.Protocol
	if framing == nil && frame.IsCarried(r.Framing) {
		return nil, nil, fmt.Errorf("a payload of the carrier framing %s cannot be framed again: keep the record's raw, or name another framing", r.Framing)
	}
	if framing == nil && r.Framing != "" {
		if framing, err = frame.Named(r.Framing); err != nil {
			return nil, nil, err
		}
	}
	if p == nil && r.Protocol != "" {
		if p, err = all.Named(r.Protocol); err != nil {
			return nil, nil, err
		}
	}
	if framing == nil && p != nil {
		framing = all.Of(p).Usual()
	}
	if framing == nil {
		return nil, nil, ErrNoFraming
	}
	return framing, p, nil
}
