package decode

import (
	"bytes"
	"fmt"
	"io"

	"github.com/wirectl/wirectl/inflate"
)

// Compressions are the names of the message encodings that Config.Compression
// takes, as grpc-encoding spells them.
var Compressions = []string{"gzip", "deflate", "zstd", "identity"}

// An inflater undoes the compression of messages, into memory of its own.
type inflater struct {
	encoding string
	limit    int
	out      bytes.Buffer
}

// as is bytes with another encoding.
func (f *inflater) as(encoding string, data []byte) ([]byte, error) {
	defer func(usual string) { f.encoding = usual }(f.encoding)
	f.encoding = encoding
	return f.bytes(data)
}

// bytes returns data without its compression, valid until the next call. What
// it takes is bounded by the limit, whatever data says.
func (f *inflater) bytes(data []byte) ([]byte, error) {
	if f.encoding == "identity" {
		return data, nil
	}
	r, err := inflate.Open(f.encoding, bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("the message is flagged as compressed, and is not %s: %w", f.encoding, err)
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
