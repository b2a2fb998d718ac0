package live

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
)

// A tap that cannot be looked into is told of, and hides no other.
func TestListSkipsWhatCannotBeRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("taps are Unix sockets")
	}
	dir, err := os.MkdirTemp("", "tap") // a short name, because sockets have no long ones
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s, err := tap.Listen(dir, tap.Info{Name: "good", Protocol: "mcp"}, tap.NewHub(capture.Session{}, tap.Options{}), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "odd.sock"))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("no hello\n"))
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-served
	})
	odd, err := json.Marshal(tap.Info{Name: "odd", Pid: os.Getpid(), Started: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "odd.json"), odd, 0o600); err != nil {
		t.Fatal(err)
	}
	var skipped []string
	taps, err := List(t.Context(), dir, func(err error) { skipped = append(skipped, err.Error()) })
	if err != nil || len(taps) != 1 || !strings.HasPrefix(taps[0].Name, "good") {
		t.Errorf("%v, %v", taps, err)
	}
	if len(skipped) != 1 || !strings.HasPrefix(skipped[0], "tap:odd: ") {
		t.Errorf("told of %q", skipped)
	}
}
