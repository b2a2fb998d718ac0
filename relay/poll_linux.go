package relay

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/fd"
	"github.com/wirectl/wirectl/transport"
)

// maxPollers bounds the number of poller threads. With more open connections than that, some
// connection always has work to do. Waking a thread for each message then costs more than it
// saves.
const maxPollers = 32

var pollers atomic.Int32

// A poller moves both directions by their file descriptors, on its own thread. This keeps the
// latency of a message low: another thread has to wake a goroutine that waits for a descriptor.
// The wake-up takes half as long as everything else on the way, and ten times as long with a
// single processor. For the same reason, the observer is woken occasionally and not for each
// message. Large pieces from pipe to pipe are not copied; see splice_linux.go.
type poller struct {
	relay *relay
	ways  [2]polled
	wake  *os.File    // an eventfd, readable when last or ended has been set
	last  atomic.Bool // the unit's output ends after what is there
	ended atomic.Bool // the poller must end
	done  chan struct{}
}

// A loop is the poll loop of a poller.
type loop struct {
	*poller
	fds    [3]unix.PollFd
	roused time.Time // when the observer was last woken
	ceded  time.Time // when the loop last yielded to Go's scheduler
}

// A polled is a way with the descriptors of its two ends.
type polled struct {
	*way
	in, out  descriptor
	pending  []byte // read but not yet written
	splice   splice
	chunk    *chunk
	late     int64 // bytes moved by moveLast
	finished bool
}

// A descriptor reads and writes without blocking.
type descriptor struct {
	fd    int
	own   bool // we opened it and must close it
	flags int  // for a socket, because its own flags stay unchanged; -1 for others
	pipe  bool
	wide  bool // it was enlarged
}

// A pipe that was filled is enlarged, so that moves are fewer and larger. Other pipes stay
// small, because all pipes of a user share a budget.
const (
	filledPipe = 64 << 10
	widePipe   = 1 << 20
)

func (d *descriptor) widen() {
	if d.pipe && !d.wide {
		_, _ = unix.FcntlInt(uintptr(d.fd), unix.F_SETPIPE_SZ, widePipe)
	}
	d.wide = true
}

// pace is how long small messages may wait before the observer sees them.
const pace = 20 * time.Millisecond

// poll starts moving bytes by the descriptors of both ends. It returns false if they cannot be
// polled.
func (r *relay) poll() bool {
	controller, ok := r.cfg.Controller.(transport.Descriptors)
	unit, isToo := r.cfg.Unit.(transport.Descriptors)
	if !ok || !isToo || r.link != nil {
		return false
	}
	if pollers.Add(1) > maxPollers {
		pollers.Add(-1)
		return false
	}
	p := &poller{relay: r, done: make(chan struct{})}
	toUnit, toController := &p.ways[0], &p.ways[1]
	toUnit.way, toController.way = r.ways[frame.C2U], r.ways[frame.U2C]
	if err := p.takeDescriptors(controller, unit); err != nil {
		p.closeDescriptors()
		pollers.Add(-1)
		return false
	}
	if r.queue != nil {
		r.queue.lazy = true
	}
	go p.run()
	set := func(flag *atomic.Bool) {
		flag.Store(true)
		_, _ = p.wake.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
	r.finish = func() { set(&p.last) }
	r.interrupt = func() {
		set(&p.ended)
		<-p.done
		p.wake.Close()
	}
	return true
}

// takeDescriptors takes the descriptors of both ends. The unit's come last: once a program has
// handed out its pipes, nothing interrupts its own Read and Write.
func (p *poller) takeDescriptors(controller, unit transport.Descriptors) (err error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return err
	}
	p.wake = os.NewFile(uintptr(fd), "eventfd")
	toUnit, toController := &p.ways[0], &p.ways[1]
	if toUnit.in, toController.out, err = descriptors(controller); err == nil {
		toController.in, toUnit.out, err = descriptors(unit)
	}
	if err != nil {
		p.wake.Close()
	}
	return err
}

// descriptors returns the descriptors of an end, if they can be polled.
func descriptors(c transport.Descriptors) (in, out descriptor, err error) {
	read, write, err := c.Descriptors()
	if err != nil {
		return in, out, err
	}
	if in, err = pollable(read, unix.O_RDONLY); err != nil {
		return in, out, err
	}
	out, err = pollable(write, unix.O_WRONLY)
	if err != nil {
		in.closeOwned()
	}
	return in, out, err
}

// pollable returns a non-blocking descriptor. A blocking pipe is opened again, because
// the flag is shared with every other holder of the pipe.
func pollable(c syscall.RawConn, mode int) (d descriptor, err error) {
	if e := c.Control(func(fd uintptr) { d, err = pollableFd(int(fd), mode) }); e != nil {
		return d, e
	}
	return d, err
}

// devNull is the number of /dev/null. Other devices, such as terminals, may block the thread.
var devNull = unix.Mkdev(1, 3)

