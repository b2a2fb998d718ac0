// Package interop tests the wirectl binary against programs of others: what
// real peers write must decode, and what wirectl writes they must read.
//
// The tests install their peers themselves, by npm, into the user's cache. A
// peer that cannot run here is a test skipped, or where CI is set, failed.
package interop
