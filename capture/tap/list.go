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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/wirectl/wirectl/capture/output"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/nearest"
)

// Info describes a tap. It is stored in a file beside the tap's socket.
type Info struct {
	// Name is the NAME in tap:NAME.
	Name string `json:"name"`
	Pid  int    `json:"pid"`
	// Command is the command line of the owner.
	Command []string `json:"command,omitempty"`
	// Protocol and Framing are set if they were given explicitly.
	Protocol string `json:"protocol,omitempty"`
	Framing  string `json:"framing,omitempty"`
	// Controller and Unit name the two ends.
	Controller string    `json:"controller,omitempty"`
	Unit       string    `json:"unit,omitempty"`
	Started    time.Time `json:"started"`
	// Control means that the tap accepts commands.
	Control bool `json:"control,omitempty"`
}

// base returns the name up to the process id.
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

// List returns the taps of a folder, the newest first. It removes stale files of taps whose
// process has gone. It skips unreadable descriptions, and calls skip, if not nil, with the
// reason.
func List(dir string, skip func(error)) ([]Info, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+describes))
	if err != nil {
		return nil, err
	}
	var taps []Info
	for _, name := range names {
		info, err := describedIn(name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // the tap has just ended
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

// describedIn reads a description. It sets Name even if the rest cannot be read.
func describedIn(file string) (info Info, err error) {
	defer func() { info.Name = strings.TrimSuffix(filepath.Base(file), describes) }()
	stat, err := os.Lstat(file)
	if err != nil {
		return info, err
	}
	if !stat.Mode().IsRegular() || stat.Size() > maxDescription { // reading a pipe would block
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

// silent reports whether nobody listens at the socket of a tap. Owners listen before they
// write the description, so the owner has gone.
func silent(dir, name string) bool {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: filepath.Join(dir, name+listens), Net: "unix"})
	if err != nil {
		return refused(err)
	}
	c.Close()
	return false
}

// remove removes the files of a tap.
func remove(dir, name string) {
	for _, ext := range []string{describes, listens} {
		_ = os.Remove(filepath.Join(dir, name+ext))
	}
}

// describe atomically writes the description of a tap.
func describe(dir string, info Info) error {
	return output.WriteFile(filepath.Join(dir, info.Name+describes), append(jsonscan.MustMarshal(info), '\n'), 0o600)
}

// A NotFoundError reports that no tap exists, or none with that name.
type NotFoundError struct {
	// Name is the requested name; "" means any.
	Name string
	// Running lists the names of existing taps.
	Running []string
}

func (e *NotFoundError) Error() string {
	switch {
	case e.Name == "":
		return "no relay or broker with a tap is running"
	case len(e.Running) == 0:
		return fmt.Sprintf("no tap %q, and no other: wirectl relay and wirectl serve open taps", e.Name)
	}
	return fmt.Sprintf("there is no tap %q%s; there are: %s", e.Name, nearest.Question(e.Name, e.Running), strings.Join(e.Running, ", "))
}

// Ambiguous reports whether several running taps have the name as a prefix.
func (e *NotFoundError) Ambiguous() bool {
	return e.Name != "" && slices.ContainsFunc(e.Running, func(name string) bool { return strings.HasPrefix(name, e.Name) })
}

// find returns the tap with that name, or with that prefix if it is unique; all taps for "".
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

// refused reports whether an error means that nobody listens at a socket.
func refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}

// Dir returns the folder of this user's taps, creating it if necessary. It is wirectl in
// $XDG_RUNTIME_DIR, or else a folder per user in the temporary folder. A folder that others
// may enter is rejected.
func Dir(getenv func(string) string) (string, error) {
	if err := checkPlatform(); err != nil {
		return "", err
	}
	dir := filepath.Join(os.TempDir(), "wirectl-"+strconv.Itoa(os.Getuid()))
	if base := getenv("XDG_RUNTIME_DIR"); base != "" {
		dir = filepath.Join(base, "wirectl")
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return "", err
	}
	info, err := os.Lstat(dir) // a link might point anywhere
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s is not a folder", dir)
	}
	return dir, checkOwner(dir, info)
}
