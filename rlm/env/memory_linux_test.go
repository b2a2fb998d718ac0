//go:build !race

package env_test

// The race detector multiplies the memory of a Starlark worker, so that the address space
// ends before its limit of variables.
func init() {
	faults = append(faults,
		fault{inStarlark("a = []\nwhile True: a.append('x' * (1 << 20))"), "2 MemoryError: the variables take more memory", false},
		fault{inStarlark("a = None"), "", false}, // so that there is room again
	)
}
