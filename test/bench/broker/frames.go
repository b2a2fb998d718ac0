package main

import (
	"bufio"
	"fmt"
	"os"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/test/bench/harness"
)

// session describes the capture and the tap.
var session = capture.Session{Framing: "line", Protocol: "mcp"}

// write writes calls with progress and results.
func write(name string, frames int) {
	f := harness.Must(os.Create(name))
	defer f.Close()
	b := bufio.NewWriterSize(f, 1<<20)
	w := harness.Must(pcapng.NewWriter(b, session, nil))
	for i := range frames {
		r := record(i)
		r.Time = time.Unix(1_800_000_000, int64(i)*1e5)
		harness.Check(w.Write(&r))
	}
	harness.Check(b.Flush())
}

// record returns a frame, counted from 0. The first of each four is a call, and the last its
// result.
func record(i int) capture.Record {
	dir, text := frame.U2C, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":%d}}`, i/4, i)
	switch i % 4 {
	case 0:
		dir, text = frame.C2U, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"search","_meta":{"progressToken":%d}}}`, i/4, i/4)
	case 3:
		text = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"sunny"}]}}`, i/4)
	}
	return capture.Record{
		Kind: capture.Frame, Seq: int64(i + 1),
		Frame: frame.Frame{Raw: []byte(text + "\n"), End: len(text), Conn: 1, Dir: dir},
	}
}
