package client

import (
	"bufio"
	"bytes"
	"io"
)

// readEvents hands the data of each server-sent event to take.
func readEvents(r io.Reader, take func(data []byte) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxBody)
	var data []byte
	for s.Scan() {
		line := s.Bytes()
		switch value, isData := bytes.CutPrefix(line, []byte("data:")); {
		case len(line) == 0 && len(data) > 0:
			if err := take(data); err != nil {
				return err
			}
			data = data[:0]
		case isData && len(data) > 0:
			data = append(append(data, '\n'), bytes.TrimPrefix(value, []byte(" "))...)
		case isData:
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		}
	}
	return s.Err()
}
