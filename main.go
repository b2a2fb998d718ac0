// Wirectl reads the wire protocols that AI agents speak.
package main

import (
	"os"

	"github.com/wirectl/wirectl/commands"
)

func main() { os.Exit(commands.Main()) }
