package jsonscan

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// requests returns JSON-RPC requests of size bytes or a little more in total, each of about
// shortest to longest bytes. Their text has an escape or a character beyond ASCII about every
// 36 bytes. No two are alike: the processor would learn the branches of repeated ones, and a
// benchmark would show twice the real speed.
func requests(size, shortest, longest int) (texts [][]byte) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := 0; size > 0; i++ {
		b := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"search"`, i)
		for want, n := shortest+rng.IntN(longest-shortest+1), 0; len(b) < want; n++ {
			length := rng.IntN(want - len(b) + 1)
			b = fmt.Appendf(b, `,"field%d":"%s"`, n, prose(rng, length))
		}
		b = append(b, `,"limit":10,"exact":true}}`...)
		texts = append(texts, b)
		size -= len(b)
	}
	return texts
}

// prose returns about n bytes of the inside of a string.
func prose(rng *rand.Rand, n int) []byte {
	const plain = "the quick brown fox jumps over the lazy dog and sleeps until dusk"
	odd := []string{"é", "ü", "中", "—", "😀", `\n`, `\"`, `\u00e9`}
	var b []byte
	for len(b) < n {
		b = append(b, plain[:8+rng.IntN(len(plain)-8)]...)
		b = append(b, odd[rng.IntN(len(odd))]...)
	}
	return b
}

// BenchmarkMembers checks requests and finds their id, method and params. For comparison,
// encoding/json and jsontext only check them.
func BenchmarkMembers(b *testing.B) {
	for _, size := range []int{100, 500, 4000} {
		texts := requests(16<<20, size, size+size/4)
		run := func(name string, read func([]byte) bool) {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) { benchmarkTexts(b, texts, read) })
		}
		run("jsonscan", findMembers)
		run("jsonscan-valid", func(text []byte) bool { return Valid(text) == nil })
		run("jsontext", func(text []byte) bool { return jsontext.Value(text).IsValid(lenient...) })
		run("encoding-json", json.Valid)
	}
}

func benchmarkTexts(b *testing.B, texts [][]byte, read func([]byte) bool) {
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		for _, text := range texts {
			if !read(text) {
				b.Fatalf("rejected %s", text)
			}
		}
	}
}

// BenchmarkAppendQuote writes texts as strings.
func BenchmarkAppendQuote(b *testing.B) {
	for _, size := range []int{32, 100, 4000} {
		texts := requests(16<<20, size, size+size/4)
		var dst []byte
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			benchmarkTexts(b, texts, func(text []byte) bool {
				dst = AppendQuote(dst[:0], text)
				return len(dst) > len(text)
			})
		})
	}
}

func findMembers(text []byte) bool {
	var id, method, params []byte
	var s Scanner
	s.Init(text)
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "id":
			id = s.Value()
		case "method":
			method = s.Value()
		case "params":
			params = s.Value()
		}
	}
	return s.End() == nil && id != nil && method != nil && params != nil
}
