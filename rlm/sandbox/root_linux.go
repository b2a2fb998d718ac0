package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// hostName is the host name that the program sees.
const hostName = "sandbox"

// enterRoot replaces the root folder by one with only the view, a few devices, an empty /tmp
// and, if the kernel allows, its own /proc. Only the session folder is writable.
func enterRoot(v view) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	type tree struct {
		path string
		fd   int
	}
	var trees []tree
	take := func(path string, attributes uint64) error {
		fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return fmt.Errorf("open_tree %s: %w", path, err)
		}
		err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | attributes})
		if err != nil {
			return fmt.Errorf("mount_setattr %s: %w", path, err)
		}
		trees = append(trees, tree{path, fd})
		return nil
	}
	for _, path := range v.Binds {
		attributes := uint64(unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_RDONLY)
		if path == v.Session {
			attributes = unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
		}
		if err := take(path, attributes); err != nil {
			return err
		}
	}
	for _, path := range devices {
		if err := take(path, unix.MOUNT_ATTR_NOEXEC|unix.MOUNT_ATTR_RDONLY); err != nil {
			return err
		}
	}
	// The kernel refuses another /proc if parts of the current one are covered, as in
	// containers, or if there is none. So it is made before leaving the old root.
	if fd, err := newProc(); err == nil {
		trees = append(trees, tree{"/proc", fd})
	}
	if err := turn(v.Session); err != nil {
		return err
	}
	for _, t := range trees {
		if err := place(t.fd, t.path); err != nil {
			return fmt.Errorf("show %s: %w", t.path, err)
		}
	}
	for _, l := range v.Links {
		if err := os.MkdirAll(filepath.Dir(l.Path), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(l.Target, l.Path); err != nil {
			return err
		}
	}
	if err := os.MkdirAll("/tmp", 0o755); err != nil {
		return err
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("make the root read-only: %w", err)
	}
	return nil
}

// newProc makes a /proc of the process namespace that shows only processes.
func newProc() (fd int, err error) {
	fs, err := unix.Fsopen("proc", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fs)
	if err := unix.FsconfigSetString(fs, "subset", "pid"); err != nil {
		return 0, err
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return 0, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC|unix.MOUNT_ATTR_RDONLY)
}

// turn makes an empty folder the root. It is mounted on the session folder, which certainly
// exists.
func turn(at string) error {
	if err := unix.Mount("sandbox", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m,mode=755"); err != nil {
		return fmt.Errorf("mount a tmpfs: %w", err)
	}
	if err := os.Chdir(at); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	return os.Chdir("/")
}

// place mounts a tree at the path that it has outside.
func place(fd int, path string) error {
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
	} else {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		// It exists already if it is in a folder of the view.
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o444)
		if err == nil {
			f.Close()
		} else if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return unix.MoveMount(fd, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH)
}
