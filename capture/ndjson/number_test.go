package ndjson

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// Numbers of all lengths, and those around powers of ten, are formatted as strconv does.
func TestAppendNumber(t *testing.T) {
	check := func(n int64) {
		t.Helper()
		if got, want := string(appendNumber([]byte("x"), n)), "x"+strconv.FormatInt(n, 10); got != want {
			t.Fatalf("appendNumber(%d) = %q, want %q", n, got, want)
		}
	}
	for n := range int64(200_000) {
		check(n)
	}
	for power := int64(1); power < math.MaxInt64/10; power *= 10 {
		for off := int64(-2); off <= 2; off++ {
			check(power + off)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		check(rng.Int64() >> rng.IntN(64))
	}
	check(math.MaxInt64)
	check(math.MinInt64)
	check(-1)
}

// BenchmarkAppendNumber formats numbers of one to ten digits, and compares with strconv.
func BenchmarkAppendNumber(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	numbers := make([]int64, 1<<12)
	for i := range numbers {
		numbers[i] = rng.Int64N(1e10) >> rng.IntN(33)
	}
	dst := make([]byte, 0, 64)
	run := func(name string, appendOne func(dst []byte, n int64) []byte) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, n := range numbers {
					dst = appendOne(dst[:0], n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(numbers)), "ns/number")
		})
	}
	run("ndjson", appendNumber)
	run("strconv", func(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) })
}
