package decode

// Raw shows the bytes of an item as they were on the wire.
func Raw() View {
	return func(dst []byte, it *Item) ([]byte, error) {
		it.CheckForm()
		return append(dst, it.Frame.Raw...), nil
	}
}

// Payload shows the payload of an item alone, without its compression.
func Payload() View {
	return func(dst []byte, it *Item) ([]byte, error) {
		it.CheckForm()
		return append(dst, it.Payload...), nil
	}
}
