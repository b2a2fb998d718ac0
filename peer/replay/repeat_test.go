package replay_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/replay"
)

// For requests as recorded, a repeating unit gives the recorded answers in any protocol.
// Concurrent scenes are ordered only by time, so their times are kept.
func TestRepeaterSaysWhatWasRecorded(t *testing.T) {
	eachScript(t, func(t *testing.T, script *replay.Script) {
		near, far := bubblePipes()
		there := make(chan outcome, 1)
		go func() {
			r, err := replay.NewRepeater([]*replay.Script{script}, nil).Run(t.Context(), far, inTime(frame.U2C))
			there <- outcome{r, err}
		}()
		(<-start(t.Context(), script, near, inTime(frame.C2U))).check(t, "controller")
		end := <-there
		end.Extra = 0 // such as a cancel that comes too late
		end.check(t, "unit")
	})
}

// In a repeated scene, requests of the unit get their own ids. The client's answer continues
// the scene that asked.
func TestRepeatedScenesAskAnew(t *testing.T) {
	const recording = `c2u {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s"}}
u2c {"jsonrpc":"2.0","id":4,"method":"sampling/createMessage","params":{"id":4}}
u2c {"jsonrpc":"2.0","id":"r","method":"roots/list"}
c2u {"jsonrpc":"2.0","id":4,"result":{"model":"m"}}
c2u {"jsonrpc":"2.0","id":"r","result":{"roots":[]}}
u2c {"jsonrpc":"2.0","id":1,"result":{"content":[]}}`
	synctest.Test(t, func(t *testing.T) {
		near, far := bubblePipes()
		done := make(chan outcome, 1)
		go func() {
			r, err := replay.NewRepeater(parse(t, recording, "mcp", frame.Line).Scripts(frame.U2C), nil).Run(t.Context(), far, replay.Options{Side: frame.U2C})
			done <- outcome{r, err}
		}()
		lines := bufio.NewScanner(near)
		talk := func(ask string, want ...string) {
			t.Helper()
			if _, err := fmt.Fprintln(near, ask); err != nil {
				t.Fatal(err)
			}
			for _, w := range want {
				if lines.Scan(); lines.Text() != w {
					t.Errorf("after %s\n%s, want\n%s", ask, lines.Text(), w)
				}
			}
		}
		talk(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"s"}}`,
			`{"jsonrpc":"2.0","id":4,"method":"sampling/createMessage","params":{"id":4}}`, `{"jsonrpc":"2.0","id":"r","method":"roots/list"}`)
		talk(`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"s"}}`,
			`{"jsonrpc":"2.0","id":5,"method":"sampling/createMessage","params":{"id":4}}`, `{"jsonrpc":"2.0","id":"r-6","method":"roots/list"}`)
		talk(`{"jsonrpc":"2.0","id":"r-6","result":{"roots":[1]}}`)
		talk(`{"jsonrpc":"2.0","id":5,"error":{"code":1,"message":"no"}}`, `{"jsonrpc":"2.0","id":8,"result":{"content":[]}}`)
		talk(`{"jsonrpc":"2.0","id":4,"result":{"model":"m"}}`)
		talk(`{"jsonrpc":"2.0","id":"r","result":{"roots":[]}}`, `{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`)
		if err := near.CloseWrite(); err != nil {
			t.Error(err)
		}
		if rest, _ := io.ReadAll(near); len(rest) > 0 {
			t.Errorf("it says more: %s", rest)
		}
		(<-done).check(t, "unit")
	})
}

// A unit that died with its last request open dies again there, and nowhere else.
func TestUnitDiesAgain(t *testing.T) {
	const (
		ask   = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"_meta":{"progressToken":%d}}}`
		part  = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1}}`
		reply = `{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}`
	)
	works := fmt.Sprintf("c2u "+ask+"\nu2c "+reply+"\n", 1, "works", 1, 1)
	for name, c := range map[string]struct {
		recording string
		by        frame.Dir
		dies      bool
	}{
		"at once":                {works + fmt.Sprintf("c2u "+ask, 2, "kills", 2), frame.U2C, true},
		"after a part":           {works + fmt.Sprintf("c2u "+ask+"\nu2c "+part, 2, "kills", 2, 2), frame.U2C, true},
		"the client left":        {works + fmt.Sprintf("c2u "+ask, 2, "kills", 2), frame.C2U, false},
		"it had answered":        {works + fmt.Sprintf("c2u "+ask+"\nu2c "+reply, 2, "kills", 2, 2), frame.U2C, false},
		"an earlier one is open": {fmt.Sprintf("c2u "+ask+"\n", 2, "kills", 2) + works, frame.U2C, false},
		"cancelled":              {works + fmt.Sprintf("c2u "+ask+"\n"+`c2u {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`, 2, "kills", 2), frame.U2C, false},
	} {
		for _, isRepeated := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				session := parse(t, c.recording, "mcp", frame.Line)
				for _, dir := range []frame.Dir{c.by, c.by.Opposite()} {
					session.Event(&capture.Record{Kind: capture.HalfClosed, Time: time.Unix(60, 0), Frame: frame.Frame{Dir: dir}})
				}
				scripts := session.Scripts(frame.U2C)
				near, far := bubblePipes()
				var player replay.Player = scripts[0]
				if isRepeated {
					player = replay.NewRepeater(scripts, nil)
				}
				died, gone := make(chan struct{}), make(chan struct{})
				go func() {
					_, _ = player.Run(t.Context(), far, inTime(frame.U2C))
					close(died)
				}()
				go func() {
					_, _ = io.Copy(io.Discard, near)
					close(gone)
				}()
				for line := range strings.Lines(c.recording) {
					if word, text, _ := strings.Cut(line, " "); word == "c2u" {
						_, _ = io.WriteString(near, strings.TrimSpace(text)+"\n")
					}
				}
				time.Sleep(time.Hour) // of the bubble
				isDead := false
				select {
				case <-died:
					isDead = true
				default:
				}
				if isDead != c.dies {
					t.Errorf("%s (repeated: %v): it died: %v", name, isRepeated, isDead)
				}
				_ = near.CloseWrite()
				<-died
				<-gone
			})
		}
	}
}

// Each repeated task has its own id, and is cancelled only when its client asks for that.
func TestRepeatedTaskWaitsForCancel(t *testing.T) {
	const (
		stream = `{"jsonrpc":"2.0","id":%d,"method":"SendStreamingMessage","params":{"message":{"messageId":"m"}}}`
		begins = `{"jsonrpc":"2.0","id":%d,"result":{"task":{"id":%q,"contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}}`
		ends   = `{"jsonrpc":"2.0","id":%d,"result":{"statusUpdate":{"taskId":%q,"contextId":"c","status":{"state":"TASK_STATE_CANCELED"}}}}`
		cancel = `{"jsonrpc":"2.0","id":%d,"method":"CancelTask","params":{"id":%q}}`
		answer = `{"jsonrpc":"2.0","id":%d,"result":{"id":%q,"contextId":"c","status":{"state":"TASK_STATE_CANCELED"}}}`
	)
	recording := fmt.Sprintf("c2u "+stream+"\nu2c "+begins+"\nc2u "+cancel+"\nu2c "+answer+"\nu2c "+ends, 1, 1, "t", 2, "t", 2, "t", 1, "t")
	synctest.Test(t, func(t *testing.T) {
		near, far := bubblePipes()
		done := make(chan outcome, 1)
		go func() {
			r, err := replay.NewRepeater(parse(t, recording, "a2a", frame.Line).Scripts(frame.U2C), nil).Run(t.Context(), far, replay.Options{Side: frame.U2C})
			done <- outcome{r, err}
		}()
		lines := bufio.NewScanner(near)
		for _, round := range []struct {
			id    int
			tasks [2]string
		}{{7, [2]string{"t", "t-1"}}, {17, [2]string{"t-2", "t-3"}}} {
			id, tasks := round.id, round.tasks
			for _, talk := range [][]string{
				{fmt.Sprintf(stream, id), fmt.Sprintf(begins, id, tasks[0])},
				{fmt.Sprintf(stream, id+1), fmt.Sprintf(begins, id+1, tasks[1])},
				{fmt.Sprintf(cancel, id+2, tasks[1]), fmt.Sprintf(ends, id+1, tasks[1]), fmt.Sprintf(answer, id+2, tasks[1])},
				{fmt.Sprintf(cancel, id+3, tasks[0]), fmt.Sprintf(ends, id, tasks[0]), fmt.Sprintf(answer, id+3, tasks[0])},
			} {
				if _, err := fmt.Fprintln(near, talk[0]); err != nil {
					t.Fatal(err)
				}
				for _, want := range talk[1:] {
					if lines.Scan(); lines.Text() != want {
						t.Errorf("after %s\n%s, want\n%s", talk[0], lines.Text(), want)
					}
				}
			}
		}
		if err := near.CloseWrite(); err != nil {
			t.Error(err)
		}
		(<-done).check(t, "unit")
	})
}

// A client that keeps sending requests without reading the refusals is not read any further.
func TestRefusalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := bubblePipes()
		done := make(chan outcome, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			r, err := replay.NewRepeater(parse(t, conversation, "mcp", frame.Line).Scripts(frame.U2C), nil).Run(ctx, far, replay.Options{Side: frame.U2C, Match: replay.Matcher{Exact: true}})
			done <- outcome{r, err}
		}()
		asked := 0
		go func() {
			for ; ; asked++ {
				if _, err := fmt.Fprintf(near, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"c"}}`+"\n", asked); err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		if asked < 100 || asked > 200 {
			t.Errorf("%d requests were read", asked)
		}
		cancel()
		near.Close()
		o := <-done
		if o.Differences < 100 || o.Divergence() == nil || !strings.HasPrefix(o.Divergence().Text, "tools/call 0 was never recorded; the nearest is frame 1, tools/call 1, which differs in params.name") {
			t.Errorf("%d differences, the first %+v", o.Differences, o.Divergence())
		}
		if !slices.ContainsFunc(o.Divergences, func(d *replay.Divergence) bool { return d.What == replay.Unforeseen }) {
			t.Error("none is unforeseen")
		}
	})
}

// All refusals are written, even if the client has nothing more to say before it reads them.
func TestRefusalsOutliveTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := bubblePipes()
		done := make(chan outcome, 1)
		go func() {
			r, err := replay.NewRepeater(parse(t, conversation, "mcp", frame.Line).Scripts(frame.U2C), nil).Run(t.Context(), far, replay.Options{Side: frame.U2C, Match: replay.Matcher{Exact: true}})
			done <- outcome{r, err}
		}()
		request := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"c"}}` + "\n"
		if _, err := fmt.Fprint(near, strings.Repeat(request, 3)); err != nil {
			t.Fatal(err)
		}
		if err := near.CloseWrite(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		answers := bufio.NewScanner(near)
		n := 0
		for answers.Scan() {
			n++
		}
		if o := <-done; n != 3 || o.Sent != 3 || o.Differences != 3 {
			t.Errorf("%d refusals were read, %d sent, for %d differences", n, o.Sent, o.Differences)
		}
	})
}
