package test

import (
	"os"

	"github.com/wirectl/wirectl/test/kit/standin"
)

func init() {
	executables["standin-docker"] = func() { os.Exit(standin.Docker(os.Args[1:])) }
}
