package relay

import (
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// An aside is a loop on another thread that has taken the way to the controller off
// a poller. It does so while much passes both ways and somebody looks on: the two
// copies for the observer take more time than all else. A message alone does better
// with one thread, so the way goes back when less comes.
type aside struct {
	over *os.File // an eventfd: readable when it has gone back
	done chan struct{}
}

// share has another thread take a way, if that is worth it.
func (l *loop) share() {
	toUnit, toController := l.ways[0], l.ways[1]
	if l.relay.queue == nil || l.aside != nil || !toUnit.splice.on || !toController.splice.on || runtime.GOMAXPROCS(0) == 1 {
		return
	}
	if pollers.Add(1) > maxPollers {
		pollers.Add(-1)
		return
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		pollers.Add(-1)
		return
	}
	l.aside = &aside{over: os.NewFile(uintptr(fd), "eventfd"), done: make(chan struct{})}
	l.ways[1] = nil
	go l.aside.run(&loop{poller: l.poller, ways: [2]*polled{nil, toController}, busy: time.Now()})
}

// run moves a way until it has ended or carries little.
func (a *aside) run(l *loop) {
	defer pollers.Add(-1)
	w := l.ways[1]
	for l.wait() {
		l.moveAll()
		now := time.Now()
		if w.splice.on {
			l.busy = now
		} else if w.waiting() == 0 && now.Sub(l.busy) > pace {
			break
		}
	}
	close(a.done)
	_, _ = a.over.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0})
}

// pollFd is what tells that the way has come back; nothing if it was not taken.
func (a *aside) pollFd() unix.PollFd {
	if a == nil {
		return unix.PollFd{Fd: -1}
	}
	return unix.PollFd{Fd: int32(a.over.Fd()), Events: unix.POLLIN}
}

// join takes back the way that is aside, as soon as that is over.
func (l *loop) join() {
	if l.aside == nil {
		return
	}
	<-l.aside.done
	l.aside.over.Close()
	l.aside, l.ways[1] = nil, &l.poller.ways[1]
}
