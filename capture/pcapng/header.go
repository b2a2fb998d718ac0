package pcapng

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/wirectl/wirectl/capture"
)

// header is the comment of a section header. It describes the session.
type header struct {
	Version    int    `json:"wirectl"`
	Created    string `json:"created,omitempty"`
	Protocol   string `json:"protocol,omitempty"`
	Framing    string `json:"framing,omitempty"`
	Controller string `json:"controller,omitempty"`
	Unit       string `json:"unit,omitempty"`
	Redacted   bool   `json:"redacted,omitempty"`
	Outlined   bool   `json:"outlined,omitempty"`
	Altered    bool   `json:"altered,omitempty"`
	Comment    string `json:"comment,omitempty"`
}

// lane is the comment of an interface: a connection, or those streams of a connection that
// share a protocol and framing.
type lane struct {
	Conn     int    `json:"conn"`
	Protocol string `json:"protocol,omitempty"`
	Framing  string `json:"framing,omitempty"`
}

// fill sets empty fields to the defaults of the session.
func (l *lane) fill(s *capture.Session) {
	l.Protocol = cmp.Or(l.Protocol, s.Protocol)
	l.Framing = cmp.Or(l.Framing, s.Framing)
}

func newHeader(s *capture.Session) header {
	h := header{
		Version: Version, Protocol: s.Protocol, Framing: s.Framing,
		Controller: s.Controller, Unit: s.Unit,
		Redacted: s.Redacted, Outlined: s.Outlined, Altered: s.Altered, Comment: s.Comment,
	}
	if !s.Created.IsZero() {
		h.Created = s.Created.UTC().Format(time.RFC3339Nano)
	}
	return h
}

// parseHeader returns the session that a section header's comment describes.
func parseHeader(comment []byte) (capture.Session, error) {
	var h header
	if err := json.Unmarshal(comment, &h); err != nil || h.Version == 0 {
		return capture.Session{}, capture.ErrPackets
	}
	if h.Version > Version {
		return capture.Session{}, fmt.Errorf("%w: its format is version %d, and this wirectl reads up to %d", capture.ErrForeign, h.Version, Version)
	}
	s := capture.Session{
		Protocol: h.Protocol, Framing: h.Framing,
		Controller: h.Controller, Unit: h.Unit,
		Redacted: h.Redacted, Outlined: h.Outlined, Altered: h.Altered, Comment: h.Comment,
	}
	if h.Created != "" {
		t, err := time.Parse(time.RFC3339Nano, h.Created)
		if err != nil {
			return s, fmt.Errorf("%w: created: %q is not an RFC 3339 time", capture.ErrMalformed, h.Created)
		}
		s.Created = t
	}
	return s, nil
}

// parseLane returns the lane that an interface's comment describes. An interface without such
// a comment belongs to no particular connection.
func parseLane(comment []byte) (l lane) {
	if json.Unmarshal(comment, &l) != nil || l.Conn < 0 {
		return lane{}
	}
	return l
}
