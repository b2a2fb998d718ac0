// Package envtest is what the tests of environments have in common.
package envtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/env"
)

// Guard is far longer than anything takes.
const Guard = 2 * time.Minute

// Echo answers each prompt with its own text.
type Echo func(ctx context.Context, q rlm.Query) []rlm.Answer

// Query implements [rlm.Caller].
func (e Echo) Query(ctx context.Context, q rlm.Query) []rlm.Answer { return e(ctx, q) }

// Same answers with the prompts themselves. The prompt bad fails.
func Same(_ context.Context, q rlm.Query) []rlm.Answer {
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

// Blocked is a caller that only the end of ctx ends.
func Blocked(asked chan<- struct{}) rlm.Caller {
	return Echo(func(ctx context.Context, q rlm.Query) []rlm.Answer {
		select {
		case asked <- struct{}{}:
		case <-ctx.Done():
		}
		<-ctx.Done()
		return slices.Repeat([]rlm.Answer{{Err: ctx.Err()}}, len(q.Prompts))
	})
}

// An Interpreter is an environment under test.
type Interpreter struct {
	testing.TB
	*env.Env
	Calls rlm.Caller
}

// Start opens an environment whose temporary folder is watched: nothing may be left in it.
func Start(t testing.TB, c env.Config, open func(env.Config) (*env.Env, error)) *Interpreter {
	t.Helper()
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	if c.Grace == 0 {
		c.Grace = Guard
	}
	e, err := open(c)
	if err != nil {
		t.Fatal(err)
	}
	i := &Interpreter{t, e, Echo(Same)}
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

// Run runs a cell.
func (i *Interpreter) Run(code string) rlm.Result {
	i.Helper()
	ctx, stop := context.WithTimeout(context.Background(), Guard)
	defer stop()
	r, err := i.Exec(ctx, rlm.Cell{Code: code, Calls: i.Calls})
	if err != nil {
		i.Fatal(err)
	}
	if ctx.Err() != nil {
		i.Fatalf("hangs: %s", code)
	}
	return r
}

// Prints runs a cell that has to print want, and to succeed.
func (i *Interpreter) Prints(code, want string) rlm.Result {
	i.Helper()
	r := i.Run(code)
	if r.Err != nil || r.Stdout != want || r.Stderr != "" {
		i.Fatalf("%s\nprinted %.200q and %.200q, error %v; want %q", code, r.Stdout, r.Stderr, r.Err, want)
	}
	return r
}

// Fails runs a cell that has to fail in a way.
func (i *Interpreter) Fails(code, want string) rlm.Result {
	i.Helper()
	r := i.Run(code)
	if r.Err == nil {
		i.Fatalf("%s\ndid not fail; it printed %.200q", code, r.Stdout)
	}
	if got := fmt.Sprintf("%d %v", r.Err.Line, r.Err); !strings.HasPrefix(got, want) {
		i.Fatalf("%s\nfailed with %s; want %s", code, got, want)
	}
	return r
}

// Again runs a cell until it succeeds, where the machine may be too slow for its limit.
func (i *Interpreter) Again(code, want string) {
	i.Helper()
	ctx, stop := context.WithTimeout(context.Background(), Guard)
	defer stop()
	for ctx.Err() == nil {
		r, err := i.Exec(ctx, rlm.Cell{Code: code, Calls: i.Calls})
		if err != nil {
			i.Fatal(err)
		}
		if r.Err == nil {
			if r.Stdout != want {
				i.Fatalf("%s printed %q", code, r.Stdout)
			}
			return
		}
	}
	i.Fatal("no cell succeeds")
}

// Write writes a file.
func Write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
