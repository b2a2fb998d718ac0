package frame

// seek gives out a gap that ends where a frame is plausible, or one of as much
// as is surely none. It returns false when more bytes are needed to tell.
func (s *Scanner) seek(data []byte) bool {
	at := 0
	if !s.unsure {
		at = s.framing.Sync(data, s.limit)
	}
	s.unsure = false
	for ; at < min(len(data), gapSize); at += 1 + s.framing.Sync(data[at+1:], s.limit) {
		switch s.plausible(data[at:]) {
		case yes:
			return s.found(at)
		case unsure:
			s.unsure = true
			return s.gap(at)
		}
	}
	s.unsure = at == gapSize
	return s.gap(min(at, len(data), gapSize))
}

// found ends the search: a frame begins behind the next n bytes.
func (s *Scanner) found(n int) bool {
	gap := s.gap(n)
	s.lost = nil
	return gap || s.step()
}

// gap gives out n bytes that belong to no frame. It returns false if n is 0.
func (s *Scanner) gap(n int) bool {
	if n == 0 {
		return false
	}
	s.extent = Extent{Raw: n, Gap: true, Flaw: s.lost}
	s.skipped.Bytes += int64(n)
	s.take()
	return true
}

type verdict uint8

const (
	no verdict = iota
	unsure
	yes
)

// plausible judges whether a frame begins at data. A frame that the end of the
// stream cuts is none: nothing would be gained by it.
func (s *Scanner) plausible(data []byte) verdict {
	var e Extent
	if err := s.framing.Next(data, s.limit, s.eof, &e); err != nil || e.Gap {
		return no
	}
	payload := data[e.Start:min(e.End, len(data))]
	prefix := payload[:min(len(payload), peekSize)]
	switch {
	case e.Raw == 0 && s.eof:
		return no
	case e.Raw == 0 && len(prefix) < peekSize:
		return unsure
	case len(prefix) == 0:
		return no
	case s.accept == nil || s.accept(prefix, e.Raw != 0 && len(prefix) == len(payload)):
		return yes
	}
	return no
}
