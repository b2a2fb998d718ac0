package tui

// A pair is two lines that stand beside each other; one of them may be missing.
type pair struct{ a, b string }

// maxAligned bounds the lines that are aligned, whose number counts squared.
const maxAligned = 1500

// align puts the lines of two texts beside each other, equal ones together.
func align(a, b []string) []pair {
	if len(a) > maxAligned || len(b) > maxAligned {
		return beside(a, b)
	}
	// common[i][j] is how many lines a[i:] and b[j:] have in common.
	common := make([][]int16, len(a)+1)
	for i := range common {
		common[i] = make([]int16, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var list []pair
	i, j := 0, 0
	fromA, fromB := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			list = append(list, beside(a[fromA:i], b[fromB:j])...)
			list = append(list, pair{a[i], b[j]})
			i, j = i+1, j+1
			fromA, fromB = i, j
		case common[i+1][j] >= common[i][j+1]:
			i++
		default:
			j++
		}
	}
	return append(list, beside(a[fromA:], b[fromB:])...)
}

// beside pairs lines one by one.
func beside(a, b []string) []pair {
	list := make([]pair, max(len(a), len(b)))
	for i := range list {
		if i < len(a) {
			list[i].a = a[i]
		}
		if i < len(b) {
			list[i].b = b[i]
		}
	}
	return list
}
