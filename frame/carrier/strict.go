package carrier

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/wirectl/wirectl/frame"
)

// Rejected returns why net/http would reject the head of a request or a response; nil if
// it would not. The carrier reads such a head nevertheless.
func Rejected(head []byte, dir frame.Dir) error {
	var fields http.Header
	var err error
	r := bufio.NewReaderSize(bytes.NewReader(head), len(head))
	if dir == frame.U2C || bytes.HasPrefix(head, []byte(response)) {
		var resp *http.Response
		if resp, err = http.ReadResponse(r, nil); err == nil { //nolint:bodyclose // only the head is there
			fields = resp.Header
		}
	} else {
		var req *http.Request
		if req, err = http.ReadRequest(r); err == nil {
			fields, err = req.Header, rejectedHost(head, req)
		}
	}
	if err != nil {
		return rejectedf("%s", strings.TrimPrefix(err.Error(), "net/http: "))
	}
	for name, values := range fields {
		for _, value := range values {
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
				return rejectedf("invalid header %.60q", name+": "+value)
			}
		}
	}
	return nil
}

// rejectedHost checks Host like a server of net/http does after parsing.
func rejectedHost(head []byte, r *http.Request) error {
	hosts := len(ParseHead(head).Values("Host"))
	switch {
	case hosts == 0 && r.ProtoAtLeast(1, 1) && r.Method != http.MethodConnect:
		return errors.New("missing required Host header")
	case hosts > 0 && !httpguts.ValidHostHeader(r.Host):
		return fmt.Errorf("malformed Host header %.60q", r.Host)
	}
	return nil
}

func rejectedf(format string, args ...any) error {
	return fmt.Errorf("a strict HTTP peer rejects this: "+format, args...)
}
