package provider

import "github.com/wirectl/wirectl/llm"

// Members returns the known members of OpenAI's requests.
func Members() []string {
	names, _ := llm.ChatMembers()
	return names
}
