package store

import (
	"time"

	"github.com/wirectl/wirectl/frame"
)

// An entry is a frame in the index. It has a fixed size and no pointers.
type entry struct {
	time   int64  // stamp: nanoseconds, or the number of the frame
	at     int64  // the position of its bytes in the keeper or in the capture; -1 if they are gone
	offset int64  // in its stream
	wrote  uint32 // microseconds from read to written, plus one; 0 is unknown
	raw    uint32 // bytes of the whole frame
	size   uint32 // bytes of the payload, or of a gap
	start  uint32 // of the payload
	end    uint32
	of     uint32 // mark of its exchange
	conn   uint32
	before uint32 // the distance to the previous frame of its exchange; 0 means none
	kind   uint16
	wire   uint8
	flags  flags
}

type flags uint8

const (
	dirs       flags = 3 // a frame.Dir
	gap        flags = 1 << 2
	compressed flags = 1 << 3
	bad        flags = 1 << 4 // no message
	finding    flags = 1 << 5 // a rule was broken by it
	bookmark   flags = 1 << 6
	placed     flags = 1 << 7 // its bytes are read from the capture again
)

func (e *entry) dir() frame.Dir { return frame.Dir(e.flags & dirs) }

// written returns when a frame was written that was read at a time.
func (e *entry) written(read time.Time) time.Time {
	if e.wrote == 0 || read.IsZero() {
		return time.Time{}
	}
	return read.Add(time.Duration(e.wrote-1) * time.Microsecond)
}

// chunk is how many entries are allocated, and dropped, at once.
const chunk = 1 << 12

// frames is the index: entries of consecutive numbers.
type frames struct {
	chunks  []*[chunk]entry
	first   int64 // the number of the first entry
	n       int64 // entries
	limit   int
	total   int64
	dropped int64
}

// addFrame makes room for the frame of that number, which must follow the last one.
func (f *frames) addFrame(seq int64) *entry {
	if f.n == 0 {
		f.first = seq
	}
	if f.n == int64(len(f.chunks))*chunk {
		if f.n >= int64(f.limit) && len(f.chunks) > 1 {
			old := f.chunks[0]
			f.chunks = append(f.chunks[1:], old)
			f.first, f.n, f.dropped = f.first+chunk, f.n-chunk, f.dropped+chunk
		} else {
			f.chunks = append(f.chunks, new([chunk]entry))
		}
	}
	e := &f.chunks[f.n/chunk][f.n%chunk]
	f.n++
	f.total++
	return e
}

// at returns the entry of a frame; nil if there is none.
func (f *frames) at(seq int64) *entry {
	i := seq - f.first
	if i < 0 || i >= f.n {
		return nil
	}
	return &f.chunks[i/chunk][i%chunk]
}

// nextSeq is the number of the next frame.
func (f *frames) nextSeq() int64 { return f.first + f.n }

// names assign small numbers to kinds.
type names struct {
	list   []string
	number map[string]uint16
	recent [64]uint16 // a cache by a cheap hash of the name
}

func newNames() names { return names{list: []string{""}, number: map[string]uint16{"": 0}} }

const (
	maxNames   = 4096
	otherNames = "(other kinds)"
)

// of returns the number of a name.
func (n *names) of(name []byte) uint16 {
	if len(name) == 0 {
		return 0
	}
	recent := &n.recent[(len(name)*7+int(name[0])+int(name[len(name)-1])*31)%len(n.recent)]
	if n.list[*recent] != string(name) {
		*recent = n.numberOf(name)
	}
	return *recent
}

// numberOf returns the number of a name, and assigns one to a new name.
func (n *names) numberOf(name []byte) uint16 {
	i, ok := n.number[string(name)]
	if ok {
		return i
	}
	key := string(name[:min(len(name), 200)])
	if len(n.list) >= maxNames {
		key = otherNames
	}
	if i, ok = n.number[key]; !ok {
		i = uint16(len(n.list))
		n.list = append(n.list, key)
		n.number[key] = i
	}
	return i
}
