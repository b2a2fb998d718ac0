package wrap

import (
	"errors"
	"fmt"
	"io"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
)

// read reads the servers of a configuration. If it is invalid, it returns those before the
// error.
func (f File) read() ([]Server, error) {
	config, err := readFile(f.Name)
	servers, faulty := FormatOf(f.Name).Servers(config)
	return servers, errors.Join(err, faulty)
}

// WriteList lists configurations and their servers: as text, or with a line of JSON for each server. It
// calls faulty for an invalid configuration.
func WriteList(w io.Writer, ndjson bool, files []File, faulty func(File, error)) error {
	for _, file := range files {
		servers, err := file.read()
		if err != nil {
			faulty(file, err)
		}
		text := fmt.Appendf(nil, "%s  %s\n", file.Client, render.Safe(file.Name))
		if ndjson {
			text = nil
		}
		for _, s := range servers {
			if ndjson {
				text = append(append(text, jsonscan.MustMarshal(listed{file.Client, file.Name, s.Name, s.Project, s.Remote, s.Wrapped, s.Record})...), '\n')
			} else {
				text = fmt.Appendf(text, "  %s  %s\n", render.Safe(s.Name), s.state())
			}
		}
		switch {
		case ndjson:
		case err != nil && len(servers) > 0:
			text = append(text, "  (the rest cannot be read)\n"...)
		case err != nil:
			text = append(text, "  (cannot be read)\n"...)
		case len(servers) == 0:
			text = append(text, "  (no servers)\n"...)
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// state describes how a server runs.
func (s Server) state() string {
	switch {
	case s.Remote:
		return "(over HTTP)"
	case s.NoCommand:
		return "(no command)"
	case s.Record != "":
		return "(wrapped, records " + render.Safe(s.Record) + ")"
	case s.Wrapped:
		return "(wrapped)"
	}
	return "(not wrapped)"
}

// A listed server is a line of NDJSON.
type listed struct {
	Client  string `json:"client"`
	Config  string `json:"config"`
	Server  string `json:"server"`
	Project string `json:"project,omitempty"`
	Remote  bool   `json:"remote,omitempty"`
	Wrapped bool   `json:"wrapped"`
	Record  string `json:"record,omitempty"`
}
