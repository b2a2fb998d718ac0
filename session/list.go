package session

// A list is an intrusive doubly linked list: its nodes are fields of the elements, so nothing
// is allocated. The zero list is empty.
type list[T any] struct {
	first, last *node[T]
	len         int
}

// A node is in at most one list.
type node[T any] struct {
	prev, next *node[T]
	of         *T
}

// push appends n, a field of v, which must not be in a list.
func (l *list[T]) push(n *node[T], v *T) {
	*n = node[T]{prev: l.last, of: v}
	if l.last != nil {
		l.last.next = n
	} else {
		l.first = n
	}
	l.last = n
	l.len++
}

// remove removes n, which must be in l.
func (l *list[T]) remove(n *node[T]) {
	if n.prev != nil {
		n.prev.next = n.next
	} else {
		l.first = n.next
	}
	if n.next != nil {
		n.next.prev = n.prev
	} else {
		l.last = n.prev
	}
	l.len--
	*n = node[T]{}
}

// oldest returns the element that was pushed first, or nil.
func (l *list[T]) oldest() *T {
	if l.first == nil {
		return nil
	}
	return l.first.of
}

// all yields the elements until yield returns false, and returns false in that case.
func (l *list[T]) all(yield func(*T) bool) bool {
	for n := l.first; n != nil; n = n.next {
		if !yield(n.of) {
			return false
		}
	}
	return true
}
