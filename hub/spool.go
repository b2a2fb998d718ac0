package hub

import (
	"bytes"
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

	"github.com/wirectl/wirectl/internal/lock"
)

// DefaultSpoolBytes bounds the spools of all sessions for one hub.
const DefaultSpoolBytes = 1 << 30

// Files of a spool. There is also one for each segment, named after its number.
const (
	infoFile  = "session.json"
	stateFile = "state"
	extension = ".segment"
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

	mu     sync.Mutex
	sizes  map[int64]int64 // of the files, by number
	bytes  int64
	held   map[int64]segment // segments that need not be read from their files
	first  int64             // the oldest segment
	last   int64
	ended  bool          // the last segment was added, or nobody adds any more
	change chan struct{} // wakes next
}

func spoolIn(dir string) *spool {
	return &spool{dir: dir, sizes: map[int64]int64{}, held: map[int64]segment{}, limit: math.MaxInt64, change: make(chan struct{}, 1)}
}

// newSpool creates the spool of a session in the folder of a hub.
func newSpool(hubDir string, info Info, most int64) (*spool, error) {
	dir := filepath.Join(hubDir, info.Key())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s := spoolIn(dir)
	s.info, s.first, s.limit = info, 1, most
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
		err = errors.Join(writeFile(name+"~", text), os.Rename(name+"~", name))
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
	return lock.Try(s.state)
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
	if err := binary.Read(bytes.NewReader(state), binary.LittleEndian, &s.at); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		var number int64
		name, ok := strings.CutSuffix(e.Name(), extension)
		if _, err := fmt.Sscanf(name, "%d", &number); !ok || err != nil || number <= 0 {
			continue
		}
		if info, err := e.Info(); err == nil {
			s.sizes[number] = info.Size()
		}
		if s.first == 0 || number < s.first {
			s.first = number
		}
		s.last = max(s.last, number)
	}
	if s.first == 0 {
		s.first, s.last = s.at.Number+1, s.at.Number
	}
	return nil
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

func (s *spool) path(number int64) string {
	return filepath.Join(s.dir, fmt.Sprintf("%012d%s", number, extension))
}

// writeFile writes a file of several lines. If it fails, it leaves no file.
func writeFile(name string, lines ...[]byte) error {
	err := os.WriteFile(name, bytes.Join(lines, []byte("\n")), 0o600)
	if err != nil {
		_ = os.Remove(name) // on a full disk, half a file would be in the way
	}
	return err
}

// maxHeld bounds the segments that are in memory besides their files.
const maxHeld = 16

// countEvery is how often the sizes of the spools of other processes are added up, once
// this one has more than a small part of the limit.
const countEvery = time.Second

func (s *spool) add(seg segment) error {
	size := int64(len(seg.Data))
	s.mu.Lock()
	bytes := s.bytes + size
	s.mu.Unlock()
	if bytes > s.limit/64 && time.Since(s.counted) > countEvery {
		s.others, s.counted = sizeOf(filepath.Dir(s.dir))-sizeOf(s.dir), time.Now()
	}
	full := s.others+bytes > s.limit
	if full && !seg.End {
		return fmt.Errorf("the spool for the hub in %s is full", filepath.Dir(s.dir))
	}
	head, err := json.Marshal(seg)
	if err != nil {
		return err
	}
	if err := writeFile(s.path(seg.Number), head, seg.Data); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held) < maxHeld {
		s.held[seg.Number] = seg
	}
	s.sizes[seg.Number] = size
	s.bytes += size
	s.last = seg.Number
	s.wake()
	return nil
}

func (s *spool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.wake()
}

// wake makes next look again.
func (s *spool) wake() {
	select {
	case s.change <- struct{}{}:
	default:
	}
}

func (s *spool) next(ctx context.Context, most, upTo int64) (segment, error) {
	for {
		s.mu.Lock()
		number, there, ended := s.first, s.first <= s.last, s.ended
		s.mu.Unlock()
		if there {
			seg, err := s.read(number)
			if err == nil {
				s.joinNext(&seg, most, upTo)
				return seg, nil
			}
			if err := s.done(number); err != nil { // readers are told of the gap
				return segment{}, err
			}
			continue
		}
		if ended {
			return segment{}, io.EOF
		}
		select {
		case <-s.change:
		case <-ctx.Done():
			return segment{}, context.Cause(ctx)
		}
	}
}

// joinNext adds the segments that follow.
func (s *spool) joinNext(seg *segment, most, upTo int64) {
	for n := 1; n < maxJoined && seg.Number != upTo; n++ {
		s.mu.Lock()
		number := seg.Number + 1
		size, there := s.sizes[number]
		s.mu.Unlock()
		if !there || upTo == 0 && int64(len(seg.Data))+size > most {
			return
		}
		next, err := s.read(number)
		if err != nil {
			return // next reports it
		}
		seg.join(&next)
	}
}

func (s *spool) read(number int64) (seg segment, err error) {
	s.mu.Lock()
	seg, ok := s.held[number]
	s.mu.Unlock()
	if ok {
		return seg, nil
	}
	text, err := os.ReadFile(s.path(number))
	if err != nil {
		return seg, err
	}
	head, data, _ := bytes.Cut(text, []byte("\n"))
	if err := json.Unmarshal(head, &seg); err != nil {
		return seg, err
	}
	if seg.Data = data; len(data) != seg.Size || seg.Number != number {
		return seg, fmt.Errorf("%s has %d bytes: want %d", s.path(number), len(data), seg.Size)
	}
	return seg, nil
}

func (s *spool) sent() position { return s.at }

var stateSize = binary.Size(position{})

func (s *spool) setSent(at position) error {
	s.at = at
	state, err := binary.Append(nil, binary.LittleEndian, at)
	if err == nil {
		_, err = s.state.WriteAt(state, 0)
	}
	return err
}

func (s *spool) done(number int64) error {
	for {
		s.mu.Lock()
		first := s.first
		if first > number {
			s.mu.Unlock()
			return nil
		}
		s.bytes -= s.sizes[first]
		delete(s.sizes, first)
		delete(s.held, first)
		s.first++
		s.mu.Unlock()
		if err := os.Remove(s.path(first)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
}

// release lets another process use the spool.
func (s *spool) release() error {
	if s.state == nil {
		return nil
	}
	return s.state.Close()
}

// remove removes the spool, all of which was sent.
func (s *spool) remove() error {
	err := errors.Join(os.RemoveAll(s.dir), s.release())
	if err != nil { // Windows cannot remove open files
		return os.RemoveAll(s.dir)
	}
	return nil
}
