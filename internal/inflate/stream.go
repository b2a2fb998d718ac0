package inflate

import (
	"errors"
	"io"
	"iter"
	"runtime"
)

// A Stream decompresses bytes as they arrive: what a sender has flushed can be read at once.
// One goroutine uses it, and must close it.
type Stream struct {
	in   *arrived
	next func() ([]byte, error, bool)
	stop func()
	err  error // at its end
}

// Begin returns a stream with a compression, which is one of [Known].
func Begin(name string) *Stream {
	in := &arrived{}
	s := &Stream{in: in}
	s.next, s.stop = iter.Pull2(in.undo(name))
	runtime.AddCleanup(s, func(stop func()) { stop() }, s.stop) // for a stream that nobody closes
	return s
}

// Add adds the next bytes. The stream uses them until Next has returned nothing, or an
// error.
func (s *Stream) Add(data []byte) { s.in.data = data }

// Left returns how many bytes the stream has not read yet. It reads no more than it needs
// for Next.
func (s *Stream) Left() int { return len(s.in.data) }

// EndInput says that no more bytes follow.
func (s *Stream) EndInput() { s.in.ended = true }

// Next returns the next decompressed bytes, valid until the next call; nothing if more bytes
// have to be added. The error at the end is io.EOF, even if End came too early.
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

// Close frees the stream.
func (s *Stream) Close() { s.stop() }

// arrived is the input of a stream. The decoder reads, while the input is written, so the
// decoder runs in an iterator, which yields nothing when it needs more input.
type arrived struct {
	data   []byte
	ended  bool
	closed bool
	yield  func([]byte, error) bool
}

// size bounds the bytes that Next returns.
const size = 32 << 10

// excessive is an error of the reader of brotli at the end, if bytes follow, and sometimes
// also if none do, because it has read the last ones one by one.
const excessive = "brotli: excessive input"

var errClosed = errors.New("the stream was closed")

// undo yields the decompressed input, and then the error at the end.
func (a *arrived) undo(name string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		a.yield = yield
		r, err := Open(name, a)
		if err == nil {
			defer r.Close()
			err = a.pass(r)
		}
		if !a.closed {
			yield(nil, err)
		}
	}
}

// pass yields all of r.
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

// Read reads one byte: a decoder would read ahead if it got more.
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
