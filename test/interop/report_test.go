package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A sight is a page as seen by the browser.
type sight struct {
	Errors, Requests                            []string
	Load                                        int
	IDs, Frames, Found, Findings, Kinds, Markup int
	Ledger, Filtered                            int
	About, Range, Zoomed, What, Payload, Last   string
	Address, Theme, Help, Slow, Link            string
	Folds                                       int
	Sorted                                      bool
	Closed                                      bool
	Keys                                        [][2]any // with the milliseconds until the page was painted, slowest first

	pictures string
}

// look opens the report of a session in Chromium.
func look(t *testing.T, args ...string) sight {
	t.Helper()
	page := filepath.Join(t.TempDir(), "report.html")
	command(t, nil, append([]string{"report", "-q", "-o", page}, args...)...)
	return lookAt(t, "file://"+page)
}

// lookAt opens a page in Chromium, presses keys, clicks, zooms and searches.
func lookAt(t *testing.T, url string) sight {
	t.Helper()
	chromium, node := need(t, "chromium"), need(t, "node")
	playwright := filepath.Join(npm(t), "playwright-core", "index.js")
	s := sight{pictures: t.TempDir()}
	cmd := exec.CommandContext(t.Context(), node, "browser.mjs", playwright, chromium, url, s.pictures)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	check(t, json.Unmarshal(out, &s))
	if len(s.Errors) > 0 || len(s.Requests) > 0 || s.Markup > 0 {
		t.Errorf("errors %q, requests %q, %d elements that are not the page's own", s.Errors, s.Requests, s.Markup)
	}
	if !s.Sorted || !strings.Contains(s.Slow, " of ") || !strings.HasPrefix(s.Link, "#call-") {
		t.Errorf("sorted %v, slow calls %q, link %q", s.Sorted, s.Slow, s.Link)
	}
	if s.Theme != "light" || !s.Closed || !strings.Contains(s.Help, "dark or light") || s.Range == s.Zoomed || len(s.Keys) == 0 {
		t.Errorf("keys do not do what they should: %+v", s)
	}
	return s
}

