package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/store"
)

// A viewer gets each frame once, and each exchange again when something has become of it.
func TestFollow(t *testing.T) {
	s := store.New(store.Options{})
	defer s.Close()
	var c store.Cursor
	in := decode.Input{Stream: strings.NewReader("")}
	s.Begin(in)
	for _, step := range []struct {
		lines             string
		frames, exchanges int
		of                string
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}` + "\n", 1, 1, "1"},
		{"", 0, 0, ""},
		{`{"jsonrpc":"2.0","id":2,"method":"ping"}` + "\n" + `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n", 2, 2, "1 2"},
	} {
		in := decode.Input{Stream: strings.NewReader(step.lines)}
		if err := s.Read(t.Context(), in, decode.Config{Workers: 1}); err != nil {
			t.Fatal(err)
		}
		got := s.Follow(&c, 100)
		var ids []string
		for _, x := range got.Exchanges {
			ids = append(ids, x.ID)
		}
		if len(got.Frames) != step.frames || strings.Join(ids, " ") != step.of || got.More || got.Empty() != (step.lines == "") {
			t.Errorf("after %q: %d frames of %q, more %v", step.lines, len(got.Frames), ids, got.More)
		}
	}
}

// A viewer that is slower than the session is told how much it has missed.
func TestFollowSlowly(t *testing.T) {
	s := store.New(store.Options{Frames: 1, Exchanges: 1})
	defer s.Close()
	var c store.Cursor
	s.Begin(decode.Input{Stream: strings.NewReader("")})
	const calls = 20_000
	seen, newest, skipped, missed := int64(0), int64(0), int64(0), int64(0)
	var before store.Overview // of what had gone before the viewer came
	marks := map[uint32]bool{}
	for round := range 2 {
		var stream strings.Builder
		for n := range calls {
			fmt.Fprintf(&stream, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", newest+int64(n))
		}
		newest += calls
		if err := s.Read(t.Context(), decode.Input{Stream: strings.NewReader(stream.String())}, decode.Config{Workers: 1}); err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			before = s.Overview()
		}
		for more := true; more; {
			got := s.Follow(&c, 100)
			if len(got.Frames) > 100 {
				t.Fatalf("%d frames at once", len(got.Frames))
			}
			for _, x := range got.Exchanges {
				marks[x.Mark] = true
			}
			seen, skipped, missed, more = seen+int64(len(got.Frames)), skipped+got.Skipped, missed+got.Missed, got.More
		}
	}
	if before.Dropped == 0 || skipped == 0 || before.Dropped+seen+skipped != newest {
		t.Errorf("of %d frames %d had gone, %d are seen and %d skipped", newest, before.Dropped, seen, skipped)
	}
	if before.Gone == 0 || missed == 0 || before.Gone+int64(len(marks))+missed != newest {
		t.Errorf("of %d exchanges %d had gone, %d are seen and %d missed", newest, before.Gone, len(marks), missed)
	}
}

// A viewer that has looked before the first frame came is told of all that it then missed.
func TestFollowFromNothing(t *testing.T) {
	s := store.New(store.Options{Frames: 1})
	defer s.Close()
	var c store.Cursor
	if first := s.Follow(&c, 10); !first.Empty() || first.More {
		t.Errorf("there is %+v before anything has come", first)
	}
	in := decode.Input{Stream: strings.NewReader(strings.Repeat(`{"jsonrpc":"2.0","method":"x"}`+"\n", 20_000))}
	if err := s.Take(t.Context(), in, decode.Config{Workers: 1}); err != nil {
		t.Fatal(err)
	}
	seen, skipped := int64(0), int64(0)
	for more := true; more; {
		next := s.Follow(&c, 1000)
		seen, skipped, more = seen+int64(len(next.Frames)), skipped+next.Skipped, next.More
	}
	if skipped == 0 || seen+skipped != 20_000 {
		t.Errorf("of 20,000 frames %d are seen and %d skipped", seen, skipped)
	}
}
