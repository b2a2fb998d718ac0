package provider

// Members returns the known members of OpenAI's requests.
func Members() []string {
	names := common
	for _, m := range uncommon {
		names = append(names[:len(names):len(names)], m.name)
	}
	return names
}
