package decode

import (
	"fmt"
	"io"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/opaque"
)

// A stream yields batches of frames and the protocol of each. It detects what its
// configuration leaves open.
type stream struct {
	cfg      Config
	scanner  *frame.Scanner
	framing  frame.Framing
	protocol protocol.Protocol
	refiner  *all.Refiner // not nil while a later message may tell more
	started  bool
	failed   error
	seq      int64
	fault    fault // of the gap before
}

func newStream(r io.Reader, cfg Config) *stream {
	s := &stream{cfg: cfg, scanner: frame.NewScanner(r, nil), seq: max(cfg.FirstSeq, 1)}
	if cfg.Resync {
		s.scanner.Resync()
	}
	return s
}

func (s *stream) nextBatch(b *batch) bool {
	if !s.started {
		s.started = true
		s.detect()
	}
	if s.framing == nil || !s.scanner.ScanBatch(&b.Batch) {
		return false
	}
	b.first = s.seq
	b.since = append(b.since[:0], since{framing: s.framing, protocol: s.protocol})
	b.fault = b.fault[:0]
	for i := 0; i < len(b.Frames); i++ {
		f := &b.Frames[i]
		f.Conn = s.cfg.Conn
		if f.Gap {
			if s.numberFault(f, b.first+int64(i)) {
				b.fault = append(b.fault, i)
			}
			continue
		}
		if s.refiner != nil && !f.Compressed && s.refine(f, b.first+int64(i)) {
			b.since = append(b.since, since{index: i, framing: s.framing, protocol: s.protocol})
			s.scanner.Return(&b.Batch, i+1) // they were scanned by the rules of another protocol
		}
	}
	s.seq += int64(len(b.Frames))
	return true
}

// numberFault puts a number into the fault of a gap. It reports whether the gap is the
// first one with this fault.
func (s *stream) numberFault(f *frame.Frame, seq int64) (begins bool) {
	if f.Flaw == nil {
		return false
	}
	if begins = !s.fault.is(f.Flaw); begins {
		s.fault = fault{f.Flaw, numbered(f.Flaw, seq)}
	}
	f.Flaw = s.fault.shown
	return begins
}

func (s *stream) err() error {
	switch err := s.scanner.Err(); {
	case s.failed != nil:
		return s.failed
	case err == nil:
		return nil
	case s.fault.is(err):
		return s.fault.shown
	default:
		return numbered(err, s.seq)
	}
}

func (s *stream) state() (frame.Framing, int64) { return s.framing, s.seq }

// detect settles framing and protocol, waiting for no more than the first
// frame, or 64 KiB.
func (s *stream) detect() {
	guess := all.Guess{Framing: s.cfg.Framing, Protocol: s.cfg.Protocol, Limit: s.cfg.Limit}
	if guess.Framing == nil || guess.Protocol == nil {
		head, atEOF := s.scanner.Peek(1)
		for !guess.Detect(head, atEOF) {
			head, atEOF = s.scanner.Peek(len(head) + 1)
		}
		if len(head) == 0 {
			s.scanner.Scan() // its error says why there is nothing
			return
		}
		if calls := newCalls(&s.cfg); calls.hasSchema() {
			s.failed = ErrNoMessage
			return
		}
		if guess.Framing == nil {
			guess.Framing, guess.Protocol = frame.Unknown, opaque.Bytes
		} else {
			s.notice("%s", guess.String())
		}
	}
	s.framing = guess.Framing
	s.scanner.SetFraming(guess.Framing)
	s.setProtocol(guess.Protocol)
	if s.cfg.Protocol == nil {
		s.refiner = guess.Refiner()
	}
}

// setProtocol makes p the protocol of the frames that follow.
func (s *stream) setProtocol(p protocol.Protocol) {
	s.protocol = p
	s.adjust(s.scanner, p)
}

// adjust makes a scanner accept the frames that p allows.
func (s *stream) adjust(scanner *frame.Scanner, p protocol.Protocol) {
	limit := s.cfg.Limit
	if limit == 0 {
		limit = all.Limit(p)
	}
	scanner.SetLimit(limit)
	scanner.SetAccept(all.Plausible(p))
}

// refine detects a more specific protocol from the frame of that number, and reports
// whether it did.
func (s *stream) refine(f *frame.Frame, seq int64) bool {
	p, why, done := s.refiner.Refine(f.Payload())
	if done {
		s.refiner = nil
	}
	if p == s.protocol {
		return false
	}
	s.notice("frame %d: %s: %s from here on", seq, why, p.Name())
	s.setProtocol(p)
	return true
}

func (s *stream) notice(format string, args ...any) {
	if s.cfg.Notice != nil {
		s.cfg.Notice(fmt.Sprintf(format, args...))
	}
}
