package render

import (
	"bytes"
	"strings"
	"testing"
)

func TestAppendFit(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"", 5, ""},
		{"hello", 5, "hello"},
		{"hello", 4, "hel…"},
		{"hello", 1, "…"},
		{"hello", 0, ""},
		{"hello", -1, ""},
		{"日本語", 6, "日本語"},
		{"日本語", 5, "日本…"},
		{"日本語", 4, "日…"}, // 日本 would leave no cell for the ellipsis
		{"a日本", 3, "a…"},
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"},
		{"e\u0301e\u0301e\u0301", 2, "e\u0301…"}, // letters keep their accents
		{"👩\u200d💻👩\u200d💻", 4, "👩\u200d💻👩\u200d💻"},
		{"👩\u200d💻👩\u200d💻", 3, "👩\u200d💻…"},
		{"ab\x1b[2J", 9, `ab\x1b[2J`},
		{"ab\x1b[2J", 8, `ab\x1b[…`},
		{"ab\x1b[2J", 6, `ab…`}, // an escape is not cut in two
		{"one\ntwo", 8, `one\ntwo`},
		{"ab\xff", 6, `ab\xff`},
		{"ab\xff", 5, `ab…`},
	} {
		if got := string(AppendFit(nil, []byte(c.text), c.width)); got != c.want {
			t.Errorf("%q in %d cells: got %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

func TestAppendFitKeepsDst(t *testing.T) {
	if got := string(AppendFit([]byte("日本 "), []byte("日本語"), 3)); got != "日本 日…" {
		t.Errorf("got %s", got)
	}
}

// Characters without width never fill a line; they must not make the cut
// wait for the end of 16 MiB, either.
func TestAppendFitReadsNoMoreThanFits(t *testing.T) {
	for _, piece := range []string{"x", "日", "\u0301", "e\u0301\u0302\u0303", "👩\u200d", "\xff", "\u202e"} {
		text := []byte(strings.Repeat(piece, 16<<20/len(piece)))
		got := AppendFit(nil, text, 80)
		if len(got) > 2*maxBytes(80) || !bytes.HasSuffix(got, []byte("…")) {
			t.Errorf("%q: %d bytes, %.100q", piece, len(got), got)
		}
	}
}

func BenchmarkAppendFit(b *testing.B) {
	for name, text := range map[string]string{
		"ascii":  strings.Repeat(`{"name":"echo"} `, 1000),
		"accent": strings.Repeat("une idée très claire ", 1000),
		"wide":   strings.Repeat("日本語の文 ", 1000),
		"emoji":  strings.Repeat("👩\u200d💻 ok ", 1000),
		"lines":  strings.Repeat("a line of a file\n", 1000),
	} {
		b.Run(name, func(b *testing.B) {
			var dst []byte
			b.ReportAllocs()
			for data := []byte(text); b.Loop(); {
				dst = AppendFit(dst[:0], data, 100)
			}
		})
	}
}

// Of the path of a call the end is kept, which has the name of the method; all
// other text is cut as ever.
func TestAppendFitPath(t *testing.T) {
	for _, tt := range []struct {
		text  string
		width int
		want  string
	}{
		{"/acme.v1.Jobs/Start", 19, "/acme.v1.Jobs/Start"},
		{"/acme.v1.Jobs/Start", 12, "….Jobs/Start"},
		{"silent /acme.v1.Jobs/Start", 20, "silent …1.Jobs/Start"},
		{"/acme.v1.Jobs/Start", 5, "/acm…"},
		{"textDocument/semanticTokens/full", 12, "textDocumen…"},
		{"/one", 3, "/o…"},
		{"/a.b.C/D\x1b[31m and more of it", 10, ""},
		{"at /usr/lib/x, where it is not", 10, "at /usr/l…"},
	} {
		got := string(AppendFitPath(nil, []byte(tt.text), tt.width))
		if tt.want == "" {
			tt.want = string(AppendFit(nil, []byte(tt.text), tt.width))
		}
		if got != tt.want {
			t.Errorf("%q in %d cells is %q, want %q", tt.text, tt.width, got, tt.want)
		}
	}
}
