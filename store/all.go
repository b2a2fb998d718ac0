package store

// All yields every frame in the index with its payload and the JSON form of that, if it has
// one. Both are valid during the call, and nil if the bytes are not kept any more.
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
