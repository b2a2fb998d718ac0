package upstream

import "net/http"

// As makes the client use the connections of another one, which trusts the test's server.
func (c *Client) As(other *http.Client) {
	c.http = other.Transport.(*http.Transport)
	c.http.DisableCompression = true
}

// Events reads the events of a stream.
var Events = events
