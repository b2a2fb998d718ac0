package pcapng_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/frame"
)

func Example() {
	var file bytes.Buffer
	w, err := pcapng.NewWriter(&file, capture.Session{Protocol: "mcp", Framing: "line", Unit: "my-server"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	line := []byte("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n")
	err = w.Write(&capture.Record{
		Kind: capture.Frame, Seq: 1, Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
		Frame: frame.Frame{Raw: line, End: len(line) - 1, Dir: frame.C2U},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	r, err := pcapng.NewReader(&file, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("recorded from", r.Session().Unit)
	var rec capture.Record
	for {
		if err := r.Next(&rec); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v %v %s\n", rec.Time.Format(time.TimeOnly), rec.Dir, rec.Payload())
	}
	// Output:
	// recorded from my-server
	// 03:04:05 c2u {"jsonrpc":"2.0","id":1,"method":"ping"}
}
