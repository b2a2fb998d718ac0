package recording

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/output"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A Writer writes a recording. It drops properties that the format cannot store: when a frame
// was written, where its payload lies, and whether it is a gap.
type Writer struct {
	dir     string
	session capture.Session
	conns   map[int]*folder
	open    int // connections whose files are open
}

// maxOpen bounds the connections whose files are open at once.
const maxOpen = 64

// folder is the folder of one connection.
type folder struct {
	path    string
	files   map[string]*file // open files, by name
	sizes   [3]int64         // of the streams, by direction
	base    time.Time        // time at t_ns 0
	now     time.Duration    // since base
	started bool
}

type file struct {
	*bufio.Writer
	f *os.File
}

// Create begins a recording of a session in the folder dir, which must be empty or not exist.
// It stores only two properties of the session: Redacted and Altered.
func Create(dir string, s capture.Session) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("%s is not empty", dir)
	}
	return &Writer{dir: dir, session: s, conns: map[int]*folder{}}, nil
}

// Write writes one record. A frame of unknown direction is an error, because there is no file
// for it.
func (w *Writer) Write(r *capture.Record) error {
	if r.Kind == capture.Frame && r.Dir == frame.DirUnknown {
		return fmt.Errorf("frame %d: a recording has a file for each direction, and this frame has none", r.Seq)
	}
	c, err := w.conn(max(r.Conn, 1))
	if err != nil {
		return err
	}
	if err := c.setClock(r, &w.session); err != nil {
		return err
	}
	switch r.Kind {
	case capture.Frame:
		return c.appendRead(r.Dir, r.Raw)
	case capture.Stderr:
		return c.appendRead(frame.DirUnknown, r.Text)
	case capture.Opened:
		return nil
	}
	return c.event(r)
}

// Close flushes and closes the files.
func (w *Writer) Close() error {
	var errs []error
	for _, c := range w.conns {
		errs = append(errs, c.closeFiles())
	}
	w.open = 0
	return errors.Join(errs...)
}

// conn returns the folder of a connection, ready to open files in it. If too many folders
// have open files, it closes them.
func (w *Writer) conn(number int) (*folder, error) {
	c := w.conns[number]
	if c == nil {
		c = &folder{path: w.dir}
		if number > 1 {
			c.path = filepath.Join(w.dir, connPrefix+strconv.Itoa(number))
		}
		if err := os.MkdirAll(c.path, 0o700); err != nil {
			return nil, err
		}
		w.conns[number] = c
	}
	if c.files != nil {
		return c, nil
	}
	if w.open == maxOpen {
		if err := w.Close(); err != nil {
			return nil, err
		}
	}
	w.open++
	c.files = map[string]*file{}
	return c, nil
}

func (c *folder) closeFiles() error {
	var errs []error
	for _, f := range c.files {
		errs = append(errs, f.Flush(), f.f.Close())
	}
	c.files = nil
	return errors.Join(errs...)
}

// file returns the file with that name, open for appending.
func (c *folder) file(name string) (*file, error) {
	if f := c.files[name]; f != nil {
		return f, nil
	}
	f, err := output.Append(filepath.Join(c.path, name))
	if err != nil {
		return nil, err
	}
	c.files[name] = &file{bufio.NewWriter(f), f}
	return c.files[name], nil
}

// setClock sets the clock to the time of a record. The first record begins the connection,
// even if it is not an Opened record.
func (c *folder) setClock(r *capture.Record, s *capture.Session) error {
	if c.base.IsZero() {
		c.base = r.Time
	}
	if !r.Time.IsZero() {
		c.now = r.Time.Sub(c.base)
	}
	if c.started {
		return nil
	}
	c.started = true
	for _, d := range []frame.Dir{frame.C2U, frame.U2C} {
		if _, err := c.file(streams[d].file); err != nil {
			return err
		}
	}
	members := map[string]any{"event": eventStart}
	if !c.base.IsZero() {
		members["unix_ns"] = c.base.UnixNano()
	}
	if r.Kind == capture.Opened && len(r.Text) > 0 {
		members["dial"] = string(r.Text)
	}
	if s.Redacted {
		members["redacted"] = true
	}
	if s.Altered {
		members["altered"] = true
	}
	return c.line(members)
}

// appendRead appends the bytes of one read to a stream.
func (c *folder) appendRead(d frame.Dir, data []byte) error {
	f, err := c.file(streams[d].file)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	members := map[string]any{"dir": streams[d].name, "off": c.sizes[d], "len": len(data)}
	c.sizes[d] += int64(len(data))
	return c.line(members)
}

func (c *folder) event(r *capture.Record) error {
	switch r.Kind {
	case capture.HalfClosed:
		return c.line(map[string]any{"event": eventEOF, "dir": streams[r.Dir].name, "off": c.sizes[r.Dir], "err": "EOF"})
	case capture.Exited:
		return c.exit(r, map[string]any{"code": r.Status, "state": fmt.Sprintf("exit status %d", r.Status), "text": string(r.Text)})
	case capture.Signalled:
		return c.exit(r, map[string]any{"code": -1, "signal": r.Status, "state": killed + string(r.Text)})
	}
	return c.line(map[string]any{"event": eventNote, "text": string(r.Text)})
}

// exit appends a line that says how the process ended.
func (c *folder) exit(r *capture.Record, members map[string]any) error {
	members["event"] = eventExit
	if r.Dir == frame.C2U {
		members["dir"] = streams[r.Dir].name
	}
	return c.line(members)
}

// line appends a line to the timing file.
func (c *folder) line(members map[string]any) error {
	f, err := c.file(timingFile)
	if err != nil {
		return err
	}
	members["t_ns"] = c.now.Nanoseconds()
	_, err = f.Write(append(jsonscan.MustMarshal(members), '\n')) // cannot fail for these types
	return err
}
