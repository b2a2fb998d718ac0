package inflate

import (
	"errors"
	"io"
	"iter"
	"runtime"
)

// A Stream undoes a compression as the bytes come in: what a sender has flushed is
// there at once. It has one owner, who has to close it.
type Stream struct {
	in   *arrived
	next func() ([]byte, error, bool)
	stop func()
	err  error // what has ended it
}

// Begin begins to undo a compression, which is one of [Known].
func Begin(name string) *Stream {
	in := &arrived{}
	s := &Stream{in: in}
	s.next, s.stop = iter.Pull2(in.undo(name))
	runtime.AddCleanup(s, func(stop func()) { stop() }, s.stop) // where a reader is given up, and not ended
	return s
}

// Add takes in the bytes that follow. They are used until Next has returned
// nothing, or an error.
func (s *Stream) Add(data []byte) { s.in.data = data }

// Left is how many of the bytes it has not read yet. It reads no more than it takes
// to know what Next has returned.
func (s *Stream) Left() int { return len(s.in.data) }

// End takes in that no more bytes follow.
func (s *Stream) End() { s.in.ended = true }

// Next returns what follows without the compression, valid until the next call.
// Without more bytes it is nothing. The error at the end is io.EOF, also where End
// came before all was there.
func (s *Stream) Next() ([]byte, error) {
	if s.err != nil {
		return nil, s.err
	}
	data, err, ok := s.next()
	if !ok || s.in.ended && err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	s.err = err
	return data, err
}

// Close frees what the stream takes.
func (s *Stream) Close() { s.stop() }

// arrived is what a stream reads. A decoder wants to read, and its input is written:
// so it runs as an iterator, which gives nothing where the input is at its end.
type arrived struct {
	data   []byte
	ended  bool
	closed bool
	yield  func([]byte, error) bool
}

// size is that of the pieces that a stream gives out, in bytes.
const size = 32 << 10

// excessive is what the reader of brotli says at the end where bytes follow, and at
// times where none do, if it has read the last ones one by one.
const excessive = "brotli: excessive input"

var errClosed = errors.New("the stream was closed")

// undo gives out what the input holds, and last the error that ended it.
func (a *arrived) undo(name string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		a.yield = yield
		r, err := open(name, a, streamWindow)
		if err == nil {
			defer r.Close()
			err = a.pass(r)
		}
		if !a.closed {
			yield(nil, err)
		}
	}
}

// pass gives out all of r.
func (a *arrived) pass(r io.Reader) error {
	buf := make([]byte, size)
	for {
		n, err := r.Read(buf)
		if n > 0 && !a.closed {
			a.closed = !a.yield(buf[:n], nil)
		}
		switch {
		case err != nil && err.Error() == excessive:
			return io.EOF
		case err != nil || a.closed:
			return err
		}
	}
}

// Read reads a byte: a reader that is given more may take it ahead of time.
func (a *arrived) Read(p []byte) (n int, err error) {
	if len(p) > 0 {
		if p[0], err = a.ReadByte(); err == nil {
			n = 1
		}
	}
	return n, err
}

// ReadByte waits for a byte.
func (a *arrived) ReadByte() (byte, error) {
	for len(a.data) == 0 {
		switch {
		case a.ended:
			return 0, io.EOF
		case a.closed:
			return 0, errClosed
		}
		a.closed = !a.yield(nil, nil)
	}
	b := a.data[0]
	a.data = a.data[1:]
	return b, nil
}
