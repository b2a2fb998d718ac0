package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/wirectl/wirectl/test/bench/harness"
)

// check checks the outputs before they are timed: one core and two must write the same records,
// with the payloads of a peer, in order. It adds no row.
func check(b *harness.Bench) {
	b.Build("go", "build", "-o", b.Bin("protojson"), "./peers/protojson")
	same(b, ndjson, "cat mcp.line", bytes.Equal)
	same(b, latis, "protojson latis.len32", sameValue)
}

func same(b *harness.Bench, ours, peer string, equal func(a, b []byte) bool) {
	var outputs [3][]byte
	for i, s := range []side{{oneCore, slow, ours}, {twoCores, slow, ours}, {oneCore, slow, peer}} {
		outputs[i] = harness.Output(s.on(b, s.span.small))
	}
	if !bytes.Equal(outputs[0], outputs[1]) {
		harness.Check(fmt.Errorf("%s: one core and two do not write the same", ours))
	}
	records, lines := bytes.Split(outputs[0], []byte("\n")), bytes.Split(outputs[2], []byte("\n"))
	if len(records) != len(lines) {
		harness.Check(fmt.Errorf("%s: %d records, not %d", ours, len(records), len(lines)))
	}
	for i, line := range lines[:len(lines)-1] { // the last ends with a newline, too
		var record struct{ Payload json.RawMessage }
		harness.Check(json.Unmarshal(records[i], &record))
		if !equal(record.Payload, line) {
			harness.Check(fmt.Errorf("%s: the payload of record %d differs from that of %s", ours, i+1, peer))
		}
	}
}

// sameValue reports whether a and b are the same JSON value, whatever the order of
// keys and the spelling of strings.
func sameValue(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
