package recording

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
)

// A Reader reads a recording; see [capture.Reader]. The time of a frame is the time of the
// read that completed it. Bytes outside frames are returned as gaps, so that nothing of the
// streams is lost. Without a timing file there are no times, and the frames of the controller
// come before those of the unit.
type Reader struct {
	session capture.Session
	conns   []*conn
	last    *conn // whose record was returned last
	seq     int64
	err     error
}

// Open opens the recording in the folder fsys. All its streams have the same framing. The
// scanner of each stream skips faults; setup, which may be nil, adjusts it.
func Open(fsys fs.FS, framing frame.Framing, setup func(*frame.Scanner)) (*Reader, error) {
	return open(fsys, capture.Session{Framing: framing.Name()}, func(c *conn) {
		c.framing = framing.Name()
		for _, d := range []frame.Dir{frame.C2U, frame.U2C} {
			s := frame.NewScanner(c.streams[d].file, framing)
			s.Resync()
			if setup != nil {
				setup(s)
			}
			c.streams[d].scanner = s
		}
	})
}

// OpenCarried opens a recording of streams in which a carrier wraps the frames. Both
// directions are fed to the carrier in the order of the timing file.
func OpenCarried(fsys fs.FS, o carrier.Options) (*Reader, error) {
	return open(fsys, capture.Session{}, func(c *conn) { c.carrier = carrier.New(o) })
}

func open(fsys fs.FS, session capture.Session, setup func(*conn)) (*Reader, error) {
	r := &Reader{session: session}
	numbers, err := connections(fsys)
	if err != nil {
		return nil, err
	}
	for _, n := range numbers {
		c, err := openConn(fsys, n, setup)
		if err != nil {
			r.Close()
			return nil, err
		}
		r.conns = append(r.conns, c)
	}
	return r, r.readSession()
}

// readSession reads the properties of the session from the first connection.
func (r *Reader) readSession() error {
	for _, c := range r.conns {
		if err := c.advance(); err != nil {
			r.Close()
			return err
		}
		r.session.Redacted = r.session.Redacted || c.redacted
		r.session.Altered = r.session.Altered || c.altered
	}
	first := r.conns[0]
	r.session.Created, r.session.Unit = first.base, first.unit
	return nil
}

// connections returns the numbers of the connections in a folder, in order.
func connections(fsys fs.FS) ([]int, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, e := range entries {
		if e.Name() == streams[frame.C2U].file || e.Name() == streams[frame.U2C].file {
			numbers = append(numbers, 1)
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(e.Name(), connPrefix)); err == nil && n > 1 && e.IsDir() {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) == 0 {
		return nil, fmt.Errorf("there is neither c2s.bin nor s2c.bin: %w", fs.ErrNotExist)
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), nil
}

// Session describes the recording: what was started or dialled, when, and whether it was
// redacted or altered.
func (r *Reader) Session() *capture.Session { return &r.session }

// Next reads the next record of any connection, in order of time; see [capture.Reader].
func (r *Reader) Next(rec *capture.Record) error {
	if r.last != nil && r.err == nil {
		r.err = r.last.advance()
	}
	if r.last = r.earliest(); r.last == nil && r.err == nil {
		r.err = io.EOF
	}
	if r.err != nil {
		*rec = capture.Record{}
		return r.err
	}
	*rec = r.last.rec
	if rec.Kind == capture.Frame && !rec.Gap {
		r.seq++
		rec.Seq = r.seq
	}
	return nil
}

// earliest returns the connection with the earliest next record.
func (r *Reader) earliest() (first *conn) {
	for _, c := range r.conns {
		if !c.done && (first == nil || c.rec.Time.Before(first.rec.Time)) {
			first = c
		}
	}
	return first
}

// Close closes the files.
func (r *Reader) Close() error {
	var errs []error
	for _, c := range r.conns {
		errs = append(errs, c.closeFiles())
	}
	return errors.Join(errs...)
}
