package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/wirectl/wirectl/test/bench/harness"
)

// paint measures how long the page of a session takes from a key to what it paints, in Chromium.
func paint(b *harness.Bench) {
	const name = "the page, 10,000 rows: the slowest time from a key to its paint"
	if !b.Wants(name) {
		return
	}
	for _, program := range []string{"chromium", "npm", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			b.Skip(name, program+" is not installed")
			return
		}
	}
	b.Build("npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", b.Bin("npm"), "playwright-core@1.65.1")
	rows := 10_000 / b.Scale
	file := filepath.Join(b.Dir, "rows.ndjson")
	harness.Check(os.WriteFile(file, calls(rows), 0o600))
	web := harness.Serve(`the page is at (\S+)`, "wirectl", "monitor", "--web", file)
	defer web.Stop()
	chromium := harness.Must(exec.LookPath("chromium"))
	rounds := harness.Turns(b.Rounds, func() float64 {
		out := harness.Output(exec.Command("timeout", "120", "node", "peers/paint.mjs", b.Bin("npm/node_modules/playwright-core"), chromium, web.Address, strconv.Itoa(rows)))
		var took []float64
		harness.Check(json.Unmarshal(out, &took))
		return slices.Max(took)
	})
	b.AtMost(name, rounds[0], 100, "ms")
}

// calls returns a session with n calls, a record a line.
func calls(n int) []byte {
	var b bytes.Buffer
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range 2 * n {
		dir, payload := "c2u", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"search","arguments":{"n":%d}}}`, i/2, i)
		if i%2 == 1 {
			dir, payload = "u2c", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"found %d"}]}}`, i/2, i)
		}
		fmt.Fprintf(&b, `{"seq":%d,"time":%q,"conn":1,"dir":%q,"framing":"line","protocol":"mcp","payload":%s}`+"\n",
			i+1, at.Add(time.Duration(i)*time.Millisecond).Format(time.RFC3339Nano), dir, payload)
	}
	return b.Bytes()
}
