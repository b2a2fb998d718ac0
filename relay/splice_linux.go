package relay

import "golang.org/x/sys/unix"

// A splice moves bytes from pipe to pipe without copying them: the kernel moves their pages.
// The observer gets its copy through a pipe of the poller, into which the pages are teed
// before. Reading and writing the bytes would add a copy, which is more than half of the cost
// of large transfers.
//
// It is only used while bytes come in large pieces. Small ones are faster to read and write.
type splice struct {
	on   bool
	left int    // bytes that were seen in the input pipe but not yet passed on
	side [2]int // the ends of the pipe to tee into; both 0 if there is none
}

// leastSplice is the least size of a piece for which splicing continues.
const leastSplice = 16 << 10

// see lets the observer see the bytes that wait in the input pipe, and leaves them there to be
// spliced. It returns their number. After a small piece, the next one is read instead.
func (w *polled) see() (n int) {
	if !w.relay.isObserved() {
		if n, _ = unix.IoctlGetInt(w.in.fd, unix.TIOCINQ); n > 0 {
			w.count(n)
		}
	} else if w.splice.openPipe() == nil {
		n = w.tee()
	}
	w.splice.on = n >= leastSplice
	w.splice.left = n
	return n
}

// tee copies the waiting bytes for the observer, and returns their number.
func (w *polled) tee() int {
	s := &w.splice
	room := w.well.atLeast(filledPipe)
	data := room[:0]
	teed, _ := unix.Tee(w.in.fd, s.side[1], len(room), unix.SPLICE_F_NONBLOCK)
	for int64(len(data)) < teed {
		n, err := unix.Read(s.side[0], room[len(data):teed])
		if err != nil && err != unix.EINTR {
			s.closePipe() // the rest of its content is not needed
			break
		}
		data = room[:len(data)+max(n, 0)]
	}
	if len(data) > 0 {
		w.chunk = w.way.noteRead(w.well.took(len(data)))
	}
	return len(data)
}

// pass splices the bytes that were seen.
func (w *polled) pass() error {
	n, err := unix.Splice(w.in.fd, nil, w.out.fd, nil, w.splice.left, unix.SPLICE_F_NONBLOCK)
	if err == unix.EINTR {
		return nil
	}
	w.splice.left -= int(max(n, 0))
	return err
}

func (s *splice) openPipe() error {
	if s.side[1] != 0 {
		return nil
	}
	err := unix.Pipe2(s.side[:], unix.O_CLOEXEC|unix.O_NONBLOCK)
	if err == nil {
		_, _ = unix.FcntlInt(uintptr(s.side[1]), unix.F_SETPIPE_SZ, widePipe)
	}
	return err
}

func (s *splice) closePipe() {
	if s.side[1] != 0 {
		_ = unix.Close(s.side[0])
		_ = unix.Close(s.side[1])
		s.side = [2]int{}
	}
}
