package test

import (
	"os"

	"github.com/wirectl/wirectl/internal/standin"
)

func init() {
	executables["standin-docker"] = func() { os.Exit(standin.Docker(os.Args[1:])) }
}
