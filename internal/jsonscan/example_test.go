package jsonscan_test

import (
	"fmt"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

func ExampleScanner() {
	text := []byte(`{"jsonrpc": "2.0", "id": 7, "params": {"name": "echo", "name": "\u00e9"}}`)

	var id, method []byte
	var s jsonscan.Scanner
	s.Init(text)
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "id":
			id = s.Value()
		case "method":
			method = s.Value()
		}
	}
	fmt.Println("error:", s.End())
	fmt.Printf("id: %s, method: %q\n", id, method)
	if key, offset, ok := s.Duplicate(); ok {
		fmt.Printf("%q again at byte %d\n", key, offset)
	}
	// Output:
	// error: <nil>
	// id: 7, method: ""
	// "name" again at byte 55
}

func ExampleValid() {
	fmt.Println(jsonscan.Valid([]byte(`{"id": 1,}`)))
	fmt.Println(jsonscan.Valid([]byte(`{"id": 1`)))
	// Output:
	// invalid JSON at byte 9: invalid character '}' looking for a key
	// invalid JSON at byte 8: unexpected end looking for ',' or '}' after a member
}
