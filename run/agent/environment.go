package agent

import (
	"runtime"
	"slices"
	"strings"
)

// An Environment is that of an agent. It remembers what it has replaced.
type Environment struct{ list []string }

// saved begins the name of a variable with the user's own value of one that a run has replaced.
const saved = "WIRECTL_RUN_WAS_"

// added is the variable that names all that a run has set.
const added = "WIRECTL_RUN_SET"

func newEnvironment(list []string) *Environment { return &Environment{slices.Clone(list)} }

func isNamed(pair, name string) bool {
	got, _, _ := strings.Cut(pair, "=")
	return got == name || runtime.GOOS == "windows" && strings.EqualFold(got, name)
}

func lookup(list []string, name string) (value string, ok bool) {
	i := slices.IndexFunc(list, func(pair string) bool { return isNamed(pair, name) })
	if i < 0 {
		return "", false
	}
	_, value, _ = strings.Cut(list[i], "=")
	return value, true
}

// Get returns the value of a variable.
func (e *Environment) Get(name string) string {
	value, _ := lookup(e.list, name)
	return value
}

func (e *Environment) put(name, value string) {
	e.list = slices.DeleteFunc(e.list, func(pair string) bool { return isNamed(pair, name) })
	e.list = append(e.list, name+"="+value)
}

// Set sets a variable of the agent. The first time, it keeps the user's own value for Original.
func (e *Environment) Set(name, value string) {
	names := strings.Fields(e.Get(added))
	if !slices.Contains(names, name) {
		if own, ok := lookup(e.list, name); ok {
			e.put(saved+name, own)
		}
		e.put(added, strings.Join(append(names, name), " "))
	}
	e.put(name, value)
}

// SetBoth sets a variable that programs read in upper or lower case.
func (e *Environment) SetBoth(name, value string) {
	e.Set(name, value)
	if runtime.GOOS != "windows" {
		e.Set(strings.ToLower(name), value)
	}
}

// List returns all variables.
func (e *Environment) List() []string { return slices.Clone(e.list) }

// Original returns the environment of a process of a run as the user has it, without what the run has set.
func Original(list []string) []string {
	set, _ := lookup(list, added)
	e := newEnvironment(list)
	for _, name := range strings.Fields(set) {
		own, had := lookup(list, saved+name)
		for _, gone := range []string{name, saved + name} {
			e.list = slices.DeleteFunc(e.list, func(pair string) bool { return isNamed(pair, gone) })
		}
		if had {
			e.put(name, own)
		}
	}
	e.list = slices.DeleteFunc(e.list, func(pair string) bool { return isNamed(pair, added) })
	return e.list
}
