package wrap

import (
	"os"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/render"
)

// A Server is one that a configuration names.
type Server struct {
	// Name is what Wrap takes. That of a server that is only for one project begins with
	// the project, and a colon.
	Name    string
	Project string
	// Remote says that it is reached over HTTP.
	Remote bool
	// NoCommand says that it is neither started nor reached: it may be a
	// part of the client.
	NoCommand bool
	// Wrapped says that it runs through wirectl, and Record what of its sessions is
	// recorded: "" is nothing.
	Wrapped bool
	Record  string
}

// Short is the name without the project.
func (s Server) Short() string {
	if s.Project == "" {
		return s.Name
	}
	return strings.TrimPrefix(s.Name, s.Project+":")
}

// Servers returns the servers of a configuration, each once and in their order:
// of one that is broken, those before that place, with the error.
func (f Format) Servers(config []byte) ([]Server, error) {
	all, err := f.read(config)
	var list []Server
	for _, e := range all {
		if slices.ContainsFunc(list, func(s Server) bool { return s.Name == e.full() }) {
			continue
		}
		s := Server{Name: e.full(), Project: e.project}
		if e.command.span == (span{}) {
			s.Remote, s.NoCommand = e.remote, !e.remote && err == nil
		}
		if at := e.wrapped(); at >= 0 && e.fault() == nil {
			s.Wrapped, s.Record = true, e.recorded(at)
		}
		list = append(list, s)
	}
	return list, err
}

// recorded is the level in the arguments of a relay, which end at that place.
func (e *entry) recorded(at int) string {
	for _, v := range e.args[:at] {
		if level, ok := strings.CutPrefix(v.text, "--record="); ok {
			return level
		}
	}
	return ""
}

// Completable returns the servers of a configuration file that a shell can complete: none
// if the file cannot be read, and of one that is broken, those before that place.
func Completable(file string) []Server {
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	config, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	list, _ := FormatOf(file).Servers(config)
	// What the scripts of shells would take for something else is left out.
	return slices.DeleteFunc(list, func(s Server) bool { return s.Name != render.Safe(s.Name) || strings.HasPrefix(s.Name, ":") })
}
