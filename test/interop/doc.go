// Package interop tests the wirectl binary against third-party programs: wirectl must
// decode what real peers write, and they must read what wirectl writes.
//
// The tests install their peers themselves, by npm, into the user's cache. If a peer cannot
// run here, its test is skipped, or fails if CI is set.
package interop