func pollableFd(fd, mode int) (descriptor, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return descriptor{}, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		return descriptor{fd: fd, flags: unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL}, nil
	case unix.S_IFREG:
		return descriptor{fd: fd, flags: -1}, nil // a regular file never blocks
	case unix.S_IFIFO:
	case unix.S_IFCHR:
		if uint64(st.Rdev) != devNull { //nolint:unconvert // it is smaller elsewhere
			return descriptor{}, os.ErrInvalid
		}
		return descriptor{fd: fd, flags: -1, pipe: mode == unix.O_WRONLY}, nil // pages can be spliced to it, as to a pipe
	default:
		return descriptor{}, os.ErrInvalid
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_NONBLOCK != 0 {
		return descriptor{fd: fd, flags: -1, pipe: true}, err
	}
	fd, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), mode|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	return descriptor{fd: fd, own: true, flags: -1, pipe: true}, err
}

func (d *descriptor) readBytes(b []byte) (int, error) {
	if d.flags < 0 {
		return fd.Read(uintptr(d.fd), b)
	}
	for {
		n, _, err := unix.Recvfrom(d.fd, b, d.flags)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

func (d *descriptor) writeBytes(b []byte) (int, error) {
	if d.flags < 0 {
		return fd.Write(uintptr(d.fd), b)
	}
	for {
		n, err := unix.SendmsgN(d.fd, b, nil, nil, d.flags)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

func (d *descriptor) closeOwned() {
	if d.own {
		d.own = false
		_ = unix.Close(d.fd)
	}
}

// closeDescriptors closes the descriptors that the poller owns.
func (p *poller) closeDescriptors() {
	for i := range p.ways {
		p.ways[i].in.closeOwned()
		p.ways[i].out.closeOwned()
		p.ways[i].splice.closePipe()
	}
}

// run moves bytes until both directions have ended or it is stopped.
func (p *poller) run() {
	defer close(p.done)
	defer pollers.Add(-1)
	defer p.closeDescriptors()
	for l := (&loop{poller: p}); l.wait(); {
		l.moveAll()
	}
	p.moveLast(&p.ways[1])
	for i := range p.ways {
		if w := &p.ways[i]; !w.finished {
			w.finished = true
			w.well.releaseSlab()
			w.reportEnd(os.ErrClosed)
		}
	}
}

// moveLast moves the output of the unit that is there, and reports whether all of it has been
// moved. That is at most a full pipe: others that hold the pipe may still be writing.
func (p *poller) moveLast(w *polled) bool {
	for !w.finished && w.waiting() == 0 && w.late < widePipe {
		before := w.bytes.Load()
		p.move(w)
		now := w.bytes.Load()
		if now == before {
			return true
		}
		w.late += now - before
	}
	return w.waiting() == 0
}

// moveAll moves all bytes that can be moved without blocking.
func (l *loop) moveAll() {
	for i := range l.ways {
		w := &l.ways[i]
		switch {
		case l.fds[i].Revents == 0:
		case w.finished:
			l.lost(&l.ways[0])
		default:
			l.move(w)
		}
	}
	now := time.Now()
	l.rouse(now)
	l.cede(now)
}

// wait waits until bytes can be moved or the timeout ends. It returns false when no more bytes
// will be moved.
func (l *loop) wait() bool {
	if w := &l.ways[1]; l.last.Load() && l.moveLast(w) && !w.finished {
		l.finishWay(w, func() { w.way.finishWay(io.EOF) })
	}
	ended := 0
	for i := range l.ways {
		w := &l.ways[i]
		switch {
		case w.finished:
			l.fds[i] = unix.PollFd{Fd: -1}
			if toUnit := &l.ways[0]; i == 1 && !toUnit.finished && toUnit.out.flags >= 0 {
				l.fds[i].Fd = int32(toUnit.out.fd) // for its errors; see lost
			}
			ended++
		case w.waiting() > 0:
			l.fds[i] = unix.PollFd{Fd: int32(w.out.fd), Events: unix.POLLOUT}
		default:
			l.fds[i] = unix.PollFd{Fd: int32(w.in.fd), Events: unix.POLLIN}
		}
	}
	l.fds[2] = unix.PollFd{Fd: int32(l.wake.Fd()), Events: unix.POLLIN}
	if ended == len(l.ways) {
		return false
	}
	for {
		n, err := l.ready()
		if n == 0 && err == nil {
			n, err = unix.Poll(l.fds[:], l.timeout())
		}
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return false
		case n == 0:
			l.relay.queue.rouse()
			l.roused = time.Now()
		}
		if l.fds[2].Revents != 0 {
			_, _ = unix.Read(int(l.wake.Fd()), make([]byte, 8))
		}
		return !l.ended.Load()
	}
}

// lost ends the way to a unit whose socket accepts no more data. The end of its answers may
// only have been a half-close. The socket's error shows that the unit has gone, before the
// controller writes to it again.
func (l *loop) lost(toUnit *polled) {
	if toUnit.finished {
		return
	}
	err := error(unix.EPIPE)
	if code, e := unix.GetsockoptInt(toUnit.out.fd, unix.SOL_SOCKET, unix.SO_ERROR); e == nil && code != 0 {
		err = unix.Errno(code)
	}
	toUnit.wrote(toUnit.chunk)
	l.finishWay(toUnit, func() { toUnit.reportEnd(&sideError{toUnit.dir, err}) })
}

// ready polls without waiting and without informing Go's scheduler. If messages are answers to
// each other, the next one has usually arrived by now. Otherwise, the scheduler would preempt
// the loop after about 20 µs and wake another thread for the other goroutines.
func (l *loop) ready() (n int, err error) {
	var now unix.Timespec
	got, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&l.fds)), uintptr(len(l.fds)), uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(got), nil
}

// timeout returns how long to wait, in milliseconds. It is short while the observer has unseen
// bytes.
func (l *loop) timeout() int {
	if q := l.relay.queue; q != nil && q.waiting.Load() > 0 {
		return int(pace / time.Millisecond)
	}
	return -1
}

// rouse wakes the observer if small messages have been waiting for longer than pace.
func (l *loop) rouse(now time.Time) {
	if q := l.relay.queue; q != nil && q.waiting.Load() > 0 && now.Sub(l.roused) > pace {
		l.roused = now
		q.rouse()
	}
}

// slice is how long a loop keeps the processor before it yields. Go's scheduler preempts a
// goroutine after 10 ms, and then checks every 20 µs for a while. With one processor, each
// check interrupts a message. Without the yield, the p99 of a round trip of 100 bytes on one
// processor is 44 µs instead of 30.
const slice = 4 * time.Millisecond

// cede yields to other goroutines before the scheduler preempts the loop.
func (l *loop) cede(now time.Time) {
	if now.Sub(l.ceded) > slice {
		l.ceded = now
		runtime.Gosched()
	}
}

// waiting returns how many bytes were read, or seen in the pipe, but not yet written.
func (w *polled) waiting() int { return len(w.pending) + w.splice.left }

// move moves the bytes of a way that can be moved without blocking.
func (p *poller) move(w *polled) {
	if w.waiting() > 0 {
		p.writePending(w)
		return
	}
	n, err := w.readNext()
	switch {
	case err == unix.EAGAIN:
	case err != nil:
		p.finishWay(w, func() { w.way.finishWay(err) })
	case n == 0:
		p.finishWay(w, func() { w.way.finishWay(io.EOF) })
	default:
		if n >= filledPipe {
			w.in.widen()
		}
		p.writePending(w)
	}
}

// readNext reads, or peeks at, the bytes to write next.
func (w *polled) readNext() (int, error) {
	if w.splice.on {
		if n := w.see(); n > 0 {
			return n, nil
		}
	}
	n, err := w.in.readBytes(w.well.room())
	if n > 0 {
		w.pending = w.well.took(n)
		w.chunk = w.way.noteRead(w.pending)
		w.splice.on = n >= filledPipe && w.in.pipe && w.out.pipe
	}
	return n, err
}

// writePending writes as many of the pending bytes as the other side accepts.
func (p *poller) writePending(w *polled) {
	err := w.put()
	switch left := w.waiting(); {
	case err != nil && err != unix.EAGAIN:
		w.wrote(w.chunk)
		p.finishWay(w, func() { w.reportEnd(&sideError{w.dir, err}) })
	case left > 0:
		w.out.widen()
		if w.wait.since.Load() == 0 {
			w.wait.startWrite(left)
		}
	default:
		if w.wait.since.Load() != 0 {
			w.wait.endWrite()
		}
		p.wrote(w)
	}
}

// wrote marks a chunk as written. If it is large, the poller also records it and the chunks
// before it.
func (p *poller) wrote(w *polled) {
	c := w.chunk
	w.chunk = nil
	switch {
	case c == nil:
	case len(c.data) < leastSplice:
		w.wrote(c)
	default:
		c.written.Store(time.Now().UnixNano())
		if !p.relay.seen.catchUp() {
			p.relay.queue.rouse()
		}
	}
}

// put writes once.
func (w *polled) put() error {
	if w.splice.left > 0 {
		return w.pass()
	}
	n, err := w.out.writeBytes(w.pending)
	w.pending = w.pending[n:]
	return err
}

// finishWay ends a way and then calls tell, which reports it.
func (p *poller) finishWay(w *polled, tell func()) {
	w.finished = true
	w.pending, w.splice.left = nil, 0
	w.releaseWay()
	tell()
}

// releaseWay releases what the poller owns of a way.
func (w *polled) releaseWay() {
	w.in.closeOwned()
	w.out.closeOwned()
	w.splice.closePipe()
	w.well.releaseSlab()
}
