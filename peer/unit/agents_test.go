package unit_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/unit"
	"github.com/wirectl/wirectl/protocol/latis"
)

// answer returns an agent's answer, with its parts in brackets.
func answer(ctx context.Context, a unit.Agent, content string) (string, error) {
	var b strings.Builder
	_, err := a.Answer(ctx, &unit.Prompt{ID: "1", Content: content}, func(text string) error {
		b.WriteString("[" + text + "]")
		return nil
	})
	return b.String(), err
}

func needShell(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no sh")
	}
}

func TestExec(t *testing.T) {
	needShell(t)
	for _, tt := range []struct {
		name, script, want, err string
	}{
		{"the prompt is the input", "cat", "[hi]", ""},
		{"the input need not be read", "echo done", "[done\n]", ""},
		{"a character is not cut in two", `printf 'a\303'; sleep 0.05; printf '\251b'`, "[a][éb]", ""},
		{"a failure", "echo some; exit 3", "[some\n]", "EXEC_FAILED: the command ended with status 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := answer(t.Context(), unit.Exec{Argv: []string{"sh", "-c", tt.script}}, "hi")
			if got != tt.want || err == nil && tt.err != "" || err != nil && err.Error() != tt.err {
				t.Errorf("got %q, %v, want %q, %q", got, err, tt.want, tt.err)
			}
		})
	}
}

// Processes that a command leaves behind end with its answer, even if they hold its standard
// error open.
func TestExecLeftovers(t *testing.T) {
	needShell(t)
	begun := time.Now()
	got, err := answer(t.Context(), unit.Exec{Argv: []string{"sh", "-c", "sleep 20 >/dev/null & cat"}}, "hi")
	if took := time.Since(begun); got != "[hi]" || err != nil || took > 10*time.Second {
		t.Errorf("got %q, %v after %v", got, err, took)
	}
}

// A cancel ends the command, even if it is waiting.
func TestExecCancel(t *testing.T) {
	needShell(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	_, err := unit.Exec{Argv: []string{"sh", "-c", "sleep 60 & echo started; wait"}}.
		Answer(ctx, &unit.Prompt{Content: "x"}, func(string) error { cancel(why); return nil })
	if err != why {
		t.Errorf("the error is %v", err)
	}
}

// A script answers and ends like the recorded unit.
func TestScript(t *testing.T) {
	r, err := decode.OpenRecording(fixtures.Session("latis-session"), decode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := unit.ReadScript(r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := answer(t.Context(), s, "summarize README.md")
	if want := "[The README says][ that one command][ runs the main job.]"; got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if got, err := answer(ctx, s, "run all tests"); !strings.HasPrefix(got, "[Running") || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an answer that was cancelled is %q, %v", got, err)
	}
}

// taken are the frames of a session.
type taken []capture.Record

func (*taken) Session() *capture.Session { return &capture.Session{} }

func (t *taken) Next(r *capture.Record) error {
	if len(*t) == 0 {
		return io.EOF
	}
	*r, *t = (*t)[0], (*t)[1:]
	return nil
}

// add adds a message of a connection.
func (t *taken) add(conn int, dir frame.Dir, json string) {
	payload, err := latis.Protocol.AppendPayload(nil, []byte(json))
	if err != nil {
		panic(err) // the JSON is a constant
	}
	*t = append(*t, capture.Record{Frame: frame.Frame{Conn: conn, Dir: dir, Raw: payload, End: len(payload)}})
}

// Each connection has its own ids, and an answer may be an error.
func TestScriptOfConnections(t *testing.T) {
	var r taken
	for conn, prompt := range []string{"read", "write"} {
		r.add(conn, frame.C2U, `{"id":"1","promptSend":{"content":"`+prompt+`"}}`)
	}
	r.add(0, frame.U2C, `{"id":"1","responseChunk":{"content":"was read"}}`)
	r.add(1, frame.U2C, `{"id":"1","error":{"code":"READ_ONLY","message":"no"}}`)
	r.add(0, frame.U2C, `{"responseComplete":{"requestId":"1"}}`) // which also refers to the prompt
	s, err := unit.ReadScript(&r)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := answer(t.Context(), s, "read"); got != "[was read]" || err != nil {
		t.Errorf("the answer of the first connection is %q, %v", got, err)
	}
	var e *unit.Error
	if got, err := answer(t.Context(), s, "write"); got != "" || !errors.As(err, &e) || *e != (unit.Error{Code: "READ_ONLY", Message: "no"}) {
		t.Errorf("the answer of the second connection is %q, %v", got, err)
	}
}
