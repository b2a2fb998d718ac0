// Package deep makes the stack of the main goroutine as deep, at the beginning of the
// program, as it will be when all packages have been initialized. Left alone it gets
// there by doubling four times, and each time the runtime looks up every function on
// it in tables that have to come from the file first.
//
// Packages are initialized in the order of their paths as soon as what they import has
// been: this one imports nothing and so comes ahead of nearly all others. A test of the
// whole program looks at that.
package deep

func init() { call(false) }

// call has a frame with the room in it, which costs nothing as long as it is not used.
//
//go:noinline
func call(really bool) {
	if really {
		var room [24 << 10]byte
		use(&room)
	}
}

//go:noinline
func use(*[24 << 10]byte) {}
