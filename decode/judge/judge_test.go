package judge

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/recorder"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
)

// What comes while too much waits is told of, and what came before is judged, but not
// for answers that may be among what was missed.
func TestJudgeSaysWhatItMissed(t *testing.T) {
	j := New(capture.Session{}, io.Discard, decode.Config{}, Silent)
	for id := range 3 {
		if id == 2 {
			j.most = -1
		}
		raw := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, id)
		r := capture.Record{Protocol: "mcp", Framing: "line", Frame: frame.Frame{Dir: frame.C2U, Raw: raw, End: len(raw)}}
		if err := j.Write(&r); err != nil {
			t.Fatal(err)
		}
	}
	j.End(t.Context(), func(string) {})
	const want = "; judged are the first 2 frames, the others came too fast; 2 exchanges; 0 findings"
	if got := j.Summary(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// What is said of a judge that takes long has been said when it ends.
func TestJudgeEndsWithWhatIsSaidOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &Judge{done: make(chan struct{})}
		j.backlog, j.reader = recorder.NewReader(recorder.Config{})
		time.AfterFunc(2*time.Second, func() { close(j.done) })
		said := ""
		j.End(t.Context(), func(text string) {
			time.Sleep(time.Minute)
			said = text
		})
		if want := "judging what has passed: 0 bytes to go"; said != want {
			t.Errorf("%q, want %q", said, want)
		}
	})
}
