package live

import "time"

// A Listed is a session as a page lists it.
type Listed struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	About   string    `json:"about,omitempty"`
	Host    string    `json:"host,omitempty"`
	Kind    string    `json:"kind,omitempty"`
	State   string    `json:"state,omitempty"`
	Started time.Time `json:"started,omitzero"`
	Frames  int64     `json:"frames,omitempty"`
	Lost    int64     `json:"lost,omitempty"`
}
