package upstream

import "net/http"

// As makes the client use the connections of another one, which trusts the server
// of a test.
func (c *Client) As(other *http.Client) {
	other.Transport.(*http.Transport).DisableCompression = true
	c.http = other
}
