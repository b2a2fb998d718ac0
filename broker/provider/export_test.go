package provider

// Members are the members of OpenAI's requests that are known.
func Members() []string {
	names := common
	for _, m := range uncommon {
		names = append(names[:len(names):len(names)], m.name)
	}
	return names
}
