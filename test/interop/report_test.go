package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What a browser saw of a page.
type sight struct {
	Errors, Requests                            []string
	Load                                        int
	IDs, Frames, Found, Findings, Kinds, Markup int
	Ledger                                      int
	About, Range, Zoomed, What, Payload, Last   string
}

// look opens the page of a session in Chromium, clicks, zooms and searches.
func look(t *testing.T, args ...string) sight {
	t.Helper()
	chromium, node := need(t, "chromium"), need(t, "node")
	playwright := filepath.Join(npm(t), "playwright-core", "index.js")
	page := filepath.Join(t.TempDir(), "report.html")
	command(t, nil, append([]string{"report", "-q", "-o", page}, args...)...)
	picture := filepath.Join(t.TempDir(), "report.png")
	cmd := exec.CommandContext(t.Context(), node, "browser.mjs", playwright, chromium, page, picture)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	var s sight
	check(t, json.Unmarshal(out, &s))
	if len(s.Errors) > 0 || len(s.Requests) > 0 || s.Markup > 0 {
		t.Errorf("errors %q, requests %q, %d elements that are not the page's own", s.Errors, s.Requests, s.Markup)
	}
	return s
}

// A recorded session: a click shows a frame, zooming shows less time, searching
// finds frames by what they say.
func TestReportInChromium(t *testing.T) {
	s := look(t, "fixture:mcp-cancel")
	if s.IDs != 5 || s.Frames != 18 || s.Findings != 2 || s.Ledger != 2 {
		t.Errorf("%+v", s)
	}
	if !strings.Contains(s.What, "initialize") || !strings.Contains(s.Payload, `"protocolVersion": "2025-06-18"`) {
		t.Errorf("a click shows %q\n%s", s.What, s.Payload)
	}
	if s.Range == s.Zoomed || s.Found == 0 || s.Found == s.Frames || s.Kinds < 1 {
		t.Errorf("%+v", s)
	}
}

// A hundred thousand frames, some of which would rather be markup: the page has
// the last calls, and says of how many it lacks.
func TestReportOfLargeSessionInChromium(t *testing.T) {
	const n = 100_000
	var b bytes.Buffer
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range n {
		at := begin.Add(time.Duration(i) * 100 * time.Microsecond).Format("2006-01-02T15:04:05.000000000Z")
		head := `{"seq":%d,"time":%q,"conn":1,"dir":%q,"framing":"line","protocol":"mcp","payload":`
		if i%2 == 0 {
			fmt.Fprintf(&b, head+`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"<img src=x onerror=alert(1)>","arguments":{"n":%d}}}}`+"\n", i+1, at, "c2u", i/2, i)
		} else {
			fmt.Fprintf(&b, head+`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"</script><script>alert(2)</script> cancel %d"}]}}}`+"\n", i+1, at, "u2c", i/2, i)
		}
	}
	file := filepath.Join(t.TempDir(), "large.ndjson")
	check(t, os.WriteFile(file, b.Bytes(), 0o666))
	s := look(t, file)
	if s.IDs < 1<<13 || s.IDs > 1<<14 || s.Frames < 2*s.IDs || s.Found != s.Frames/2 || s.Kinds < 1 || !strings.Contains(s.Last, "100000") {
		t.Errorf("%+v", s)
	}
	if about := strings.ReplaceAll(s.About, ",", ""); !strings.Contains(about, fmt.Sprintf("%d earlier exchanges left out · %d earlier frames left out", n/2-s.IDs, n-s.Frames)) {
		t.Errorf("%+v", s)
	}
}
