// Jsonvalid asks encoding/json whether each payload of a file of
// length-prefixed frames is valid JSON, and does nothing else with it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/wirectl/wirectl/test/bench/peers/frames"
)

func main() {
	count := 0
	err := frames.Each(os.Args[1], func(payload []byte) error {
		count++
		if !json.Valid(payload) {
			return errors.New("a payload is not JSON")
		}
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "jsonvalid:", err)
		os.Exit(1)
	}
	fmt.Println(count)
}
