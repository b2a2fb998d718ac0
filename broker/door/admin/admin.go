// Package admin is the broker's door for those who run it: whether it is well,
// what it counts, and what was used. It answers plain HTTP and changes nothing.
package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/web"
)

// New returns a server of the door.
func New(b *broker.Broker, a web.Access) *web.Server {
	h := handler{b}
	return web.New(web.Config{Handler: h.serve, Limit: 64 << 10, Access: a, Fault: func(_ string, f *web.Fault) []byte { return failure(f.Message) }})
}

type handler struct{ broker *broker.Broker }

// pages are what there is, by path.
var pages = map[string]func(h *handler) (contentType string, body []byte, err error){
	"/healthz": func(h *handler) (string, []byte, error) {
		body, err := json.Marshal(map[string]any{"ok": true, "running": h.broker.Running(), "uptime_seconds": h.broker.Uptime().Seconds()})
		return "application/json", body, err
	},
	"/metrics": func(h *handler) (string, []byte, error) {
		var b bytes.Buffer
		err := h.broker.WriteMetrics(&b)
		return "text/plain; version=0.0.4; charset=utf-8", b.Bytes(), err
	},
	"/usage": func(h *handler) (string, []byte, error) {
		body, err := json.Marshal(map[string]any{"usage": h.broker.Usage()})
		return "application/json", body, err
	},
	"/models": func(h *handler) (string, []byte, error) {
		body, err := json.Marshal(map[string]any{"models": h.broker.Models()})
		return "application/json", body, err
	},
}

func (h handler) serve(_ context.Context, r *web.Request, w *web.Response) {
	page := pages[r.Path]
	switch {
	case page == nil:
		w.JSON(http.StatusNotFound, failure("Not found"))
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Set("Allow", "GET, HEAD")
		w.JSON(http.StatusMethodNotAllowed, failure("Method not allowed"))
		return
	}
	contentType, body, err := page(&h)
	if err != nil {
		w.JSON(http.StatusInternalServerError, failure("Internal error"))
		return
	}
	w.Send(http.StatusOK, contentType, body)
}

func failure(message string) []byte {
	b, err := json.Marshal(map[string]string{"error": message})
	if err != nil {
		return []byte("{}")
	}
	return b
}
