//go:build !linux

package commands

func trimProgram() {}
