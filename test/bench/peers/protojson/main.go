// Protojson writes each message of a file of length-prefixed latis messages as
// a line of JSON, by generated code and protojson.
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"os"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	latisv1 "github.com/wirectl/wirectl/protocol/schema/latis/v1"
)

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	if err := errors.Join(transcode(out, bufio.NewReaderSize(file, 1<<20)), out.Flush()); err != nil {
		log.Fatal(err)
	}
}

func transcode(out io.Writer, in io.Reader) error {
	var request latisv1.ConnectRequest
	var response latisv1.ConnectResponse
	var head [4]byte
	var payload, line []byte
	for {
		if _, err := io.ReadFull(in, head[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint32(head[:]))
		if n > cap(payload) {
			payload = make([]byte, n)
		}
		payload = payload[:n]
		if _, err := io.ReadFull(in, payload); err != nil {
			return err
		}
		m := proto.Message(&request)
		if isResponse(payload) {
			m = &response
		}
		err := proto.Unmarshal(payload, m)
		if err != nil {
			return err
		}
		if line, err = (protojson.MarshalOptions{}).MarshalAppend(line[:0], m); err != nil {
			return err
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
}

// isResponse checks the number of the field after the id, which distinguishes the two
// messages.
func isResponse(payload []byte) bool {
	_, _, id := protowire.ConsumeField(payload)
	number, _, _ := protowire.ConsumeTag(payload[max(id, 0):])
	return number >= 20 && number != 30
}
