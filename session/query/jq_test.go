package query

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// row is an NDJSON record with numbers that doubles cannot represent.
const row = `{"seq":17,"kind":"tools/call","id":9007199254740993,"payload":{"n":1.00,"big":123456789012345678901234567890,"name":"a\nb"}}`

func TestJQ(t *testing.T) {
	for _, c := range []struct{ filter, want string }{
		{`.kind`, `"tools/call"` + "\n"},
		{`.id, .payload.n, .payload.big`, "9007199254740993\n1.00\n123456789012345678901234567890\n"},
		{`.id + 1`, "9007199254740994\n"},
		{`select(.kind == "result")`, ""},
		{`{name: .payload.name, seq}`, `{"name":"a\nb","seq":17}` + "\n"},
		{`.payload | keys`, `["big","n","name"]` + "\n"},
		{`$ENV, env`, "{}\n{}\n"},
		{`(.seq, [.seq]) | toarray`, "[17]\n[17]\n"},
		{`.seq | debug | stderr | debug("x")`, "17\n"},
	} {
		q, err := CompileJQ(c.filter, nil)
		if err != nil {
			t.Errorf("%s: %v", c.filter, err)
			continue
		}
		got, err := q.Append(t.Context(), []byte("before\n"), []byte(row))
		if err != nil || string(got) != "before\n"+c.want {
			t.Errorf("%s: got %q, %v, want %q", c.filter, got, err, c.want)
		}
	}
}

func TestCompileJQErrors(t *testing.T) {
	for _, c := range []struct{ filter, want string }{
		{`.a |`, `jq: column 5: unexpected EOF`},
		{`é | ]`, `jq: column 1: unexpected token "é"`},
		{`.a | ]`, `jq: column 6: unexpected token "]"`},
		{`nosuch`, `jq: function not defined: nosuch/0`},
		{`input`, `jq: input(s)/0 is not allowed`},
		{`import "a" as a; .`, `jq: cannot load module: "a"`},
	} {
		if _, err := CompileJQ(c.filter, nil); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", c.filter, err, c.want)
		}
	}
}

// The output of a filter before its failure is kept.
func TestJQFails(t *testing.T) {
	for _, c := range []struct{ filter, object, out, want string }{
		{`1, error("no luck"), 2`, row, "1\n", "jq: error: no luck"},
		{`.kind.x`, row, "", "jq: expected an object but got: string"},
		{`.`, `{"a":`, "", "jq: the record is not JSON: unexpected EOF"},
		{`.`, `{} {}`, "", "jq: the record is more than one JSON value"},
	} {
		q, err := CompileJQ(c.filter, nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := q.Append(t.Context(), nil, []byte(c.object))
		if string(out) != c.out || err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %q, %v, want %q, %s", c.filter, out, err, c.out, c.want)
		}
	}
}

func TestJQHalts(t *testing.T) {
	q, err := CompileJQ(`.seq, halt, .kind`, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := q.Append(t.Context(), nil, []byte(row))
	if string(out) != "17\n" || !errors.Is(err, ErrHalt) {
		t.Errorf("got %q, %v", out, err)
	}
}

// Endless filters stop when the context is done, whether they loop, recurse or keep producing
// nothing.
func TestRunawayJQStops(t *testing.T) {
	for _, filter := range []string{`repeat(.)|empty`, `def f: f; f`, `last(range(1e18))`} {
		q, err := CompileJQ(filter, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err = q.Append(ctx, nil, []byte(row))
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v", filter, err)
		}
	}
}

// A filter is safe for concurrent use; the race detector checks it.
func TestJQIsConcurrent(t *testing.T) {
	q, err := CompileJQ(`.payload.name |= test("A.B"; "i") | {a: [1, {b: 2}], p: .payload} | .a[1].b += 1 | tojson | fromjson`, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := q.Append(t.Context(), nil, []byte(row))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if got, err := q.Append(t.Context(), nil, []byte(row)); err != nil || string(got) != string(want) {
					t.Errorf("got %q, %v, want %q", got, err, want)
					return
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkJQ(b *testing.B) {
	q, err := CompileJQ(`select(.kind == "tools/call") | .payload.name`, nil)
	if err != nil {
		b.Fatal(err)
	}
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		if out, err = q.Append(context.Background(), out[:0], []byte(row)); err != nil {
			b.Fatal(err)
		}
	}
}

// debug and stderr report their input and pass it on.
func TestJQTells(t *testing.T) {
	var told []string
	q, err := CompileJQ(`.seq | debug, (.*1 | stderr), debug("at \(.)")`, func(line string) { told = append(told, line) })
	if err != nil {
		t.Fatal(err)
	}
	out, err := q.Append(t.Context(), nil, []byte(row))
	want := []string{`["DEBUG:",17]`, `17`, `["DEBUG:","at 17"]`}
	if err != nil || string(out) != "17\n17\n17\n" || !slices.Equal(told, want) {
		t.Errorf("%q told %q, %v, want %q", out, told, err, want)
	}
}
