package wrap

import "slices"

// A Server is one that a configuration names.
type Server struct {
	Name string
	// Wrapped says that it runs through wirectl.
	Wrapped bool
}

// Servers returns the servers of a configuration, each once and in their order:
// of one that is broken, those before that place.
func Servers(config []byte) []Server {
	text, _ := plain(config)
	names, _, _ := servers(text, "")
	var list []Server
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		e, err := find(config, name)
		list = append(list, Server{name, err == nil && e.wrapped() >= 0})
	}
	return list
}
