package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/transport"
)

// usageTime is how long a broker may take to return its usage.
const usageTime = 10 * time.Second

// Usage returns the usage of the broker whose door is at addr, or of its group. The token may
// be "".
func Usage(ctx context.Context, addr, token string) ([]broker.Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, usageTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/usage", nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		err = transport.Explain(addr, err)
		if e := (*transport.Error)(nil); errors.As(err, &e) {
			e.Hint = "say where it is, as wirectl serve usage HOST:PORT"
		}
		return nil, fmt.Errorf("no broker answers at the door admin: %w", err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return nil, fmt.Errorf("the door admin at %s refuses the token: set WIRECTL_TOKEN to the broker's token", addr)
	default:
		return nil, fmt.Errorf("the door admin at %s answers %s", addr, resp.Status)
	}
	var answer struct{ Usage, Group []broker.Usage }
	if err := json.NewDecoder(io.LimitReader(resp.Body, 16<<20)).Decode(&answer); err != nil {
		return nil, fmt.Errorf("the server at %s is not a broker: %w", addr, err)
	}
	if answer.Group != nil {
		return answer.Group, nil
	}
	return answer.Usage, nil
}

// WriteUsageNDJSON writes an object per line.
func WriteUsageNDJSON(w io.Writer, list []broker.Usage) error {
	enc := json.NewEncoder(w)
	for i := range list {
		if err := enc.Encode(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

// WriteUsage writes a table.
func WriteUsage(w io.Writer, list []broker.Usage) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "model\tdoor\tclient\tcalls\tok\tfailed\tcancelled\ttokens in\tout\tseconds")
	for _, u := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.3f\n", u.Model, u.Door, u.Client, u.Calls(), u.OK, u.Failed+u.Refused, u.Cancelled, u.InputTokens, u.OutputTokens, u.Seconds)
	}
	return t.Flush()
}
