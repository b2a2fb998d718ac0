package hub

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/internal/fd"
)

// DefaultSpoolBytes bounds the spools of all sessions for one hub.
const DefaultSpoolBytes = 1 << 30

// Files of a spool. There are several with segments, named after the first one in them.
const (
	infoFile  = "session.json"
	stateFile = "state"
	extension = ".segments"
)

// A spool is a queue in a folder. It survives the process: its segments are sent by the
// next process that sends to the same hub.
type spool struct {
	dir   string
	state *os.File // which is locked
	info  Info
	limit int64 // of the spools for the hub together
	at    position

	others  int64     // bytes of the other spools
	counted time.Time // when
	buf     []byte    // scratch of enqueue

	mu      sync.Mutex
	parts   []*part       // oldest first; segments are added to the last
	bytes   int64         // of the parts
	newest  head          // of the last segment that was added
	taken   int64         // the number of the last segment that was taken
	reading *part         // from which it was taken
	offset  int64         // of the segment after it
	ended   bool          // the last segment was added, or nobody adds any more
	change  chan struct{} // wakes take
}

// A part is a file with segments: of each, its head and its data. A head of zeros is the end;
// what may follow it was sent long ago.
type part struct {
	*os.File
	last int64 // the number of its last segment
	size int64
}

const (
	// fewest is how many parts a full spool has at least. A part is removed as a whole.
	fewest = 32
	// maxReused is the size in bytes up to which a part is written again from its beginning,
	// which costs less than to empty it first.
	maxReused = 1 << 20
)

var headSize, stateSize = int64(binary.Size(head{})), binary.Size(position{})

func spoolIn(dir string) *spool {
	return &spool{dir: dir, limit: math.MaxInt64, change: make(chan struct{}, 1)}
}

// newSpool creates the spool of a session in the folder of a hub.
func newSpool(hubDir string, info Info, most int64) (*spool, error) {
	dir := filepath.Join(hubDir, info.Key())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s := spoolIn(dir)
	s.info, s.limit = info, most
	locked, err := s.lock()
	if err == nil && !locked {
		err = fs.ErrExist
	}
	var text []byte
	if err == nil {
		text, err = json.Marshal(info)
	}
	if err == nil {
		name := filepath.Join(dir, infoFile)
		err = errors.Join(os.WriteFile(name+"~", text, 0o600), os.Rename(name+"~", name))
	}
	if err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

// openSpool opens the spool of a process that has ended; nil if a process still uses it.
func openSpool(dir string) (_ *spool, err error) {
	if _, err := os.Stat(filepath.Join(dir, infoFile)); err != nil {
		return nil, nil //nolint:nilerr // its process has not locked it yet
	}
	s := spoolIn(dir)
	locked, err := s.lock()
	if err == nil && locked {
		err = s.load()
	}
	if err != nil || !locked {
		err = errors.Join(err, s.release())
		if errors.Is(err, fs.ErrNotExist) { // its process has just removed it
			err = nil
		}
		return nil, err
	}
	return s, nil
}

// lock opens and locks the state. It returns false if another process has locked it.
func (s *spool) lock() (locked bool, err error) {
	if s.state, err = os.OpenFile(filepath.Join(s.dir, stateFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return false, err
	}
	return fd.TryLock(s.state)
}

// load reads the folder.
func (s *spool) load() error {
	text, err := os.ReadFile(filepath.Join(s.dir, infoFile))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &s.info); err != nil {
		return fmt.Errorf("%s: %w", infoFile, err)
	}
	state := make([]byte, stateSize)
	if n, err := s.state.ReadAt(state, 0); n < len(state) && err != io.EOF {
		return err
	}
	if _, err := binary.Decode(state, binary.LittleEndian, &s.at); err != nil {
		return err
	}
	s.newest, s.taken = s.at.head, s.at.Number
	entries, err := os.ReadDir(s.dir) // sorted
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), extension) {
			err = errors.Join(err, s.loadPart(filepath.Join(s.dir, e.Name())))
		}
	}
	return err
}

// loadPart opens a part, and removes what follows its last whole segment: the process was
// killed while it wrote that.
func (s *spool) loadPart(name string) error {
	p, err := s.addPart(name, 0)
	if err != nil {
		return err
	}
	info, err := p.Stat()
	if err != nil {
		return err
	}
	for {
		h, err := p.headAt(p.size)
		end := p.size + headSize + h.Size
		if err != nil || h.Size < 0 || end > info.Size() || h.Number <= 0 || p.last > 0 && h.Number != p.last+1 {
			break
		}
		p.last, p.size = h.Number, end
		if h.Number > s.at.Number {
			s.newest = h
		} else {
			s.reading, s.offset = p, end
		}
	}
	s.bytes += p.size
	return p.Truncate(p.size)
}

