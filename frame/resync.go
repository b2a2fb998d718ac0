package frame

// seek emits a gap up to the next plausible frame, or one of the largest size. It returns
// false when it needs more bytes to decide, so that gaps do not depend on how the stream was
// cut into reads. With atOnce, it emits the bytes that certainly belong to no frame.
func (s *Scanner) seek(data []byte) bool {
	if s.extent.Need > len(data) && !s.eof {
		return false
	}
	s.extent = Extent{}
	for {
		if !s.held {
			n := s.framing.Sync(data[s.searched:], s.limit)
			if s.held = n >= 0; !s.held {
				s.searched = len(data)
				break
			}
			s.searched += n
		}
		if s.searched > gapSize || s.searched == len(data) {
			break
		}
		v, judged := s.plausible(data[s.searched:])
		switch {
		case v == yes:
			return s.found(s.searched)
		case v == no:
			s.searched, s.held = s.searched+judged, false
			continue
		case s.atOnce:
			need := s.extent.Need
			gap := s.gap(s.searched)
			s.extent.Need = need
			return gap
		}
		s.extent.Need += s.searched
		return false
	}
	if len(data) > gapSize || s.eof || s.atOnce {
		return s.gap(min(len(data), gapSize))
	}
	return false
}

// found ends the search: a frame begins after the next n bytes.
func (s *Scanner) found(n int) bool {
	gap := s.gap(n)
	s.lost = nil
	return gap || s.step()
}

// gap emits n bytes that belong to no frame. It returns false if n is 0. Only the first gap
// describes the bytes, because how many are buffered later depends on how the stream was cut
// into reads.
func (s *Scanner) gap(n int) bool {
	if n == 0 {
		return false
	}
	if s.lost.Head == nil {
		s.describe(s.lost, s.buf[s.head:s.head+n])
	}
	s.extent = Extent{Raw: n, Gap: true, Flaw: s.lost}
	s.skipped.Bytes += int64(n)
	s.searched -= n
	s.emitFrame()
	return true
}

type verdict uint8

const (
	no verdict = iota
	unsure
	yes
)

// syncSize is how many bytes are enough to recognize a header.
const syncSize = 16

// plausible judges whether a frame begins at data. A frame cut by the end of the stream does
// not count. If the verdict is unsure, the Need of s.extent is how many bytes would help. If
// no frame begins at data, the search continues at data[judged:]. Blank lines are only read
// once.
func (s *Scanner) plausible(data []byte) (v verdict, judged int) {
	if len(data) < syncSize && !s.eof && !s.atOnce {
		s.extent.Need = syncSize
		return unsure, 0
	}
	var e Extent
	err := s.framing.Next(data, s.limit, s.eof, &e)
	switch s.framing {
	case Line, Nul: // Sync has to see the byte before a frame
		if judged = e.Start; e.Gap {
			judged = e.Raw
		}
		judged = max(0, judged-1)
	default:
		judged = 1
	}
	if err != nil || e.Gap {
		return no, judged
	}
	payload := data[e.Start:min(e.End, len(data))]
	prefix := payload[:min(len(payload), peekSize)]
	switch whole := e.Raw != 0; {
	case !whole && s.eof, whole && len(payload) == 0:
		return no, judged
	case !whole && len(payload) <= peekSize:
		s.extent.Need = min(e.Need, e.Start+peekSize+1)
		return unsure, 0
	case s.accept != nil && !s.accept(prefix, whole && len(prefix) == len(payload)):
		return no, judged
	case !whole:
		s.extent.Need = e.Need
		return unsure, 0
	}
	return yes, 0
}
