package jsonscan

// AppendCompact appends data, a valid JSON text, without the white space
// between its tokens. Everything else stays as it is written.
func AppendCompact(dst, data []byte) []byte {
	start := 0
	for i := 0; i < len(data); {
		switch data[i] {
		case '"':
			if i = passSurrogates(data, validStringEnd(data, i)); i < 0 {
				return append(dst, data[start:]...)
			}
		case ' ', '\t', '\n', '\r':
			dst = append(dst, data[start:i]...)
			i++
			start = i
		default:
			i++
		}
	}
	return append(dst, data[start:]...)
}
