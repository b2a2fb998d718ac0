// Package frames reads length-prefixed frames the plain way, for peers that
// must not owe their speed to wirectl.
package frames

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// Each calls f with the payload of every frame of the file at path. The
// payload is valid until f returns.
func Each(path string, f func(payload []byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 1<<20)
	var head [4]byte
	var payload []byte
	for {
		if _, err := io.ReadFull(in, head[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint32(head[:]))
		if n > cap(payload) {
			payload = make([]byte, n)
		}
		if _, err := io.ReadFull(in, payload[:n]); err != nil {
			return err
		}
		if err := f(payload[:n]); err != nil {
			return err
		}
	}
}
