package rlm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/wirectl/wirectl/rlm"
)

// files creates a folder with files.
func files(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// decode reads the file of a context as an environment does.
func decode(t *testing.T, l *rlm.Loaded) any {
	t.Helper()
	data, err := os.ReadFile(l.Path)
	if err != nil {
		t.Fatal(err)
	}
	if l.Type == "text" {
		return string(data)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return v
}

// Each kind of input has its value, and its length in Python's characters.
func TestLoad(t *testing.T) {
	dir := files(t, map[string]string{
		"a.txt": "naïve 😀\n", "empty": "", "o.JSON": ` {"k": "aé", "n": [1, 2], "m": {"role": "user", "content": "c"}}`,
		"l.json": `["ab", {"role": "user", "content": "x\u00e9\ud83d\ude00\n"}, {"content": [1]}, 12, true]`,
		"s.json": `"text"`, "n.json": "17\n", "d.jsonl": "{\"content\": \"abc\"}\n\n [1, 2]\r\n\"x\"",
		"src/b.go": "package b", "src/a/x.md": "# x\n", "src/a.md": "a", "src/.git/config": "no", "src/.env": "no",
		"src/pic.png": "PNG\x00", "src/latin.txt": "na\xefve",
	})
	if err := os.Symlink("b.go", filepath.Join(dir, "src", "link")); err != nil && runtime.GOOS != "windows" {
		t.Fatal(err)
	}
	at := func(name string) string {
		if name == "-" {
			return name
		}
		return filepath.Join(dir, filepath.FromSlash(name))
	}
	for _, tt := range []struct {
		names string
		want  string // the value in JSON, with DIR for the folder
		shape rlm.Shape
	}{
		{"a.txt", `"naïve 😀\n"`, rlm.Shape{"str", 8, []int64{8}, 1}},
		{"empty", `""`, rlm.Shape{"str", 0, []int64{0}, 1}},
		{"-", `"from stdin"`, rlm.Shape{"str", 10, []int64{10}, 1}},
		{"o.JSON", `{"k":"aé","n":[1,2],"m":{"role":"user","content":"c"}}`, rlm.Shape{"dict", 36, []int64{2, 5, 29}, 3}},
		{"l.json", `["ab",{"role":"user","content":"xé😀\n"},{"content":[1]},12,true]`, rlm.Shape{"list", 27, []int64{2, 4, 15, 2, 4}, 5}},
		{"s.json", `"text"`, rlm.Shape{"str", 4, []int64{4}, 1}},
		{"n.json", `17`, rlm.Shape{"scalar", 2, []int64{2}, 1}},
		{"src", `{"a.md":"a","a/x.md":"# x\n","b.go":"package b"}`, rlm.Shape{"dict", 14, []int64{1, 4, 9}, 3}},
		{"a.txt -", `{"DIR/a.txt":"naïve 😀\n","-":"from stdin"}`, rlm.Shape{"dict", 18, []int64{8, 10}, 2}},
		{"src l.json d.jsonl", `{"DIR/src":{"a.md":"a","a/x.md":"# x\n","b.go":"package b"},"DIR/l.json":["ab",{"role":"user","content":"xé😀\n"},{"content":[1]},12,true],"DIR/d.jsonl":[{"content":"abc"},[1,2],"x"]}`, rlm.Shape{"dict", 50, []int64{14, 27, 9}, 3}},
	} {
		var names []string
		for name := range strings.FieldsSeq(tt.names) {
			names = append(names, at(name))
		}
		l, err := rlm.Load(t.Context(), t.TempDir(), names, strings.NewReader("from stdin"))
		if err != nil {
			t.Errorf("%s: %v", tt.names, err)
			continue
		}
		var want any
		if err := json.Unmarshal([]byte(strings.ReplaceAll(tt.want, "DIR", filepath.ToSlash(dir))), &want); err != nil {
			t.Fatal(err)
		}
		if got := decode(t, l); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %v\nwant %v", tt.names, got, want)
		}
		if !reflect.DeepEqual(l.Shape, tt.shape) {
			t.Errorf("%s: %+v, want %+v", tt.names, l.Shape, tt.shape)
		}
		if want := "2 hidden, 1 binary, 1 not UTF-8, 1 not regular files"; strings.HasPrefix(tt.names, "src") && runtime.GOOS != "windows" && l.Skipped.String() != want {
			t.Errorf("%s: skipped %s, want %s", tt.names, l.Skipped, want)
		}
		if plain := tt.names == "a.txt" || tt.names == "l.json"; plain && l.Path != at(tt.names) {
			t.Errorf("%s was copied to %s", tt.names, l.Path)
		}
	}
}

// Files of JSON lines are used in place.
func TestLines(t *testing.T) {
	dir := files(t, map[string]string{"d.jsonl": "{\"content\": \"abc\"}\n\n[1, 2]\r\n42"}) // whose last line does not end
	l, err := rlm.Load(t.Context(), t.TempDir(), []string{filepath.Join(dir, "d.jsonl")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := (rlm.Shape{"list", 10, []int64{3, 5, 2}, 3}); !reflect.DeepEqual(l.Shape, want) || l.Type != "jsonl" {
		t.Errorf("%s %+v, want %+v", l.Type, l.Shape, want)
	}
}

// Input that cannot be a context is rejected with the file and the position.
func TestFaulty(t *testing.T) {
	dir := files(t, map[string]string{
		"latin.txt": "abc\xe9\n", "open.json": `{"a": [1, 2`, "two.json": `{} {}`, "key.json": `{a: 1}`, "word.json": `[nul]`,
		"string.json": `["abc`, "escape.json": `"a\q"`, "control.json": "\"a\tb\"", "bom.json": "\ufeff{}", "deep.json": strings.Repeat("[", 5000), "long.json": strings.Repeat("1", 5000),
		"comma.json": `[1,]`, "empty.json": " \n", "bad.jsonl": "{}\n{]\n", "cut.jsonl": "{}\r\n\r\n{\"a\": 1\r\n{}\n",
		"pretty.jsonl": "{}\n{\n\"a\": 1}\n", "pair.jsonl": "1\n2 3\n", "end.jsonl": "1\n\n[2", "text.jsonl": "1\n\"a\nb\"\n", "bytes.json": "\"a\xff\"", "colon.json": `{"a" 1}`,
	})
	for name, want := range map[string]string{
		"latin.txt": "byte 3: the text is not UTF-8", "open.json": "byte 11: invalid JSON: it ends too early", "two.json": `byte 3: invalid JSON: expected the end, found '{'`,
		"key.json": "byte 1: invalid JSON: expected a key", "word.json": `byte 4: invalid JSON: found "nul"`, "string.json": "byte 5: invalid JSON: it ends inside a string",
		"escape.json": "byte 2: invalid JSON: found the escape", "control.json": "byte 1: invalid JSON: a string is not UTF-8, or has control characters", "bom.json": "invalid JSON: found",
		"deep.json": "nested more than 900 deep", "long.json": "a number is longer than 4096", "comma.json": "byte 3: invalid JSON: found", "empty.json": "it ends too early",
		"bad.jsonl": "line 2: byte 4: invalid JSON: expected a key", "cut.jsonl": "line 3: byte 15: invalid JSON: expected a comma or '}', found '{'",
		"pretty.jsonl": "line 2: byte 12: invalid JSON: the value goes on after the end of the line", "pair.jsonl": "line 2: byte 4: invalid JSON: a second value on the line",
		"end.jsonl": "line 3: byte 5: invalid JSON: it ends too early", "text.jsonl": "line 2: byte 3: invalid JSON: a string is not UTF-8, or has control characters", "bytes.json": "byte 1: invalid JSON: a string is not UTF-8", "colon.json": "byte 5: invalid JSON: expected a colon",
		"none.txt": "no such file",
	} {
		path := filepath.Join(dir, name)
		for _, names := range [][]string{{path}, {path, "-"}} {
			_, err := rlm.Load(t.Context(), t.TempDir(), names, strings.NewReader(""))
			if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), want) && runtime.GOOS != "windows" {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
	}
	var twice *rlm.NameError
	if _, err := rlm.Load(t.Context(), t.TempDir(), []string{"a", "a"}, nil); !errors.As(err, &twice) {
		t.Errorf("a name that is there twice: %v", err)
	}
}

// A link is followed, and a file of /proc, which workers do not see, is copied.
func TestLinks(t *testing.T) {
	dir := files(t, map[string]string{"a.txt": "text"})
	real, err := filepath.EvalSymlinks(filepath.Join(dir, "a.txt"))
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("a.txt", link); err != nil {
		t.Skip(err)
	}
	l, err := rlm.Load(t.Context(), t.TempDir(), []string{link}, nil)
	if err != nil || l.Path != real {
		t.Errorf("%v, %v, want %s", l, err, real)
	}
	if runtime.GOOS != "linux" {
		return
	}
	f, err := os.Open(real)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	open := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	if l, err := rlm.Load(t.Context(), t.TempDir(), []string{open}, nil); err != nil || l.Path != real {
		t.Errorf("%v, %v, want %s", l, err, real)
	}
	if err := os.Remove(real); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{open, "/proc/self/comm"} {
		l, err := rlm.Load(t.Context(), t.TempDir(), []string{name}, nil)
		if err != nil || strings.HasPrefix(l.Path, "/proc") || decode(t, l) == "" {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
}

// An endless reader never ends, and calls read each time, which may block.
type endless struct{ read func() }

func (e endless) Read(b []byte) (int, error) {
	e.read()
	return copy(b, "text"), nil
}

// An interrupt ends reading, whatever is read, also during a read.
func TestInterrupted(t *testing.T) {
	dir := files(t, map[string]string{"a.txt": "text", "src/b.txt": "text"})
	for _, names := range [][]string{{"-"}, {"-", filepath.Join(dir, "a.txt")}, {filepath.Join(dir, "a.txt"), "-"}} {
		ctx, stop := context.WithCancelCause(t.Context())
		reads := 0
		why, over := errors.New("why"), make(chan struct{})
		_, err := rlm.Load(ctx, t.TempDir(), names, endless{func() {
			if reads++; reads == 3 {
				stop(why)
				<-over
			}
		}})
		close(over)
		if !errors.Is(err, why) {
			t.Errorf("%v: %v", names, err)
		}
		for _, name := range []string{"a.txt", "src"} {
			if _, err := rlm.Load(ctx, t.TempDir(), []string{filepath.Join(dir, name)}, nil); !errors.Is(err, why) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A text of any size needs a fixed amount of memory. This one is 64 MiB of zeros.
func TestLargeText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.txt")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 64<<20); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l, err := rlm.Load(t.Context(), t.TempDir(), []string{path}, nil)
	runtime.ReadMemStats(&after)
	if err != nil || l.Shape.Chars != 64<<20 || l.Path != path {
		t.Fatalf("%+v, %v", l, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 {
		t.Errorf("%d bytes of memory were taken", took)
	}
}

// FuzzJSON checks that all accepted text is JSON, however it is split into reads, and that
// its length is counted in characters.
func FuzzJSON(f *testing.F) {
	for _, text := range []string{`{"a":[1,"é"]}`, `["\ud83d\ude00","\ud800","\ud800\ud800","\u0041"]`, `"😀"`, `[[],{},null,-1.5e3]`, `{"content":"x","a":{"content":"yy"}}`, "[1\n,\t2 ]"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var whole, pieces rlm.Shape
		err := rlm.Measure(&whole, strings.NewReader(string(text)))
		inPieces := rlm.Measure(&pieces, iotest.OneByteReader(strings.NewReader(string(text))))
		if (err == nil) != (inPieces == nil) || err == nil && !reflect.DeepEqual(whole, pieces) {
			t.Fatalf("%q: %+v, %v; in pieces %+v, %v", text, whole, err, pieces, inPieces)
		}
		if err == nil && !json.Valid(text) {
			t.Fatalf("%q was accepted", text)
		}
		var value any
		_ = json.Unmarshal(text, &value) // without err it is valid
		said, isString := value.(string)
		if err == nil && isString && !strings.Contains(said, "\ufffd") && whole.Chars != int64(utf8.RuneCountInString(said)) {
			t.Errorf("%q: %d characters, want %d", text, whole.Chars, utf8.RuneCountInString(said))
		}
	})
}

// The error of a reader is reported.
func TestReadFails(t *testing.T) {
	broken := errors.New("broken")
	for _, names := range [][]string{{"-"}, {"-", os.DevNull}} {
		_, err := rlm.Load(t.Context(), t.TempDir(), names, io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "standard input: ") {
			t.Errorf("%v: %v", names, err)
		}
	}
}
