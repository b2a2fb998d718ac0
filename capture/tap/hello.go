package tap

import (
	"context"
	"fmt"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
)

// patience is how long a tap may take to say how much has passed.
const patience = 2 * time.Second

// Glance asks the tap of that name how much has passed: its [Hello].
func Glance(ctx context.Context, dir, name string) (Note, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := Dial(ctx, dir, name)
	if err != nil {
		return Note{}, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	r, err := pcapng.NewReader(c, 0)
	if err != nil {
		return Note{}, err
	}
	var rec capture.Record
	if err := r.Next(&rec); err != nil {
		return Note{}, err
	}
	if n, ok := ParseNote(&rec); ok && n.Tap == Hello {
		return n, nil
	}
	return Note{}, fmt.Errorf("%s does not say how much has passed", name)
}
