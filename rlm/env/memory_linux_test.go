//go:build !race

package env_test

// The race detector multiplies the memory of a Starlark worker, so it reaches the limit of
// its address space before that of its variables.
func init() {
	faults = append(faults,
		fault{inStarlark("a = []\nwhile True: a.append('x' * (1 << 20))"), "2 MemoryError: the variables take more memory", false},
		fault{inStarlark("a = None"), "", false}, // frees the memory
	)
}
