package diff

import "slices"

// maxEdits bounds the edits between two aligned lists. Lists that differ more are compared
// index by index.
const maxEdits = 1000

// align is Alignments with several measures: pieces that the first measure cannot match are
// aligned by the next.
func align(n, m int, yield func(a0, a1, b0, b1 int), measures ...func(i, j int) bool) {
	same, looser := measures[0], measures[1:]
	Alignments(n, m, same, func(a0, a1, b0, b1 int) {
		if len(looser) == 0 || a0 == a1 || b0 == b1 || a1-a0 == 1 && b1-b0 == 1 && same(a0, b0) {
			yield(a0, a1, b0, b1)
			return
		}
		var within []func(i, j int) bool
		for _, same := range looser {
			within = append(within, func(i, j int) bool { return same(a0+i, b0+j) })
		}
		align(a1-a0, b1-b0, func(c0, c1, d0, d1 int) { yield(a0+c0, a0+c1, b0+d0, b0+d1) }, within...)
	})
}

// Alignments calls yield for the pieces of two lists of n and m elements, in order: [a0,a1) of
// the first list corresponds to [b0,b1) of the second. Equal elements are yielded one by one,
// and elements without a counterpart between them. The equal elements are a longest common
// subsequence.
func Alignments(n, m int, same func(i, j int) bool, yield func(a0, a1, b0, b1 int)) {
	head := 0
	for head < n && head < m && same(head, head) {
		yield(head, head+1, head, head+1)
		head++
	}
	tail := 0
	for tail < min(n, m)-head && same(n-tail-1, m-tail-1) {
		tail++
	}
	middle(head, n-tail, head, m-tail, same, yield)
	for ; tail > 0; tail-- {
		yield(n-tail, n-tail+1, m-tail, m-tail+1)
	}
}

// middle is Alignments for lists that differ at both ends.
func middle(a0, a1, b0, b1 int, same func(i, j int) bool, yield func(a0, a1, b0, b1 int)) {
	i, j := a0, b0
	for _, s := range snakes(a1-a0, b1-b0, func(i, j int) bool { return same(a0+i, b0+j) }) {
		x, y := a0+s[0], b0+s[1]
		if i < x || j < y {
			yield(i, x, j, y)
		}
		yield(x, x+1, y, y+1)
		i, j = x+1, y+1
	}
	if i < a1 || j < b1 {
		yield(i, a1, j, b1)
	}
}

// snakes returns the pairs of a longest common subsequence, by the greedy algorithm of Myers
// (An O(ND) Difference Algorithm and Its Variations, 1986). Its memory grows with the square of
// the number of edits. Beyond maxEdits, equal elements at the same index are paired.
func snakes(n, m int, same func(i, j int) bool) [][2]int {
	var trace [][]int // how far each round got on each diagonal
	for d := 0; d <= min(n+m, maxEdits); d++ {
		reach := make([]int, 2*d+1)
		for k := -d; k <= d; k += 2 {
			x := start(trace, d, k)
			for x < n && x-k < m && same(x, x-k) {
				x++
			}
			reach[k+d] = x
			if x == n && x-k == m {
				return backtrack(append(trace, reach), n, m)
			}
		}
		trace = append(trace, reach)
	}
	return inPlace(n, m, same)
}

// start returns where round d begins on diagonal k.
func start(trace [][]int, d, k int) int {
	if d == 0 {
		return 0
	}
	reach := trace[d-1]
	from := origin(reach, d, k)
	if from < k {
		return at(reach, from) + 1
	}
	return at(reach, from)
}

// backtrack finds the pairs from the furthest points of all rounds.
func backtrack(trace [][]int, x, y int) [][2]int {
	var found [][2]int
	for d := len(trace) - 1; d >= 0; d-- {
		px, py := 0, 0
		if d > 0 {
			px, py = before(trace[d-1], d, x-y)
		}
		for x > px && y > py {
			x, y = x-1, y-1
			found = append(found, [2]int{x, y})
		}
		x, y = px, py
	}
	slices.Reverse(found)
	return found
}

// before returns the point from which round d reached diagonal k.
func before(reach []int, d, k int) (x, y int) {
	k = origin(reach, d, k)
	x = at(reach, k)
	return x, x - k
}

// origin returns the diagonal next to k from which round d gets furthest.
func origin(reach []int, d, k int) int {
	if k == -d || k != d && at(reach, k-1) < at(reach, k+1) {
		return k + 1
	}
	return k - 1
}

// at returns how far a round got on diagonal k.
func at(reach []int, k int) int { return reach[k+len(reach)/2] }

// inPlace returns the pairs of equal elements at the same index.
func inPlace(n, m int, same func(i, j int) bool) [][2]int {
	var found [][2]int
	for i := range min(n, m) {
		if same(i, i) {
			found = append(found, [2]int{i, i})
		}
	}
	return found
}

// Beside puts the lines of two texts side by side, equal ones together.
func Beside(a, b []string) (rows [][2]string) {
	same := func(i, j int) bool { return a[i] == b[j] }
	Alignments(len(a), len(b), same, func(a0, a1, b0, b1 int) {
		from := len(rows)
		rows = append(rows, make([][2]string, max(a1-a0, b1-b0))...)
		for i, line := range a[a0:a1] {
			rows[from+i][0] = line
		}
		for i, line := range b[b0:b1] {
			rows[from+i][1] = line
		}
	})
	return rows
}
