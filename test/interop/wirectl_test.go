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
)

// wirectl is the path of the binary under test.
var wirectl string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Getenv(serveMCP) != "" {
		if err := serveGoSDK(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	dir, err := os.MkdirTemp("", "wirectl-interop")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	wirectl = filepath.Join(dir, "wirectl.exe")
	build := exec.Command("go", "build", "-C", "../..", "-o", wirectl, ".")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %v\n%s", build, err, out)
		return 1
	}
	defer endEngine()
	return m.Run()
}

// A record has the members of wirectl decode -o ndjson that the tests need.
type record struct {
	Framing, Protocol, Kind, Phase, Error string
	ID, Ref, Payload                      json.RawMessage
}

// decode returns the records of a stream without errors. It checks the detected framing and
// protocol, and that encode restores the stream.
func decode(t *testing.T, stream []byte, framing, protocol string) []record {
	t.Helper()
	ndjson, notice := command(t, stream, "decode", "-o", "ndjson")
	for _, want := range []string{framing + " framing", protocol} {
		if !strings.Contains(notice, want) {
			t.Errorf("decode does not say %q but:\n%s", want, notice)
		}
	}
	if back, _ := command(t, ndjson, "encode"); !bytes.Equal(back, stream) {
		t.Errorf("encode gives back %d bytes that are not the %d that were decoded", len(back), len(stream))
	}
	var records []record
	for line := range bytes.Lines(ndjson) {
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if r.Framing != framing || r.Error != "" {
			t.Errorf("not a frame of %s framing without a fault: %s", framing, line)
		}
		records = append(records, r)
	}
	if n := len(records); n == 0 || records[n-1].Protocol != protocol {
		t.Errorf("the last of %d frames is not %s", n, protocol)
	}
	return records
}

// command runs wirectl, which must succeed, and returns its standard output and standard
// error.
func command(t *testing.T, stdin []byte, args ...string) (stdout []byte, stderr string) {
	t.Helper()
	var out, diagnostics bytes.Buffer
	cmd := exec.CommandContext(t.Context(), wirectl, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &diagnostics
	if err := cmd.Run(); err != nil {
		t.Fatalf("wirectl %s: %v\n%s", strings.Join(args, " "), err, &diagnostics)
	}
	return out.Bytes(), diagnostics.String()
}
