package tap

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/wirectl/wirectl/capture/output"
	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// Info is what a tap says about itself, in a file beside its socket.
type Info struct {
	// Name is what it is called: tap:NAME.
	Name string `json:"name"`
	Pid  int    `json:"pid"`
	// Command is the command line of the owner.
	Command []string `json:"command,omitempty"`
	// Protocol and Framing are those that were named, if any were.
	Protocol string `json:"protocol,omitempty"`
	Framing  string `json:"framing,omitempty"`
	// Controller and Unit name the two ends.
	Controller string    `json:"controller,omitempty"`
	Unit       string    `json:"unit,omitempty"`
	Started    time.Time `json:"started"`
	// Control says that commands are served.
	Control bool `json:"control,omitempty"`
}

// base is the name without the number of the process, and what follows that.
func (i *Info) base() string {
	if at := strings.LastIndex(i.Name, fmt.Sprintf("-%d", i.Pid)); at >= 0 {
		return i.Name[:at]
	}
	return i.Name
}

const (
	describes = ".json"
	listens   = ".sock"
)

// maxDescription is the longest description of a tap, in bytes.
const maxDescription = 16 << 20

// List returns the taps of a folder, the newest first, and removes what taps
// left behind whose process has gone. A description that cannot be read is passed
// over, and skip, if not nil, is told why.
func List(dir string, skip func(error)) ([]Info, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+describes))
	if err != nil {
		return nil, err
	}
	var taps []Info
	for _, name := range names {
		info, err := describedIn(name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has just ended
		case err != nil && !silent(dir, info.Name):
			if skip != nil {
				skip(err)
			}
		case err != nil || !alive(info.Pid):
			remove(dir, info.Name)
		default:
			taps = append(taps, info)
		}
	}
	slices.SortFunc(taps, func(a, b Info) int {
		return cmp.Or(b.Started.Compare(a.Started), strings.Compare(a.Name, b.Name))
	})
	return taps, nil
}

// describedIn reads a description. Its name is known even if the rest is not.
func describedIn(file string) (info Info, err error) {
	defer func() { info.Name = strings.TrimSuffix(filepath.Base(file), describes) }()
	stat, err := os.Lstat(file)
	if err != nil {
		return info, err
	}
	if !stat.Mode().IsRegular() || stat.Size() > maxDescription { // a pipe would be waited for
		return info, fmt.Errorf("%s does not describe a tap: want a regular file of at most %d bytes", file, maxDescription)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return info, err
	}
	if err = json.Unmarshal(text, &info); err == nil && info.Pid <= 0 {
		err = fmt.Errorf("pid %d is not a process", info.Pid)
	}
	if err != nil {
		return info, fmt.Errorf("%s does not describe a tap: %w", file, err)
	}
	return info, nil
}

// silent reports whether nobody listens at the socket of a tap: its owner, which
// listens before it describes the tap, has gone.
func silent(dir, name string) bool {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: filepath.Join(dir, name+listens), Net: "unix"})
	if err != nil {
		return refused(err)
	}
	c.Close()
	return false
}

// remove removes what a tap has in its folder.
func remove(dir, name string) {
	for _, ext := range []string{describes, listens} {
		_ = os.Remove(filepath.Join(dir, name+ext))
	}
}

// describe writes the file that says what a tap is, whole or not at all.
func describe(dir string, info Info) error {
	return output.WriteFile(filepath.Join(dir, info.Name+describes), append(jsonscan.MustMarshal(info), '\n'), 0o600)
}

// A NotFoundError says that there is no tap, or none of that name.
type NotFoundError struct {
	// Name is the name that was asked for; "" is any.
	Name string
	// Running are the names that there are.
	Running []string
}

func (e *NotFoundError) Error() string {
	switch {
	case e.Name == "":
		return "nothing runs that has a tap"
	case len(e.Running) == 0:
		return fmt.Sprintf("there is no tap %q, nor any other: wirectl relay and wirectl serve open them", e.Name)
	}
	return fmt.Sprintf("there is no tap %q%s; there are: %s", e.Name, nearest.Question(e.Name, e.Running), strings.Join(e.Running, ", "))
}

// Ambiguous reports whether several taps that run begin with the name.
func (e *NotFoundError) Ambiguous() bool {
	return e.Name != "" && slices.ContainsFunc(e.Running, func(name string) bool { return strings.HasPrefix(name, e.Name) })
}

// find returns the taps of that name, or with that beginning of a name if it is
// the only one; all for "".
func find(taps []Info, name string) ([]Info, error) {
	if name == "" && len(taps) > 0 {
		return taps, nil
	}
	var names []string
	var begin []Info
	for _, t := range taps {
		if t.Name == name {
			return []Info{t}, nil
		}
		if name != "" && strings.HasPrefix(t.Name, name) {
			begin = append(begin, t)
		}
		names = append(names, t.Name)
	}
	if len(begin) == 1 {
		return begin, nil
	}
	return nil, &NotFoundError{name, names}
}

// refused reports whether nobody listens any more at a socket.
func refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}
