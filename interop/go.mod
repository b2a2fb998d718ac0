// The tests against real peers stand in a module of their own, so that what
// they need is nothing that wirectl depends on.
module github.com/wirectl/wirectl/interop

go 1.26.0

require github.com/creack/pty v1.1.24
