package frame_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/wirectl/wirectl/frame"
)

func ExampleScanner() {
	stream := strings.NewReader("\x00\x00\x00\x02hi\x00\x00\x00\x05there")
	s := frame.NewScanner(stream, frame.Len32)
	for s.Scan() {
		f := s.Frame()
		fmt.Printf("at byte %d: %q\n", f.Offset, f.Payload())
	}
	fmt.Println("error:", s.Err())
	// Output:
	// at byte 0: "hi"
	// at byte 6: "there"
	// error: <nil>
}

// A stream that ends inside a frame is told from one that ends between two.
func ExampleScanner_truncated() {
	s := frame.NewScanner(strings.NewReader("\x00\x00\x00\x09half"), frame.Len32)
	for s.Scan() {
		fmt.Printf("%q\n", s.Frame().Payload())
	}
	fmt.Println(errors.Is(s.Err(), frame.ErrTruncated))
	fmt.Println(s.Err())
	// Output:
	// true
	// frame 1 at byte 0: the stream ended inside the payload, after 4 of its 9 bytes
}

// Resync goes on behind a fault, and gives out what it skips.
func ExampleScanner_Resync() {
	s := frame.NewScanner(strings.NewReader("Content-Length: 2\r\n\r\n{}oops\nContent-Length: 4\r\n\r\nnull"), frame.Header)
	s.Resync()
	for s.Scan() {
		f := s.Frame()
		fmt.Printf("gap %v: %q\n", f.Gap, f.Raw)
	}
	// Output:
	// gap false: "Content-Length: 2\r\n\r\n{}"
	// gap true: "oops\n"
	// gap false: "Content-Length: 4\r\n\r\nnull"
}

func ExampleAppend() {
	b, err := frame.Append(nil, frame.Varint, []byte("hello"))
	fmt.Printf("%q %v\n", b, err)
	_, err = frame.Append(nil, frame.Line, []byte("two\nlines"))
	fmt.Println(err)
	// Output:
	// "\x05hello" <nil>
	// line: the payload holds a line feed, which would end the frame
}

// Which of the candidates it is, the payloads have to tell: see package
// protocol/all.
func ExampleCandidates() {
	head := []byte("Content-Length: 17\r\n\r\n{\"jsonrpc\":\"2.0\"}")
	for _, c := range frame.Candidates(head, true, frame.DefaultLimit) {
		fmt.Printf("%s: %s\n", c.Framing.Name(), c.Why)
	}
	// Output:
	// line: the first line is text
	// header: it begins with Content-Length
	// varint: it begins with the length 67
}
