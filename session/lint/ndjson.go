package lint

import (
	"io"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// record is a finding as NDJSON.
type record struct {
	Finding  string  `json:"finding"`
	Severity string  `json:"severity"`
	Frames   []int64 `json:"frames"`
	Rule     string  `json:"rule"`
	Message  string  `json:"message"`
	Do       string  `json:"do"`
	Conn     int     `json:"conn,omitempty"`
	Session  string  `json:"session,omitempty"`
}

// NDJSON writes one object per line for each finding. It includes the session if there are
// several.
func (r *Report) NDJSON(w io.Writer) error {
	enc := jsonscan.NewEncoder(w)
	for _, s := range r.Sessions {
		name := ""
		if len(r.Sessions) > 1 {
			name = s.Name
		}
		for _, f := range s.Findings {
			err := enc.Encode(record{f.Name, f.Severity.String(), f.Frames, f.Rule, f.Message, Rules[ruleIndex(f.Name)].Do, f.Conn, name})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
