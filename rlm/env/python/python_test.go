package python_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/env"
	"github.com/wirectl/wirectl/rlm/env/python"
	"github.com/wirectl/wirectl/rlm/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Main()
	goleak.VerifyTestMain(m)
}

// guard is far longer than anything takes.
const guard = 2 * time.Minute

// echo answers each prompt with its own text.
type echo func(ctx context.Context, q rlm.Query) []rlm.Answer

func (e echo) Query(ctx context.Context, q rlm.Query) []rlm.Answer { return e(ctx, q) }

func same(_ context.Context, q rlm.Query) []rlm.Answer {
	answers := make([]rlm.Answer, len(q.Prompts))
	for i, p := range q.Prompts {
		var s string
		if json.Unmarshal(p, &s) != nil {
			s = string(p)
		}
		if answers[i].Text = s; s == "bad" {
			answers[i] = rlm.Answer{Err: errors.New("no such luck")}
		}
	}
	return answers
}

var found = sync.OnceValues(func() (python.Interpreter, error) { return python.Find(context.Background()) })

func find(t testing.TB) python.Interpreter {
	t.Helper()
	p, err := found()
	switch {
	case err == nil:
		return p
	case os.Getenv("CI") != "":
		t.Fatal(err)
	}
	t.Skip(err)
	return p
}

// An interpreter is an environment under test, and what may be left of it.
type interpreter struct {
	testing.TB
	*env.Env
	calls rlm.Caller
}

// start returns an environment whose temporary folder is watched: nothing may be left in it.
func start(t testing.TB, c env.Config, o python.Options) *interpreter {
	t.Helper()
	p := find(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	if c.Grace == 0 {
		c.Grace = guard
	}
	i := &interpreter{t, python.New(p, c, o), echo(same)}
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
		if err := i.Close(); err != nil {
			t.Error("second time:", err)
		}
		if left, _ := filepath.Glob(filepath.Join(tmp, "*")); len(left) > 0 {
			t.Error("left behind:", left)
		}
	})
	return i
}

// run runs a cell.
func (i *interpreter) run(code string) rlm.Result {
	i.Helper()
	ctx, stop := context.WithTimeout(context.Background(), guard)
	defer stop()
	r, err := i.Exec(ctx, rlm.Cell{Code: code, Calls: i.calls})
	if err != nil {
		i.Fatal(err)
	}
	if ctx.Err() != nil {
		i.Fatalf("hangs: %s", code)
	}
	return r
}

// prints runs a cell that has to print want, and to succeed.
func (i *interpreter) prints(code, want string) rlm.Result {
	i.Helper()
	r := i.run(code)
	if r.Err != nil || r.Stdout != want || r.Stderr != "" {
		i.Fatalf("%s\nprinted %.200q and %.200q, error %v; want %q", code, r.Stdout, r.Stderr, r.Err, want)
	}
	return r
}

// fails runs a cell that has to fail in a way.
func (i *interpreter) fails(code, want string) rlm.Result {
	i.Helper()
	r := i.run(code)
	if r.Err == nil {
		i.Fatalf("%s\ndid not fail; it printed %.200q", code, r.Stdout)
	}
	if got := fmt.Sprintf("%d %v", r.Err.Line, r.Err); !strings.HasPrefix(got, want) {
		i.Fatalf("%s\nfailed with %s; want %s", code, got, want)
	}
	return r
}

// blocked is a caller that only the end of ctx ends.
func blocked(asked chan<- struct{}) rlm.Caller {
	return echo(func(ctx context.Context, q rlm.Query) []rlm.Answer {
		select {
		case asked <- struct{}{}:
		case <-ctx.Done():
		}
		<-ctx.Done()
		return slices.Repeat([]rlm.Answer{{Err: ctx.Err()}}, len(q.Prompts))
	})
}
