// Protojson writes each message of a file of length-prefixed latis messages as
// a line of JSON, by generated code and protojson.
package main

import (
	"bufio"
	"fmt"
	"os"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	latisv1 "github.com/wirectl/wirectl/protocol/schema/latis/v1"
	"github.com/wirectl/wirectl/test/bench/peers/frames"
)

func main() {
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	var request latisv1.ConnectRequest
	var response latisv1.ConnectResponse
	var line []byte
	err := frames.Each(os.Args[1], func(payload []byte) error {
		m := proto.Message(&request)
		if isResponse(payload) {
			m = &response
		}
		if err := proto.Unmarshal(payload, m); err != nil {
			return err
		}
		var err error
		if line, err = (protojson.MarshalOptions{}).MarshalAppend(line[:0], m); err != nil {
			return err
		}
		_, err = out.Write(append(line, '\n'))
		return err
	})
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "protojson:", err)
		os.Exit(1)
	}
}

// isResponse looks at the field behind the id, whose number tells the two
// messages apart.
func isResponse(payload []byte) bool {
	_, _, id := protowire.ConsumeField(payload)
	if id < 0 {
		return false
	}
	number, _, _ := protowire.ConsumeTag(payload[id:])
	return number >= 20 && number != 30
}
