// Package completions holds the scripts that make Tab work in each shell. They
// know no command: they ask `wirectl __complete` what could stand at the end of
// the line, which knows them all, and leave files and the command lines of other
// programs to the shell.
package completions

import (
	_ "embed"
	"fmt"
	"strings"
)

var (
	//go:embed wirectl.bash
	bash string
	//go:embed _wirectl
	zsh string
	//go:embed wirectl.fish
	fish string
	//go:embed wirectl.ps1
	powershell string
)

// Shells are the shells that there is a script for.
var Shells = []string{"bash", "zsh", "fish", "powershell"}

// Script returns the script for a shell.
func Script(shell string) (string, error) {
	switch shell {
	case "bash":
		return bash, nil
	case "zsh":
		return zsh, nil
	case "fish":
		return fish, nil
	case "powershell":
		return powershell, nil
	}
	return "", fmt.Errorf("no completion for the shell %q: want one of %s", shell, strings.Join(Shells, ", "))
}
