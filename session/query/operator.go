package query

import "strings"

// op is a comparison.
type op uint8

const (
	equal op = iota
	notEqual
	contains
	greater
	atLeast
	less
	atMost
)

var operators = [...]string{
	equal: "==", notEqual: "!=", contains: "~",
	greater: ">", atLeast: ">=", less: "<", atMost: "<=",
}

// String returns the operator as conditions spell it.
func (o op) String() string { return operators[o] }

// numeric reports whether the operator compares numbers.
func (o op) numeric() bool { return o >= greater }

// leadingOp returns the longest operator that s begins with.
func leadingOp(s string) (found op, ok bool) {
	longest := 0
	for o, spelling := range operators {
		if len(spelling) > longest && strings.HasPrefix(s, spelling) {
			found, longest = op(o), len(spelling)
		}
	}
	return found, longest > 0
}
