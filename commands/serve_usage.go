package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/config"
	"github.com/wirectl/wirectl/broker/service"
	"github.com/wirectl/wirectl/transport"
)

// usageTime is how long a broker may take to say what it was used for.
const usageTime = 10 * time.Second

// usage prints what a broker that runs has been used for. It is the one at the
// address that is an operand, or where the flags and the configuration say.
func (s *serving) usage(c context.Context, operands []string) error {
	addr, err := s.usageAt(operands)
	if err != nil {
		return err
	}
	list, err := s.askUsage(c, addr)
	if err != nil {
		return err
	}
	if s.c.String("output") == "ndjson" {
		return writeUsageLines(s.ndjson(), list)
	}
	return writeUsage(s.Stdout, list)
}

func (s *serving) usageAt(operands []string) (string, error) {
	addrs, err := s.addresses()
	if err != nil {
		return "", err
	}
	addr := addrs["admin"]
	switch {
	case len(operands) > 1:
		return "", usagef("serve usage takes one address, found %s", strings.Join(operands, " "))
	case len(operands) == 1:
		if addr, err = config.Address("admin", operands[0]); err != nil {
			return "", usagef("serve usage: %w", err)
		}
	}
	if addr == service.Off {
		return "", usagef("serve usage asks the door admin, which is off; expected HOST:PORT or PORT")
	}
	return addr, nil
}

func (s *serving) askUsage(c context.Context, addr string) ([]broker.Usage, error) {
	ctx, cancel := context.WithTimeout(c, usageTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/usage", nil)
	if err != nil {
		return nil, err
	}
	if token := s.tokenOf(s.config); token != "" {
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
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the door admin at %s answers %s", addr, resp.Status)
	}
	var answer struct{ Usage []broker.Usage }
	if err := json.NewDecoder(io.LimitReader(resp.Body, 16<<20)).Decode(&answer); err != nil {
		return nil, fmt.Errorf("what answers at %s is no broker: %w", addr, err)
	}
	return answer.Usage, nil
}

func writeUsageLines(w io.Writer, list []broker.Usage) error {
	enc := json.NewEncoder(w)
	for i := range list {
		if err := enc.Encode(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

func writeUsage(w io.Writer, list []broker.Usage) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "model\tdoor\tclient\tcalls\tok\tfailed\tcancelled\ttokens in\tout\tseconds")
	for _, u := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.3f\n", u.Model, u.Door, u.Client, u.Calls(), u.OK, u.Failed+u.Refused, u.Cancelled, u.InputTokens, u.OutputTokens, u.Seconds)
	}
	return t.Flush()
}