// pageOf serves the page of a session until the test ends, and returns its address.
func pageOf(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), wirectl, append([]string{"monitor", "--web"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // it was interrupted
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	check(t, err)
	return strings.TrimSpace(strings.TrimPrefix(line, "the page is at "))
}

// lookLive opens the page served by wirectl monitor.
func lookLive(t *testing.T, args ...string) sight {
	t.Helper()
	url := pageOf(t, nil, args...)
	s := lookAt(t, url)
	if strings.Contains(s.Address, "token") || !strings.Contains(s.Address, "/session/") {
		t.Errorf("%s leads to %s", url, s.Address)
	}
	return s
}

// A running prompt is cancelled from the page, after a confirmation.
func TestPageCancels(t *testing.T) {
	need(t, "chromium")
	env := []string{"XDG_RUNTIME_DIR=" + t.TempDir()}
	send := throughRelay(t, env, 20_000)
	var saw cancelling
	browse(t, &saw, "commands.mjs", pageOf(t, env, "--control", "live"))
	_ = send.Wait() // the prompt did not expect the cancel
	saw.check(t)
}

// A recorded session, as a report and live. A click shows a frame, zooming shows a shorter
// time, and searching finds frames by their text. The page looks unchanged.
func TestPageInChromium(t *testing.T) {
	for name, open := range map[string]func(*testing.T, ...string) sight{"report": look, "live": lookLive} {
		t.Run(name, func(t *testing.T) {
			s := open(t, "fixture:mcp-cancel")
			if s.IDs != 5 || s.Frames != 18 || s.Findings != 2 || s.Filtered != 3 || s.Kinds < 5 {
				t.Errorf("%+v", s)
			}
			if s.Found == 0 || s.Found == s.Frames {
				t.Errorf("a search finds %d frames of %d", s.Found, s.Frames)
			}
			if s.Ledger != 2 || !strings.Contains(s.What, "initialize") || !strings.Contains(s.Payload, `"protocolVersion": "2025-06-18"`) { // the oldest call
				t.Errorf("a click shows %q\n%s", s.What, s.Payload)
			}
			if s.Folds != 1 {
				t.Errorf("a click on a bracket folds %d", s.Folds)
			}
			for _, theme := range []string{"light", "dark"} {
				samePicture(t, filepath.Join(s.pictures, theme+".png"), filepath.Join("testdata", "page-"+name+"-"+theme+".txt"))
			}
		})
	}
}

// Pictures are compared by the average brightness of their parts, which does not depend on
// how letters are rendered.
const (
	across, down = 32, 20
	maxPartly    = 40  // of 255, in a part
	maxWholly    = 5.0 // of 255, on average
)

// samePicture compares a picture with the stored one. UPDATE=1 replaces that.
func samePicture(t *testing.T, picture, want string) {
	t.Helper()
	f, err := os.Open(picture)
	check(t, err)
	defer f.Close()
	img, err := png.Decode(f)
	check(t, err)
	got := brightness(img)
	if os.Getenv("UPDATE") != "" {
		check(t, os.WriteFile(want, []byte(got), 0o666))
	}
	text, err := os.ReadFile(want)
	check(t, err)
	a, b := strings.Fields(got), strings.Fields(string(text))
	if len(a) != len(b) {
		t.Fatalf("%s has %d parts, want %d", picture, len(a), len(b))
	}
	sum, most := 0, 0
	for i := range a {
		var x, y int
		_, err := fmt.Sscan(a[i], &x)
		check(t, err)
		_, err = fmt.Sscan(b[i], &y)
		check(t, err)
		sum, most = sum+max(x-y, y-x), max(most, x-y, y-x)
	}
	if mean := float64(sum) / float64(len(a)); mean > maxWholly || most > maxPartly {
		t.Errorf("the page looks different from %s, by %.1f on average and %d at most:\n%s", want, mean, most, got)
	}
}

// brightness returns the average brightness of each part of a picture.
func brightness(img image.Image) string {
	var out strings.Builder
	size := img.Bounds().Size()
	for row := range down {
		for column := range across {
			sum, n := uint64(0), uint64(0)
			for y := row * size.Y / down; y < (row+1)*size.Y/down; y++ {
				for x := column * size.X / across; x < (column+1)*size.X/across; x++ {
					r, g, b, _ := img.At(x, y).RGBA()
					sum, n = sum+uint64(r+g+b)/3, n+1
				}
			}
			fmt.Fprintf(&out, "%4d", sum/n>>8)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// A hundred thousand frames with text that looks like markup, as a report and live. The
// page has the last calls, gives the number of omitted ones, and runs no injected code.
// Keys are answered although there are more than 10,000 rows.
func TestHostilePageInChromium(t *testing.T) {
	const n = 100_000
	hostile := []string{
		`<img src=x onerror=alert(1)>`, `</script><script>alert(2)</script>`, `<svg onload=alert(3)><use href=\"data:image/svg+xml,x\"/></svg>`,
		`javascript:alert(4)`, `\"><iframe srcdoc=\"<script>alert(5)</script>\">`, `{{js}}<style>*{display:none}</style>`, `\u202egnp.exe \u0007\u001b[31m`, `__proto__`,
	}
	var b bytes.Buffer
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range n {
		at, evil := begin.Add(time.Duration(i)*100*time.Microsecond).Format("2006-01-02T15:04:05.000000000Z"), hostile[i/2%len(hostile)]
		head := `{"seq":%d,"time":%q,"conn":1,"dir":%q,"framing":"line","protocol":"mcp","payload":`
		if i%2 == 0 {
			fmt.Fprintf(&b, head+`{"jsonrpc":"2.0","id":"%s%d","method":"tools/call","params":{"name":"%s","arguments":{"n":%d}}}}`+"\n", i+1, at, "c2u", evil, i/2, evil, i)
		} else {
			fmt.Fprintf(&b, head+`{"jsonrpc":"2.0","id":"%s%d","result":{"content":[{"type":"text","text":"%s cancel %d"}]}}}`+"\n", i+1, at, "u2c", evil, i/2, evil, i)
		}
	}
	file := filepath.Join(t.TempDir(), `<img src=x onerror=alert(6)>.ndjson`)
	check(t, os.WriteFile(file, b.Bytes(), 0o666))
	for name, open := range map[string]func(*testing.T, ...string) sight{"report": look, "live": lookLive} {
		t.Run(name, func(t *testing.T) {
			s := open(t, file)
			if s.IDs <= 10_000 || s.IDs > 1<<14+1<<12 || s.Frames < 2*s.IDs || s.Found != s.Frames/2 || s.Kinds < 1 || !strings.Contains(s.Last, "100,000") {
				t.Errorf("%+v", s)
			}
			if about := strings.ReplaceAll(s.About, ",", ""); !strings.Contains(about, fmt.Sprintf("%d earlier calls left out · %d earlier frames left out", n/2-s.IDs, n-s.Frames)) {
				t.Errorf("%+v", s)
			}
			t.Logf("%d rows; from a key to what it paints, in ms, the slowest first: %v", s.IDs, s.Keys)
		})
	}
}
