package relay

import "golang.org/x/sys/unix"

// A splice passes bytes on from pipe to pipe without copying them: the system
// moves the pages that hold them. The observer gets its copy by way of a pipe of
// our own, into which the same pages are teed before. To write what was read
// would be another copy, and more than half of what it costs to move much.
//
// It is on while much comes at once: a little is faster read and written.
type splice struct {
	on   bool
	left int    // bytes that were seen, wait in the pipe that is read, and are to be passed on
	side [2]int // the ends of the pipe that is teed into; both 0 if there is none
}

// leastSplice is how many bytes have to come at once for splicing to go on.
const leastSplice = 16 << 10

// see takes note of what waits in the pipe that is read, and leaves it there to be
// spliced. It returns 0 if that is nothing. If it is little, the next is read.
func (w *polled) see() (n int) {
	if w.relay.queue == nil {
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

// tee lets the observer see what waits. It returns how many bytes that are.
func (w *polled) tee() int {
	s := &w.splice
	room := w.well.atLeast(filledPipe)
	data := room[:0]
	teed, _ := unix.Tee(w.in.fd, s.side[1], len(room), unix.SPLICE_F_NONBLOCK)
	for int64(len(data)) < teed {
		n, err := unix.Read(s.side[0], room[len(data):teed])
		if err != nil && err != unix.EINTR {
			s.closePipe() // what it may still hold is not wanted
			break
		}
		data = room[:len(data)+max(n, 0)]
	}
	if len(data) > 0 {
		w.chunk = w.way.noteRead(w.well.took(len(data)))
	}
	return len(data)
}

// pass splices what was seen.
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
