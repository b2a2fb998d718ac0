package openai

import (
	"context"
	"net/http"

	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// embed answers with vectors.
func (h *handler) embed(ctx context.Context, r *web.Request, w *web.Response) {
	e := h.open(r, w)
	defer e.tap.Close()
	e.tap.HTTP(frame.C2U, r.Start(), r.Body)
	var input []byte
	object, err := provider.ReadMembers(r.Body, map[string]*[]byte{"model": &e.model, "input": &input})
	fault, param := "", ""
	switch {
	case err != nil:
		fault = "We could not parse the JSON body of your request" + where(err) + "."
	case !object:
		fault = "The body of your request must be a JSON object."
	case e.model != nil && jsonscan.KindOf(e.model) != jsonscan.String:
		fault, param = "Invalid type for 'model': expected a string.", "model"
	case input == nil:
		fault, param = "Missing required parameter: 'input'.", "input"
	}
	if fault != "" {
		e.json(http.StatusBadRequest, failure(fault, invalid, param, ""))
		return
	}
	e.call.Model, e.call.Chat, e.does = provider.Unquote(e.model), r.Body, h.broker.Embed
	if err := e.do(ctx); err != nil {
		e.fail(err)
		return
	}
	e.json(http.StatusOK, e.call.Completion.Chat)
}
