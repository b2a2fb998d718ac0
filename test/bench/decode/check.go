package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/wirectl/wirectl/test/bench/harness"
)

// check looks at what is going to be timed: on one core and two the same records,
// whose payloads are those of a peer, in order. It adds no row.
func check(b *harness.Bench) error {
	if err := b.Build("go", "build", "-o", b.Bin("protojson"), "./peers/protojson"); err != nil {
		return err
	}
	return errors.Join(
		same(b, ndjson, "cat mcp.line", bytes.Equal),
		same(b, latis, "protojson latis.len32", sameValue),
	)
}

func same(b *harness.Bench, ours, peer string, equal func(a, b []byte) bool) error {
	var outputs [3][]byte
	for i, s := range []side{{oneCore, slow, ours}, {twoCores, slow, ours}, {oneCore, slow, peer}} {
		cmd, err := s.on(b, s.span.small)
		if err != nil {
			return err
		}
		if outputs[i], err = harness.Output(cmd); err != nil {
			return err
		}
	}
	if !bytes.Equal(outputs[0], outputs[1]) {
		return fmt.Errorf("%s: one core and two do not write the same", ours)
	}
	records, lines := bytes.Split(outputs[0], []byte("\n")), bytes.Split(outputs[2], []byte("\n"))
	if len(records) != len(lines) {
		return fmt.Errorf("%s: %d records, not %d", ours, len(records), len(lines))
	}
	for i, line := range lines[:len(lines)-1] { // the last ends with a newline, too
		var record struct{ Payload json.RawMessage }
		if err := json.Unmarshal(records[i], &record); err != nil {
			return err
		}
		if !equal(record.Payload, line) {
			return fmt.Errorf("%s: the payload of record %d differs from that of %s", ours, i+1, peer)
		}
	}
	return nil
}

// sameValue reports whether a and b are the same JSON value, whatever the order of
// keys and the spelling of strings.
func sameValue(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
