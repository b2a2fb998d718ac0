package fd

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// What is kept is read unchanged, in memory and in the file, however long it is. By then the
// file has no name, so a killed process leaves no file. Without a file, only the newest is kept.
func TestTail(t *testing.T) {
	for name, tail := range map[string]*Tail{
		"memory": {Size: 1000}, "file": {Size: 1000, Spill: true}, "small": {Size: 1, Spill: true}, "no file": {Size: 1000, Spill: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			if name == "no file" {
				t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "nowhere"))
			}
			r := rand.New(rand.NewPCG(1, 2))
			var all []byte
			var starts []int64
			for n := range 300 {
				one, two := bytes.Repeat([]byte{byte(n)}, r.IntN(400)), bytes.Repeat([]byte{byte(n + 1)}, r.IntN(1+n*n/30))
				at := tail.Append(one, two)
				if at < 0 {
					if len(one)+len(two) <= tail.Size || name == "file" {
						t.Fatalf("%d bytes find no room", len(one)+len(two))
					}
					continue
				}
				if at != int64(len(all)) {
					t.Fatalf("position %d, want %d", at, len(all))
				}
				all = append(append(all, one...), two...)
				starts = append(starts, at)
				from := starts[r.IntN(len(starts))]
				n := min(r.IntN(3000), len(all)-int(from))
				got, err := tail.Read([]byte("x"), from, n)
				isKept := tail.Spill && tail.err == nil || from >= int64(len(all)-tail.Size) || n == 0
				if isKept != (err == nil) || err == nil && string(got) != "x"+string(all[from:int(from)+n]) {
					t.Fatalf("%d bytes at %d of %d: %v", n, from, len(all), err)
				}
			}
			if got, err := tail.Read(nil, int64(len(all))-1, 10); err != nil || len(got) != 1 {
				t.Errorf("at the end: %q, %v", got, err)
			}
			if (tail.Err() != nil) != (name == "no file") {
				t.Errorf("the error is %v", tail.Err())
			}
			if names, err := os.ReadDir(os.TempDir()); name != "no file" && runtime.GOOS != "windows" && (err != nil || len(names) > 0) {
				t.Errorf("the temporary folder has %v, %v", names, err)
			}
			if err := tail.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
