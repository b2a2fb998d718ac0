// Package harness has the common parts of the benchmarks: it builds programs, measures them in
// turns, and prints the table of results.
package harness

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// A Bench is one run of a program.
type Bench struct {
	Dir    string // for files, in memory if there is /dev/shm
	Rounds int    // how often each side is measured
	Scale  int    // the divisor of sizes and times, for a smoke test

	bin  string // the first folder in PATH
	out  io.Writer
	only string
	miss bool
}

// Main runs a program in test/bench: it builds wirectl and has each part add its
// rows to the table. The status is 1 when a goal was not met.
func Main(parts ...func(*Bench)) {
	b := &Bench{out: os.Stdout}
	flag.IntVar(&b.Rounds, "rounds", 5, "measure each `N` times, in turns")
	flag.IntVar(&b.Scale, "scale", 1, "divide sizes and times by `N`, for a smoke test")
	flag.StringVar(&b.only, "only", "", "measure only the figures whose name contains `TEXT`")
	// The mode precedes the flags; the program has read it.
	args := os.Args[1:]
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		args = args[1:]
	}
	_ = flag.CommandLine.Parse(args) // it exits
	err := b.run(parts)
	if err == nil && b.miss {
		err = errors.New("not all goals are met")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *Bench) run(parts []func(*Bench)) (err error) {
	if _, err := os.Stat("peers"); err != nil {
		return errors.New("run it in test/bench: go -C test/bench run ./NAME")
	}
	if b.bin, err = os.MkdirTemp("", "wirectl-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.bin)
	if b.Dir, err = os.MkdirTemp("/dev/shm", "wirectl-bench-"); err != nil {
		b.Dir = b.bin
	}
	defer os.RemoveAll(b.Dir)
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	go func() {
		<-interrupted
		os.RemoveAll(b.Dir)
		os.RemoveAll(b.bin)
		os.Exit(130)
	}()
	defer func() {
		if r := recover(); r != nil {
			failed, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = failed.error
		}
	}()
	Check(os.Setenv("PATH", b.bin+string(filepath.ListSeparator)+os.Getenv("PATH")))
	Check(os.Setenv("XDG_RUNTIME_DIR", b.Dir))
	b.Build("../tools/build", b.bin+"/")
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Fprintf(b.out, "%s, %s/%s, %d processors, load %.4s, %d rounds, sizes and times divided by %d.\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), load, b.Rounds, b.Scale)
	fmt.Fprint(b.out, "| figure | value | goal | met |\n| --- | --- | --- | --- |\n")
	for _, part := range parts {
		part(b)
	}
	return nil
}

// Build runs a command that builds a program.
func (b *Bench) Build(args ...string) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOBIN="+b.bin)
	if out, err := cmd.CombinedOutput(); err != nil {
		Check(fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out))
	}
}

// Bin returns the path of a program that was built.
func (b *Bench) Bin(name string) string { return filepath.Join(b.bin, name) }

// Wants reports whether a figure is wanted.
func (b *Bench) Wants(name string) bool { return strings.Contains(name, b.only) }

// Skip adds a row for a figure that cannot be measured here.
func (b *Bench) Skip(name, why string) {
	fmt.Fprintf(b.out, "| %s | | | skipped: %s |\n", name, why)
}

// AtLeast adds a row: the median of the values, one for each round, must not be less than the
// goal.
func (b *Bench) AtLeast(name string, values []float64, goal float64, unit string) {
	b.row(name, values, "≥", goal, unit, 1)
}

// AtMost adds a row: the median must not be more than the goal.
func (b *Bench) AtMost(name string, values []float64, goal float64, unit string) {
	b.row(name, values, "≤", goal, unit, -1)
}

func (b *Bench) row(name string, values []float64, sign string, goal float64, unit string, bad int) {
	slices.Sort(values)
	n := len(values)
	median := (values[(n-1)/2] + values[n/2]) / 2
	value := strings.TrimSpace(number(median) + " " + unit)
	if n > 1 {
		value += fmt.Sprintf(" (%s to %s)", number(values[0]), number(values[n-1]))
	}
	met := "yes"
	if cmp.Compare(goal, median) == bad {
		b.miss, met = true, "no"
	}
	fmt.Fprintf(b.out, "| %s | %s | %s %s | %s |\n", name, value, sign, strings.TrimSpace(number(goal)+" "+unit), met)
}

func number(x float64) string {
	if x >= 1000 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// Turns measures each once in every round, because the speed of a machine drifts, and returns
// the values of each.
func Turns[T any](rounds int, measures ...func() T) [][]T {
	all := make([][]T, len(measures))
	for range rounds {
		for i, measure := range measures {
			all[i] = append(all[i], measure())
		}
	}
	return all
}

// A failure ends the benchmark.
type failure struct{ error }

// Check ends the benchmark if err is not nil. Deferred functions still run. Like Must, it is for
// the goroutine of a part.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Must returns v, or ends the benchmark with err.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Ratio divides round by round.
func Ratio(a, b []float64) []float64 {
	var ratios []float64
	for i := range a {
		ratios = append(ratios, a[i]/b[i])
	}
	return ratios
}

// Median sorts the values and returns the middle one.
func Median[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}
