package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/rlm/env"
)

// libraries are what a program may need besides its installation: the shared libraries of the
// system, their index, alternatives, and the time zones.
var libraries = []string{
	"/lib", "/lib32", "/lib64", "/libx32", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32",
	"/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/usr/share/zoneinfo",
}

// stores are folders in which every library has its own folder.
var stores = []string{"/nix/store", "/gnu/store"}

// devices are the devices that a program sees.
var devices = []string{"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"}

// A view is the part of the file system that a program sees, with the paths that it has
// outside.
type view struct {
	Session string   // the session folder
	Binds   []string // visible files and folders, including the session folder; outer ones first
	Links   []link   // symbolic links on the way to Binds
}

type link struct{ Path, Target string }

// see returns the view that a program needs. A path that does not exist is left out.
func see(s env.Spec) view {
	v := view{}
	v.Session = v.addPath(s.Dir)
	program := v.addPath(s.Path)
	for _, path := range slices.Concat(libraries, s.Read) {
		v.addPath(path)
	}
	for _, store := range stores {
		if strings.HasPrefix(program, store+"/") {
			v.addPath(store)
		}
	}
	slices.Sort(v.Binds)
	v.Binds = slices.Compact(v.Binds)
	var shown []string
	for _, b := range v.Binds {
		// A path in the session folder is bound again, so that it is read-only.
		if by := covering(shown, b); by == "" || by == v.Session || b == v.Session {
			shown = append(shown, b)
		}
	}
	v.Binds = shown
	v.Links = slices.DeleteFunc(v.Links, func(l link) bool { return covering(shown, l.Path) != "" })
	return v
}

// covering returns the innermost of the folders that contains path.
func covering(folders []string, path string) string {
	found := ""
	for _, f := range folders {
		if strings.HasPrefix(path, strings.TrimSuffix(f, "/")+"/") && len(f) > len(found) {
			found = f
		}
	}
	return found
}

// addPath follows a path from the root, notes the symbolic links on the way and returns its
// target; "" if that does not exist.
func (v *view) addPath(path string) string {
	const maxLinks = 40 // as in the kernel
	at, links := "/", 0
	rest := strings.Split(filepath.Clean(path), "/")
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		target, err := os.Readlink(next)
		if err != nil {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return ""
		}
		if l := (link{next, target}); !slices.Contains(v.Links, l) {
			v.Links = append(v.Links, l)
		}
		rest = append(strings.Split(target, "/"), rest...)
		if filepath.IsAbs(target) {
			at = "/"
		}
	}
	if _, err := os.Stat(at); err != nil || at == "/" {
		return ""
	}
	v.Binds = append(v.Binds, at)
	return at
}
