package query

import (
	"bytes"
	"cmp"
	"strconv"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A number is a JSON number. Integers of 64 bits, signed or unsigned, are exact. Others are
// rounded to a double, which is infinite for very large ones.
type number struct {
	float     float64
	magnitude uint64
	exact     bool // magnitude, with the sign of float, is the number
}

func parseNumber(text []byte) (number, bool) {
	if jsonscan.KindOf(text) != jsonscan.Number || jsonscan.Valid(text) != nil {
		return number{}, false
	}
	float, _ := strconv.ParseFloat(string(text), 64) // fails only for numbers that are too large
	n := number{float: float}
	if !bytes.ContainsAny(text, ".eE") {
		n.magnitude, n.exact = parseUint(bytes.TrimPrefix(text, []byte("-")))
	}
	return n, true
}

func parseUint(digits []byte) (uint64, bool) {
	i, err := strconv.ParseUint(string(digits), 10, 64)
	return i, err == nil
}

// compare returns -1, 0 or +1 if n is less than, equal to or greater than m.
func (n number) compare(m number) int {
	switch negative := n.float < 0; {
	case !n.exact || !m.exact || negative != (m.float < 0):
		return cmp.Compare(n.float, m.float)
	case negative:
		return cmp.Compare(m.magnitude, n.magnitude)
	default:
		return cmp.Compare(n.magnitude, m.magnitude)
	}
}
