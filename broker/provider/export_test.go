package provider

import (
	"net/http"

	"github.com/wirectl/wirectl/llm"
)

// Members returns the known members of OpenAI's requests.
func Members() []string {
	names, _ := llm.ChatMembers()
	return names
}

// As makes the client use the connections of another one, which trusts the test's server.
func (c *client) As(other *http.Client) {
	c.http = other.Transport.(*http.Transport)
	c.http.DisableCompression = true
}

// Events reads the events of a stream.
var Events = events

var NewClient = newClient

var Malformed = malformed

type Response = response