// addPart opens a part.
func (s *spool) addPart(name string, flag int) (*part, error) {
	f, err := os.OpenFile(name, os.O_RDWR|flag, 0o600)
	if err != nil {
		return nil, err
	}
	p := &part{File: f}
	s.parts = append(s.parts, p)
	return p, nil
}

// headAt reads the head of a segment.
func (p *part) headAt(offset int64) (h head, err error) {
	text := make([]byte, headSize)
	if _, err := p.ReadAt(text, offset); err != nil {
		return h, err
	}
	_, err = binary.Decode(text, binary.LittleEndian, &h)
	return h, err
}

// sizeOf returns the size of the files in a folder.
func sizeOf(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // another process has removed what it has sent
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return size
}

// countEvery is how often the sizes of the spools of other processes are added up, once
// this one has more than a small part of the limit.
const countEvery = time.Second

func (s *spool) enqueue(seg segment) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := headSize + int64(len(seg.Data))
	bytes := s.bytes + size
	if bytes > s.limit/64 && time.Since(s.counted) > countEvery {
		s.others, s.counted = sizeOf(filepath.Dir(s.dir))-sizeOf(s.dir), time.Now()
	}
	if s.others+bytes > s.limit && !seg.End {
		return fmt.Errorf("the spool for the hub in %s is full", filepath.Dir(s.dir))
	}
	p, err := s.partFor(seg.Number)
	if err == nil {
		s.buf, err = binary.Append(s.buf[:0], binary.LittleEndian, seg.head)
	}
	if err != nil {
		return err
	}
	s.buf = append(append(s.buf, seg.Data...), make([]byte, headSize)...)
	if _, err := p.WriteAt(s.buf, p.size); err != nil {
		return errors.Join(err, p.Truncate(p.size)) // on a full disk, a part of it may be there
	}
	p.last, p.size = seg.Number, p.size+size
	s.newest, s.bytes = seg.head, bytes
	s.wake()
	return nil
}

// partFor returns the part to which a segment is added.
func (s *spool) partFor(number int64) (*part, error) {
	if n := len(s.parts); n > 0 && s.parts[n-1].size <= s.limit/fewest {
		return s.parts[n-1], nil
	}
	return s.addPart(filepath.Join(s.dir, fmt.Sprintf("%012d%s", number, extension)), os.O_CREATE|os.O_TRUNC)
}

func (s *spool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.wake()
}

// wake makes take look again.
func (s *spool) wake() {
	select {
	case s.change <- struct{}{}:
	default:
	}
}

func (s *spool) take(ctx context.Context, wait bool) (*segment, error) {
	for {
		seg, ended := s.read()
		switch {
		case seg != nil || !ended && !wait:
			return seg, nil
		case ended:
			return nil, io.EOF
		}
		select {
		case <-s.change:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// read returns the next segment; nil if there is none now, or if nobody adds any more.
func (s *spool) read() (seg *segment, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		if p.last <= s.taken {
			continue
		}
		if p != s.reading {
			s.reading, s.offset = p, 0
		}
		seg, err := p.segmentAt(s.offset)
		if err == nil {
			s.taken, s.offset = seg.Number, s.offset+headSize+seg.Size
			return seg, false
		}
		s.taken = p.last // readers are told of the gap
	}
	return nil, s.ended
}

// segmentAt reads a segment.
func (p *part) segmentAt(offset int64) (*segment, error) {
	h, err := p.headAt(offset)
	if err != nil {
		return nil, err
	}
	seg := &segment{head: h, Data: make([]byte, h.Size)}
	_, err = p.ReadAt(seg.Data, offset+headSize)
	seg.plain = plainSize(seg.Data)
	return seg, err
}

func (s *spool) store(at position) error {
	state, err := binary.Append(nil, binary.LittleEndian, at)
	if err == nil {
		_, err = s.state.WriteAt(state, 0)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.parts) > 1 && s.parts[0].last <= at.Number {
		p := s.parts[0]
		s.parts, s.bytes = s.parts[1:], s.bytes-p.size
		if err := errors.Join(p.Close(), os.Remove(p.Name())); err != nil {
			return err
		}
	}
	p := s.parts[0]
	if p.last > at.Number {
		return nil
	}
	large := p.size > maxReused
	p.size, s.bytes, s.offset = 0, 0, 0
	if large {
		return p.Truncate(0)
	}
	return nil
}

// release lets another process use the spool.
func (s *spool) release() error {
	if s.state == nil {
		return nil
	}
	err := fd.CloseLocked(s.state)
	for _, p := range s.parts {
		err = errors.Join(err, p.Close())
	}
	return err
}

// remove removes the spool, all of which was sent.
func (s *spool) remove() error {
	err := errors.Join(os.RemoveAll(s.dir), s.release())
	if err != nil { // Windows cannot remove open files
		return os.RemoveAll(s.dir)
	}
	return nil
}
