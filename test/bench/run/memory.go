//go:build unix

package main

import (
	"fmt"
	"os"
)

// memory measures the peaks, which may not depend on the length of the stream.
func (b *bench) memory(t *table) error {
	const name = "peak memory, ndjson of mcp"
	if !b.only.MatchString(name) {
		return nil
	}
	small, err := b.peak(gibi / b.scale)
	if err != nil {
		return err
	}
	t.peak(name+" on 1 GiB of stdin", small)
	if b.skip10G {
		t.skipped(name+" on 10 GiB of stdin", "left out")
		return nil
	}
	large, err := b.peak(10 * gibi / b.scale)
	if err != nil {
		return err
	}
	t.peak(name+" on 10 GiB of stdin", large)
	growth := float64(large) / float64(small)
	t.row("peak memory, 10 GiB against 1 GiB", fmt.Sprintf("%.2f", growth), "≤ 1.1", growth <= 1.1)
	return nil
}

func (t *table) peak(name string, bytes int64) {
	t.row(name, fmt.Sprintf("%.1f MiB", float64(bytes)/mebi), "≤ 24 MiB", bytes <= 24*mebi)
}

// peak returns the most memory that wirectl took, on two cores, to write size
// bytes of standard input as NDJSON.
func (b *bench) peak(size int64) (int64, error) {
	in, out, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	source := corpusCommand("mcp.len32", size)
	source.Stdout = out
	err = source.Start()
	out.Close()
	if err != nil {
		in.Close()
		return 0, err
	}
	decode := command("wirectl decode -o ndjson --protocol mcp --framing len32").pinned(twoCores, b.dir)
	decode.Stdin = in
	used, err := run(decode)
	in.Close() // a source that is still writing learns it here
	if sourceErr := source.Wait(); err == nil {
		err = sourceErr
	}
	return used.peak, err
}
