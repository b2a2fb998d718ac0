package wrap

import (
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/render"
)

// A Server is a server in a configuration.
type Server struct {
	// Name is the name for Wrap. The name of a server for one project begins with the
	// project and a colon.
	Name    string
	Project string
	// Remote means that it is reached over HTTP.
	Remote bool
	// NoCommand means that it has neither a command nor an address: it may be a part of
	// the client.
	NoCommand bool
	// Wrapped means that it runs through wirectl. Record is the level of recording; ""
	// records nothing.
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

// Servers returns the servers of a configuration, each once and in order. If it is invalid,
// it returns those before the error.
func (f Format) Servers(config []byte) ([]Server, error) {
	all, err := f.read(config)
	var list []Server
	for _, e := range all {
		if slices.ContainsFunc(list, func(s Server) bool { return s.Name == e.full() }) {
			continue
		}
		s := Server{Name: e.full(), Project: e.project}
		if e.command.span == (span{}) {
			s.Remote, s.NoCommand = e.remote, !e.remote && e.problem == nil && err == nil
		}
		if at := e.wrapped(); at >= 0 && e.fault() == nil {
			s.Wrapped, s.Record = true, e.recorded(at)
		}
		list = append(list, s)
	}
	return list, err
}

// recorded returns the level in the first arguments, which are those of a relay.
func (e *entry) recorded(at int) string {
	for _, v := range e.args[:at] {
		if level, ok := strings.CutPrefix(v.text, "--record="); ok {
			return level
		}
	}
	return ""
}

// Completable returns the servers of a configuration file for shell completion: none if the
// file cannot be read, and those before the error if it is invalid.
func Completable(file string) []Server {
	config, err := readFile(file)
	if err != nil {
		return nil
	}
	list, _ := FormatOf(file).Servers(config)
	// Completion scripts would misinterpret these names.
	return slices.DeleteFunc(list, func(s Server) bool { return s.Name != render.Safe(s.Name) || strings.HasPrefix(s.Name, ":") })
}
