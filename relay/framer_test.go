package relay

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/test/kit/frametest"
)

// The framing detected in one direction holds for the other. It corrects the guess from an
// earlier text.
func TestFramer(t *testing.T) {
	const (
		call  = "Content-Length: 40\r\n\r\n" + `{"jsonrpc":"2.0","id":1,"method":"exit"}`
		reply = "Content-Length: 38\r\n\r\n" + `{"jsonrpc":"2.0","id":1,"result":null}`
		line  = `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"
	)
	for _, tt := range []struct {
		comment string
		grammar grammar
		says    []string // > to the unit, < to the controller
		want    string
	}{
		{
			"text ahead of what a controller says", newGrammar(nil, nil, 0),
			[]string{"<ready\n", ">" + call, "<" + reply},
			"line 5, header 40, header 38",
		},
		{
			"and a text that has no end", newGrammar(nil, nil, 0),
			[]string{"<ready", "< and", ">" + call, "< willing\n" + reply},
			"header 40, gap 18, header 38",
		},
		{
			"text behind which the rest of it waits", newGrammar(nil, nil, 0),
			[]string{"<ready\nand", ">" + call, "< willing\n" + reply},
			"line 5, header 40, gap 12, header 38",
		},
		{
			"text ahead of lines", newGrammar(nil, nil, 0),
			[]string{"<ready\n", ">" + line, "<" + line},
			"line 5, line 40, line 40",
		},
		{
			"lines that are in the same direction as text", newGrammar(nil, nil, 0),
			[]string{"<ready\n" + line, ">" + call},
			"line 5, line 40, line 18, line 40",
		},
		{
			"a framing that was named", newGrammar(frame.Line, nil, 0),
			[]string{"<ready\n", ">" + call},
			"line 5, line 18, line 40",
		},
		{
			"a protocol that was named", newGrammar(nil, jsonrpc.LSP, 0),
			[]string{"<ready\n", ">" + call, "<" + reply},
			"line 5, header 40, header 38",
		},
	} {
		got := cutAll(&tt.grammar, tt.says)
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s: %v, want %s", tt.comment, got, tt.want)
		}
	}
}

// cutAll returns the framings and sizes of the frames that two sides send.
func cutAll(g *grammar, says []string) (got []string) {
	framers := map[byte]*framer{'>': newFramer(g), '<': newFramer(g)}
	use := func(b *frame.Batch) {
		for i := range b.Frames {
			f := &b.Frames[i]
			if g.refine(f); f.Gap {
				got = append(got, fmt.Sprintf("gap %d", f.Size()))
			} else {
				got = append(got, fmt.Sprintf("%s %d", g.framing.Name(), f.Size()))
			}
		}
	}
	for _, s := range says {
		framers[s[0]].push([]byte(s[1:]), use)
	}
	framers['>'].endInput(use)
	framers['<'].endInput(use)
	return got
}

// However the bytes of a stream arrive, the frames after a fault, and what is skipped, are those
// that decoding all of them with --resync finds.
func TestFramerAtEverySplit(t *testing.T) {
	for _, f := range frame.Framings() {
		for name, in := range frametest.Faulty(f, []byte(`{"jsonrpc":"2.0","method":"x"}`)) {
			s := frame.NewScanner(bytes.NewReader(in), f)
			s.SetLimit(frametest.FaultyLimit)
			s.SetAccept(all.Plausible(jsonrpc.MCP))
			s.Resync()
			var want []frame.Frame
			for s.Scan() {
				want = append(want, s.Frame().Clone())
			}
			for parts := range frametest.Splits(in) {
				g := newGrammar(f, jsonrpc.MCP, frametest.FaultyLimit)
				framer := newFramer(&g)
				var got []frame.Frame
				use := func(b *frame.Batch) {
					for i := range b.Frames {
						got = append(got, b.Frames[i].Clone())
					}
				}
				for _, part := range parts {
					framer.push(part, use)
				}
				framer.endInput(use)
				if diff := cmp.Diff(frametest.Merged(want), frametest.Merged(got)); diff != "" {
					t.Errorf("%s, %s: in %d parts, the first of %d bytes: %s", f.Name(), name, len(parts), len(parts[0]), diff)
					break
				}
			}
		}
	}
}
