package decode

import (
	"bytes"
	"fmt"
	"io"

	"github.com/wirectl/wirectl/internal/inflate"
)

// Compressions are the names of the message encodings that Config.Compression
// takes, as grpc-encoding spells them.
var Compressions = []string{"gzip", "deflate", "zstd", "identity"}

// An inflater undoes the compression of messages, into memory of its own.
type inflater struct {
	encoding string // of messages that do not say theirs
	limit    int
	out      bytes.Buffer
}

// bytes returns data without its compression, valid until the next call. What
// it takes is bounded by the limit, whatever data says.
func (f *inflater) bytes(encoding string, data []byte) ([]byte, error) {
	if encoding == "identity" {
		return data, nil
	}
	r, err := inflate.Open(encoding, bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("the message is flagged as compressed, but is not %s: %w", encoding, err)
	}
	defer r.Close()
	f.out.Reset()
	if _, err := io.CopyN(&f.out, r, int64(f.limit)+1); err == nil {
		return nil, fmt.Errorf("the message is over the limit of %d bytes once it is decompressed", f.limit)
	} else if err != io.EOF {
		return nil, fmt.Errorf("the compressed message is damaged: %w", err)
	}
	return f.out.Bytes(), nil
}
