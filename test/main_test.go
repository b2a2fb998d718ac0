package test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/wirectl/wirectl/commands"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/rlm/env/starlark"
	"github.com/wirectl/wirectl/rlm/sandbox"
	"github.com/wirectl/wirectl/run/agent"
	"github.com/wirectl/wirectl/test/kit/page"
)

var update = page.Update // rewrite the expected output of the scripts, too

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // most of what runs here waits for another process
	sandbox.Main()
	starlark.Main()
	if agent.HookOf(os.Args) != nil { // under the name of another program
		wirectl()
	}
	testscript.Main(m, executables)
}

// executables are the programs that scripts can execute.
var executables = map[string]func(){"wirectl": wirectl, "tapped": tapped, "tapsend": tapsend, "mcpserver": mcpserver, "world": world, "caller": caller}

// wirectl is the program.
func wirectl() { os.Exit(commands.Main()) }

// TestScripts runs the transcripts, which are the specification of the command line.
func TestScripts(t *testing.T) {
	p := params("transcripts")
	if testing.Short() {
		// With the race detector, only those are worth their time in which several things happen at once.
		p.Dir = ""
		for _, pattern := range []string{"*_live", "capture_*", "hub", "http_*", "monitor", "relay*", "replay*", "rlm", "se[nrs]*", "ta*", "theory", "unit*", "w*"} {
			files, err := filepath.Glob("transcripts/" + pattern + ".txtar")
			if err != nil {
				t.Fatal(err)
			}
			p.Files = append(p.Files, files...)
		}
	}
	testscript.Run(t, p)
}

// columns makes the width of lines the same everywhere.
const columns = "COLUMNS=100"

// params are the settings of every script, and the commands in addition to testscript's.
func params(dir string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"unhex":       unhex,
			"fixture":     fixture,
			"identity":    identity,
			"append":      appendFile,
			"await":       await,
			"certificate": certificate,
		},
		Setup: func(env *testscript.Env) error {
			// By default, the race detector delays the exit of each process by a second.
			files, err := filepath.Abs("testdata/files")
			if err != nil {
				return err
			}
			env.Vars = append(env.Vars, columns, "GORACE=atexit_sleep_ms=0", "FILES="+files)
			return checkout(env.WorkDir)
		},
	}
}

// unhex FILE… writes the bytes that annotated hex describes, from FILE.hex to
// FILE. The syntax is that of the vectors in fixtures.
func unhex(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: unhex FILE…")
	}
	for _, name := range args {
		v, err := fixtures.ParseVector([]byte("expect: garbage\n\n" + ts.ReadFile(name+".hex")))
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(name), v.Bytes, 0o666))
	}
}

// fixture NAME FILE writes a fixture to a file.
func fixture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: fixture NAME FILE")
	}
	b, err := fixtures.Read(args[0])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b, 0o666))
}

// identity SOURCE [FLAG…] decodes to NDJSON, encodes the result, and compares it with the
// source. Faulty frames are allowed, and must come back unchanged, too.
func identity(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: identity SOURCE [FLAG…]")
	}
	var want []byte
	if name, isFixture := strings.CutPrefix(args[0], "fixture:"); isFixture {
		b, err := fixtures.Read(name)
		ts.Check(err)
		want = b
	} else {
		want = []byte(ts.ReadFile(args[0]))
	}
	// The status is 3 for faulty frames.
	_ = ts.Exec("wirectl", append([]string{"decode", "-q", "-o", "ndjson"}, args...)...)
	ndjson := ts.MkAbs("identity.ndjson")
	ts.Check(os.WriteFile(ndjson, []byte(ts.ReadFile("stdout")), 0o666))
	ts.Check(ts.Exec("wirectl", "encode", ndjson))
	if got := []byte(ts.ReadFile("stdout")); !bytes.Equal(got, want) {
		ts.Fatalf("%s came back as %d bytes rather than %d:\n%s", args[0], len(got), len(want), ts.ReadFile(ndjson))
	}
}

// append FILE FROM appends one file to another.
func appendFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: append FILE FROM")
	}
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_APPEND|os.O_WRONLY, 0)
	ts.Check(err)
	_, err = f.WriteString(ts.ReadFile(args[1]))
	ts.Check(errors.Join(err, f.Close()))
}

// await FILE PATTERN waits until a file written by a background command matches the
// pattern.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await FILE PATTERN")
	}
	want := regexp.MustCompile(args[1])
	deadline := time.After(30 * time.Second)
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		b, _ := os.ReadFile(ts.MkAbs(args[0]))
		if want.Match(b) {
			tick.Stop()
			return
		}
		select {
		case <-deadline:
			ts.Fatalf("%s has no match for %s:\n%s", args[0], args[1], b)
		case <-tick.C:
		}
	}
}
