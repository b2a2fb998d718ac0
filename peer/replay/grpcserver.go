package replay

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

// A webOpen is an open request of ours.
type webOpen struct {
	leave context.CancelFunc
	body  *io.PipeWriter // of a gRPC call, or nil
	path  string
}

// begin registers a request of ours, and starts it. For a gRPC call it returns the body to
// write to.
func (c *webConn) begin(l *webLine) *webOpen {
	ctx, cancel := context.WithCancel(c.alive)
	of := &webOpen{leave: cancel, path: l.path()}
	play := c.exchange
	if c.grpc != nil {
		var body *io.PipeReader
		body, of.body = io.Pipe()
		of.leave = func() { // the client of net/http notices the cancel with the end of the body
			cancel()
			_ = of.body.CloseWithError(context.Canceled) // it never fails
		}
		play = func(ctx context.Context, l *webLine) error { return c.playCall(ctx, l, body) }
	}
	c.open[l.ID] = of
	c.work.Go(func() {
		defer cancel()
		if err := play(ctx, l); err != nil && ctx.Err() == nil {
			c.out.CloseWithError(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, l.ID)
	})
	return of
}

// sendMessage writes the message in a line to a call, which may have ended.
func (c *webConn) sendMessage(of *webOpen, l *webLine) error {
	method := c.grpc.of(of.path)
	if l.More || l.Request != "" && !method.streams {
		message, err := l.messageAt(method.request, "")
		if err != nil {
			return err
		}
		_, _ = of.body.Write(message)
		_, _ = of.body.Write(nil) // until the transport asks for more: it has then sent the message
	}
	if l.Last || l.Request != "" && !method.streams {
		return of.body.Close()
	}
	return nil
}

// playCall makes a gRPC call and writes its answers as lines.
func (c *webConn) playCall(ctx context.Context, l *webLine, body *io.PipeReader) error {
	defer body.Close()
	req, err := c.request(ctx, l, body)
	if err != nil {
		return err
	}
	req.Header.Set("Te", "trailers")
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	line := func(h http.Header, status string) *webLine {
		l := webLine{ID: l.ID, Call: l.Call, Version: l.Version, Head: map[string]string{}}
		for name := range h {
			l.Head[name] = h.Get(name)
		}
		l.setStatus(status)
		return &l
	}
	head := line(resp.Header, strconv.Itoa(resp.StatusCode))
	if err := c.tell(head); err != nil || head.End != "" {
		return err
	}
	method := c.grpc.of(l.path())
	messages := newCallMessages(resp.Body, resp.Header)
	for {
		message, err := messages.next()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, io.EOF):
			return c.tell(line(resp.Trailer, ""))
		case err != nil:
			return c.tell(&webLine{ID: l.ID, Call: l.Call, Version: l.Version, End: endCut, Text: err.Error()})
		}
		answer := webLine{ID: l.ID, Call: l.Call, Version: l.Version, Event: new(string)}
		answer.setMessage(method.answer, message, frame.U2C, frame.C2U)
		if err := c.tell(&answer); err != nil {
			return err
		}
	}
}

// serveCall writes a gRPC call as lines, and answers it.
func (v *webVisit) serveCall(w http.ResponseWriter, r *http.Request) {
	l := &webLine{Request: r.Method}
	l.setTarget(r.RequestURI)
	if v.listener.rest {
		l.setCall(v.callOf(r))
	}
	method := v.listener.grpc.of(l.path())
	messages := newCallMessages(r.Body, r.Header)
	if !method.streams {
		message, err := messages.next()
		if err != nil && !errors.Is(err, io.EOF) {
			failCall(w, codes.InvalidArgument, err.Error())
			return
		}
		l.setMessage(method.request, message, frame.C2U, frame.U2C)
	}
	of := newWebRequest()
	defer close(of.gone)
	id := v.register(l, of)
	defer v.forget(id)
	if _, err := v.out.Write(l.bytes()); err != nil {
		notRecorded(w, r)
		return
	}
	if method.streams {
		defer of.reading.Wait()
		defer r.Body.Close()
		of.reading.Go(func() { v.readCall(messages, method, id) })
	}
	begun := false
	v.writeAnswer(w, r, id, of, func(l *webLine) bool {
		more := l.writeCall(w, method, r.Host, begun)
		begun = true
		return more
	})
}

// readCall writes the messages of a streamed request as lines.
func (v *webVisit) readCall(messages *callMessages, method callMethod, id int64) {
	for {
		message, err := messages.next()
		l := webLine{ID: id, More: err == nil, Last: errors.Is(err, io.EOF)}
		if err != nil && !l.Last {
			return // the client left
		}
		if l.More {
			l.setMessage(method.request, message, frame.C2U, frame.U2C)
		}
		if _, err := v.out.Write(l.bytes()); err != nil || l.Last {
			return
		}
	}
}

// writeCall writes the part of an answer to a call that a line has. A status before anything
// else is in the head. It reports whether more follows.
func (l *webLine) writeCall(w http.ResponseWriter, method callMethod, host string, begun bool) bool {
	code, isStatus := strings.CutPrefix(l.End, callStatus)
	switch {
	case l.End == endCut:
		panic(http.ErrAbortHandler)
	case isStatus:
		place := http.TrailerPrefix
		if !begun {
			place = ""
			w.Header().Set("Content-Type", "application/grpc")
		}
		for name, value := range l.Head {
			w.Header().Set(place+name, value)
		}
		w.Header().Set(place+"Grpc-Status", code)
		w.Header().Set(place+"Grpc-Message", url.PathEscape(l.Text))
		return false
	case l.End != "":
		status, _ := strconv.Atoi(strings.TrimPrefix(l.End, "status "))
		w.WriteHeader(status)
		return false
	case l.Event != nil:
		message, err := l.messageAt(method.answer, "http://"+host)
		if err != nil {
			failed := failedCall(codes.Internal, err.Error())
			return failed.writeCall(w, method, host, begun)
		}
		_, _ = w.Write(message) // the context ends if the client has left
	default:
		for name, value := range l.Head {
			w.Header().Set(name, value)
		}
	}
	_ = http.NewResponseController(w).Flush()
	return true
}

// failCall ends a call with an error.
func failCall(w http.ResponseWriter, code codes.Code, text string) {
	l := failedCall(code, text)
	l.writeCall(w, callMethod{}, "", false)
}

// failedCall returns the line of that end.
func failedCall(code codes.Code, text string) webLine {
	return webLine{End: callStatus + strconv.Itoa(int(code)), Text: text}
}

// refuseCall answers a call that was not recorded.
func (v *webVisit) refuseCall(m *protocol.Message, text string) {
	l := failedCall(codes.Unimplemented, text)
	l.ID, _ = strconv.ParseInt(string(m.ID.Text), 10, 64)
	_, _ = v.Write(l.bytes()) // it never fails
}
