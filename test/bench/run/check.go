//go:build unix

package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// A check says that what is timed is also right.
type check struct {
	name  string
	holds func(*bench) error
}

var checks = []check{
	{"count of mcp finds every frame", sameCount},
	{"ndjson of mcp is the same bytes on one core and two", sameOnTwoCores("mcp")},
	{"ndjson of rlm is the same bytes on one core and two", sameOnTwoCores("rlm")},
	{"ndjson of latis is the same bytes on one core and two", sameOnTwoCores("latis")},
	{"ndjson of mcp carries the payloads, byte for byte, in order", samePayloads("mcp", "cat mcp.line", bytes.Equal)},
	{"ndjson of rlm carries the payloads, byte for byte, in order", samePayloads("rlm", "cat rlm.line", bytes.Equal)},
	{"ndjson of latis carries the JSON values of protojson, in order", samePayloads("latis", "protojson latis.len32", sameValue)},
}

func (b *bench) checks(t *table) error {
	for _, c := range checks {
		if !b.only.MatchString(c.name) {
			continue
		}
		if err := c.holds(b); err != nil {
			t.row(c.name, err.Error(), "yes", false)
			continue
		}
		t.row(c.name, "yes", "yes", true)
	}
	return nil
}

func ndjson(protocol string) command {
	return command("wirectl decode -o ndjson --framing len32 --protocol " + protocol + " " + protocol + ".len32")
}

// sameOnTwoCores compares whole outputs, which must not depend on which core
// was done first.
func sameOnTwoCores(protocol string) func(*bench) error {
	return func(b *bench) error {
		dir, err := b.corpusDir(full.small/b.scale, protocol+".len32")
		if err != nil {
			return err
		}
		var sums [2][]byte
		for i, cpus := range []string{oneCore, twoCores} {
			hash := sha256.New()
			cmd := ndjson(protocol).pinned(cpus, dir)
			cmd.Stdout = hash
			if _, err := run(cmd); err != nil {
				return err
			}
			sums[i] = hash.Sum(nil)
		}
		if !bytes.Equal(sums[0], sums[1]) {
			return errors.New("they differ")
		}
		return nil
	}
}

// samePayloads compares the payload of each record with a line that peer
// prints for the same frame.
func samePayloads(protocol string, peer command, same func(a, b []byte) bool) func(*bench) error {
	return func(b *bench) error {
		names := append(peer.corpora(), protocol+".len32")
		dir, err := b.corpusDir(slow.small/b.scale, names...)
		if err != nil {
			return err
		}
		return piped(ndjson(protocol).pinned(twoCores, dir), func(records io.Reader) error {
			return piped(peer.pinned(twoCores, dir), func(lines io.Reader) error {
				return eachPayload(newLines(records), newLines(lines), same)
			})
		})
	}
}

// sameCount compares the number of frames with what a peer counts.
func sameCount(b *bench) error {
	dir, err := b.corpusDir(slow.small/b.scale, "mcp.len32")
	if err != nil {
		return err
	}
	count := command("wirectl decode --count -o ndjson --protocol mcp --framing len32 mcp.len32")
	var ours struct{ Frames int }
	var peer int
	err = errors.Join(
		piped(count.pinned(twoCores, dir), func(out io.Reader) error { return json.NewDecoder(out).Decode(&ours) }),
		piped(command("jsonvalid mcp.len32").pinned(twoCores, dir), func(out io.Reader) error { return json.NewDecoder(out).Decode(&peer) }),
	)
	if err == nil && ours.Frames != peer {
		err = fmt.Errorf("%d frames, not %d", ours.Frames, peer)
	}
	return err
}

func eachPayload(records, lines *bufio.Scanner, same func(a, b []byte) bool) error {
	for n := 1; ; n++ {
		hasRecord, hasLine := records.Scan(), lines.Scan()
		if !hasRecord && !hasLine {
			return errors.Join(records.Err(), lines.Err())
		}
		var record struct{ Payload json.RawMessage }
		if err := json.Unmarshal(records.Bytes(), &record); err != nil {
			return fmt.Errorf("record %d: %w", n, err)
		}
		if !same(record.Payload, lines.Bytes()) {
			return fmt.Errorf("the payload of record %d differs", n)
		}
	}
}

func newLines(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(nil, mebi)
	return s
}

// sameValue reports whether a and b are the same JSON value, whatever the
// order of keys and the spelling of strings.
func sameValue(a, b []byte) bool {
	var values [2]any
	for i, text := range [][]byte{a, b} {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if d.Decode(&values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}
