package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/store"
)

// A Project is the folder whose sessions are shown.
type Project struct {
	Folder string
	// Alone leaves out the folders below it.
	Alone bool
}

// ProjectOf returns the project of a folder: the nearest folder with .git above it, unless exact is set. The
// home folder and those above it have no projects below them, because these would be all of a user's.
func ProjectOf(folder, home string, exact bool) (Project, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return Project{}, err
	}
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return Project{}, cmp.Or(err, fmt.Errorf("%s is not a folder", folder))
	}
	folder, home = real(folder), real(home)
	for at := folder; !exact && !isWithin(home, at); at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			folder = at
			break
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	return Project{folder, isWithin(home, folder)}, nil
}

// real returns a folder without links, as far as it exists.
func real(folder string) string {
	if folder == "" {
		return ""
	}
	if path, err := filepath.EvalSymlinks(folder); err == nil {
		return path
	}
	return filepath.Clean(folder)
}

// isWithin reports whether a folder is another one or below it. Nothing is within or around "".
func isWithin(folder, of string) bool {
	if folder == "" || of == "" {
		return false
	}
	rel, err := filepath.Rel(of, folder)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// Has reports whether a session in a folder belongs to the project.
func (p Project) Has(folder string) bool {
	if !filepath.IsAbs(folder) {
		return false
	}
	folder = real(folder)
	return isWithin(folder, p.Folder) && (!p.Alone || isWithin(p.Folder, folder))
}

// list returns the sessions that may be shown, the newest first.
func (s *Server) list(ctx context.Context, counted bool) ([]store.Kept, error) {
	o := &s.options
	list, err := store.ListHere(ctx, o.Getenv, store.KeptQuery{
		Recorded: !o.Transcripts, Folder: o.Project.Has, Uncounted: !counted, Unread: func(error) {},
	})
	return slices.DeleteFunc(list, func(k store.Kept) bool { return k.Own }), err
}

const plainly = "a session is named by an id that the tool sessions lists, such as run:0c54d2, or by latest; files, URLs, taps and hubs are not read here"

// sessionOf returns the session of an id: "" and latest are the newest one.
func (s *Server) sessionOf(ctx context.Context, id string) (*store.Kept, error) {
	if isPath := strings.ContainsAny(id, `/\ `) || strings.HasPrefix(id, "-") || slices.ContainsFunc([]string{"hub:", "tap:", "fixture:", "http:", "https:"}, func(p string) bool { return strings.HasPrefix(id, p) }); isPath || len(id) > maxText {
		return nil, errors.New(plainly)
	}
	list, err := s.list(ctx, false)
	if err != nil {
		return nil, errors.New("the records cannot be listed")
	}
	kind, newest := "", id == "" || id == "latest"
	if before, ok := strings.CutSuffix(id, ":latest"); ok {
		kind, newest = before+":", true
	}
	var found []*store.Kept
	for i := range list {
		switch k := &list[i]; {
		case k.ID == id, newest && strings.HasPrefix(k.ID, kind):
			return k, nil
		case !newest && len(id) >= leastID && strings.HasPrefix(k.ID, id):
			found = append(found, k)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("the ids of %d sessions begin with %q", len(found), id)
	case len(list) == 0:
		return nil, errors.New("nothing was recorded of this project yet: wirectl run AGENT, or wirectl wrap --record, records sessions")
	}
	return nil, fmt.Errorf("no session of this project has the id %q: %s", id, plainly)
}

// leastID is the length of the shortest beginning of an id that stands for it.
const leastID = 4
