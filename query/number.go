package query

import (
	"bytes"
	"cmp"
	"strconv"

	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// A number is a JSON number. Integers of 64 bits are exact; others are as near
// as a double comes.
type number struct {
	float   float64
	integer int64
	exact   bool // integer is the number
}

func parseNumber(text []byte) (number, bool) {
	if jsonscan.KindOf(text) != jsonscan.Number || jsonscan.Valid(text) != nil {
		return number{}, false
	}
	float, err := strconv.ParseFloat(string(text), 64)
	n := number{float: float}
	if !bytes.ContainsAny(text, ".eE") {
		n.integer, n.exact = parseInt(text)
	}
	return n, err == nil
}

func parseInt(text []byte) (int64, bool) {
	i, err := strconv.ParseInt(string(text), 10, 64)
	return i, err == nil
}

// compare returns -1, 0 or +1 as n is less than, equal to or greater than m.
func (n number) compare(m number) int {
	if n.exact && m.exact {
		return cmp.Compare(n.integer, m.integer)
	}
	return cmp.Compare(n.float, m.float)
}
