package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// isOlder reports whether an answer to the first post says that the server may
// speak the older transport of MCP, HTTP with SSE, where nothing is posted to the
// URL that a client begins with.
func (w *httpWire) isOlder(resp *http.Response) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
		return !w.sent && w.rpc.dialect == MCP
	}
	return false
}

// listen opens the stream of events that brings all answers, and waits for the
// one that says where to post.
func (w *httpWire) listen(ctx context.Context) error {
	resp, err := w.request(ctx, http.MethodGet, nil)
	switch {
	case err != nil:
		return err
	case resp.StatusCode >= 400:
		return refused(resp)
	case !isEvents(resp):
		resp.Body.Close()
		return errors.New("what the server has for a GET is no stream of events")
	}
	known := make(chan error, 1) // whether it is said where to post
	w.posts.Go(func() {
		defer resp.Body.Close()
		err := readEvents(resp.Body, func(name string, data []byte) error {
			if name != "endpoint" {
				return w.receive(data)
			}
			select {
			case known <- w.postTo(resp.Request.URL, string(data)):
			default: // it is said once
			}
			return nil
		})
		if err == nil {
			err = ErrEnded
		}
		select {
		case known <- err:
		default:
		}
		if w.alive.Err() == nil {
			w.rpc.fail(err)
		}
	})
	select {
	case err := <-known:
		return err
	case <-ctx.Done():
		resp.Body.Close()
		return context.Cause(ctx)
	}
}

// postTo sets where to post, which must not lead to another server: headers, and
// so tokens, would go there.
func (w *httpWire) postTo(from *url.URL, reference string) error {
	to, err := from.Parse(reference)
	switch {
	case err != nil:
		return &FaultError{fmt.Errorf("the server says to post to %q: %w", reference, err)}
	case to.Scheme != from.Scheme || to.Host != from.Host:
		return faultf("the server says to post to %s, which is another one", to)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.url = to.String()
	return nil
}
