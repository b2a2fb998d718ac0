package share

// Workers are stub
type Workers struct{}

func newWorkers(*Group) (*Workers, error) { return &Workers{}, nil }
func (w *Workers) close()                 {}
