// Package input makes reads that can be ended, which those from a pipe or a
// terminal cannot be by themselves.
package input
