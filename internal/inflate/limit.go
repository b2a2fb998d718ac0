package inflate

import "io"

// ReadAll is [io.ReadAll] for at most n bytes. If there are more, it returns tooLarge.
func ReadAll(r io.Reader, n int64, tooLarge error) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, n+1))
	if err == nil && int64(len(data)) > n {
		return nil, tooLarge
	}
	return data, err
}
