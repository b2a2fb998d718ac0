package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// errLongEvent is the error of an event that is longer than any other body may be.
var errLongEvent = faultf("an event is over the limit of %d bytes", maxBody)

// readEvents hands the name and the data of each server-sent event to take.
func readEvents(r io.Reader, take func(name string, data []byte) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxBody)
	var name string
	var data []byte
	for s.Scan() {
		field, value, _ := bytes.Cut(s.Bytes(), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			name = string(value)
		case "data":
			if len(data)+len(value) > maxBody {
				return errLongEvent
			}
			data = append(append(data, value...), '\n')
		case "":
			if len(s.Bytes()) > 0 { // a comment
				continue
			}
			if len(data) > 1 {
				if err := take(name, data[:len(data)-1]); err != nil {
					return err
				}
			}
			name, data = "", data[:0]
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return errLongEvent
	}
	return s.Err()
}
