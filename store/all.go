package store

// All yields every frame in the index with its payload, of which form is the
// JSON form if it has one; both are valid during the call. Where the bytes are
// not kept any more both are nil.
func (s *Store) All(yield func(f *Frame, payload, form []byte) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for seq := s.frames.first; seq < s.frames.nextSeq(); seq++ {
		f := s.frame(seq)
		var payload, form []byte
		if s.load(seq, s.frames.at(seq)) == nil {
			payload = s.item.Payload
			if f.Gap {
				payload = s.item.Frame.Raw
			}
			form, _, _ = s.item.JSON()
		}
		if !yield(f, payload, form) {
			return
		}
	}
}
