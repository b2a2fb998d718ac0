//go:build !linux

package transport

func (p *process) widen() {}

func (p *process) unwatch() {}
