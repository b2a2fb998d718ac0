package web_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/web"
)

// page returns the page of what a controller said, and the data in it.
func page(t *testing.T, title, stream string) (html string, data map[string]any) {
	t.Helper()
	s := store.New(web.Kept)
	defer s.Close()
	in := decode.Input{Stream: strings.NewReader(stream)}
	if err := s.Take(t.Context(), in, decode.Config{Workers: 1, Resync: true}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := web.Write(&out, s, title); err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?s)<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>`).FindSubmatch(out.Bytes())
	if found == nil {
		t.Fatal("no data in the page")
	}
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(found[1])))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(&data); err != nil {
		t.Fatal(err)
	}
	return out.String(), data
}

// What the wire says is data and never markup, whatever it looks like.
func TestNothingFromTheWireIsMarkup(t *testing.T) {
	const evil = `</script><img src=x onerror=alert(1)><!--`
	html, data := page(t, evil, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"+`{"jsonrpc":"2.0","id":"`+evil+`","method":"`+evil+`","params":{"a":"{{js}}{{css}}`+evil+"\xff\"}}\n")
	if strings.Contains(html, "<img") || strings.Contains(html, "{{") {
		t.Errorf("text of the wire is markup:\n%s", html[:2000])
	}
	if strings.Count(html, "<script") != 2 || strings.Count(html, "</script>") != 2 {
		t.Error("there are other scripts than the page's own")
	}
	frames := data["frames"].(map[string]any)
	if id := frames["id"].([]any)[1]; id != `"`+evil+`"` {
		t.Errorf("id %q", id)
	}
	if p := frames["payload"].([]any)[1].(string); !strings.Contains(p, evil) && !strings.HasPrefix(p, "hex:") {
		t.Errorf("payload %q", p)
	}
}

// The page asks nobody for anything.
func TestNothingIsFetched(t *testing.T) {
	html, _ := page(t, "session", `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n")
	if found := regexp.MustCompile(`(?i)https?://|src=|href=|@import|url\(|fetch\(|XMLHttpRequest`).FindString(html); found != "" {
		t.Errorf("the page has %q", found)
	}
	if !strings.Contains(html, "default-src 'none'; script-src 'sha256-") {
		t.Error("the page has no policy")
	}
}

// A session without frames is a page too.
func TestEmpty(t *testing.T) {
	_, data := page(t, "nothing", "")
	for _, key := range []string{"exchanges", "findings", "stats", "kinds"} {
		if list, ok := data[key].([]any); !ok || len(list) != 0 {
			t.Errorf("%s is %v", key, data[key])
		}
	}
}

// Of a long session the page has the end, and says how much is left out.
func TestLongSession(t *testing.T) {
	const calls, large = 40_000, 2000
	var stream strings.Builder
	for n := range calls {
		fmt.Fprintf(&stream, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s"}}`+"\n", n, strings.Repeat("x", 20_000*min(1, n/(calls-large))))
	}
	_, data := page(t, "long", stream.String())
	frames := data["frames"].(map[string]any)
	payloads := frames["payload"].([]any)
	kept, size := len(data["exchanges"].([]any)), 0
	for _, p := range payloads {
		size += len(p.(string))
	}
	if gone := int(data["gone"].(float64)); gone == 0 || kept+gone != calls || kept > web.Kept.Exchanges {
		t.Errorf("%d exchanges are shown, %d left out, of %d", kept, gone, calls)
	}
	if dropped := int(data["dropped"].(float64)); dropped == 0 || len(payloads)+dropped != calls || len(payloads) > web.Kept.Frames {
		t.Errorf("%d frames are shown, %d left out, of %d", len(payloads), dropped, calls)
	}
	if untold := data["untold"]; untold == nil || size > 20<<20 {
		t.Errorf("%d bytes of payloads are shown, and %v left out", size, untold)
	}
}
