package rlm

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/rlm"
)

// A response is built in order: begin with the correlation id, then an error or results, then
// end, which fills in the length.
type response struct {
	b     []byte
	start int    // of the frame in b
	id    []byte // the correlation id as JSON, nil for null
}

const prefix = 4

func begin(b, id []byte) response {
	r := response{b: append(b, 0, 0, 0, 0), start: len(b), id: id}
	r.head()
	return r
}

func (r *response) head() {
	r.b = append(r.b[:r.start+prefix], `{"correlation_id":`...)
	if r.id == nil {
		r.b = append(r.b, "null"...)
	} else {
		r.b = append(r.b, r.id...)
	}
}

// fail turns the response into an error.
func (r *response) fail(message string) {
	r.head()
	r.b = append(r.b, `,"error":`...)
	r.b = jsonscan.AppendQuote(r.b, []byte(message))
	r.b = append(r.b, `,"results":null}`...)
}

func (r *response) results() { r.b = append(r.b, `,"error":null,"results":[`...) }

// result appends the outcome of one call.
func (r *response) result(c *broker.Call, err error) {
	if last := r.b[len(r.b)-1]; last != '[' {
		r.b = append(r.b, ',')
	}
	if err != nil {
		r.b = append(r.b, `{"error":`...)
		r.b = jsonscan.AppendQuote(r.b, []byte(broker.Message(err)))
		r.b = append(r.b, `,"chat_completion":null}`...)
		return
	}
	r.b = append(r.b, `{"error":null,"chat_completion":`...)
	r.b = append(AppendCompletion(r.b, c), '}')
}

// AppendCompletion appends a call that succeeded as a chat_completion.
func AppendCompletion(b []byte, c *broker.Call) []byte {
	start := len(b) + len(`{"root_model":`)
	b = append(b, `{"root_model":`...)
	b = jsonscan.AppendQuote(b, []byte(c.Name))
	model := [2]int{start, len(b)} // b may move
	b = append(b, `,"prompt":`...)
	b = append(b, c.Prompt...)
	b = append(b, `,"response":`...)
	b = append(b, c.Completion.Text...)
	b = append(b, `,"usage_summary":{"model_usage_summaries":{`...)
	b = append(b, b[model[0]:model[1]]...)
	u := c.Completion.Usage
	b = append(b, `:{"total_calls":1,"total_input_tokens":`...)
	b = strconv.AppendInt(b, u.Input, 10)
	b = append(b, `,"total_output_tokens":`...)
	b = strconv.AppendInt(b, u.Output, 10)
	b = append(b, `}}},"prompt_tokens":`...)
	b = strconv.AppendInt(b, u.Input, 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, u.Output, 10)
	b = append(b, `,"execution_time":`...)
	b = appendSeconds(b, int64(c.Took))
	b = appendToolCalls(b, c)
	if c.Completion.Finish != "" {
		b = append(b, `,"finish_reason":`...)
		b = jsonscan.AppendQuote(b, []byte(c.Completion.Finish))
	}
	return append(b, '}')
}

// appendSeconds appends nanoseconds as seconds with six decimals.
func appendSeconds(b []byte, ns int64) []byte {
	micros := ns / 1000
	b = strconv.AppendInt(b, micros/1e6, 10)
	point := len(b)
	b = strconv.AppendInt(b, 1e6+micros%1e6, 10)
	b[point] = '.' // where the 1 is
	return b
}

func appendToolCalls(b []byte, c *broker.Call) []byte {
	for i, call := range c.Completion.ToolCalls {
		if i == 0 {
			b = append(b, `,"tool_calls":[`...)
		} else {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = jsonscan.AppendQuote(b, []byte(call.ID))
		b = append(b, `,"name":`...)
		b = jsonscan.AppendQuote(b, []byte(call.Name))
		b = append(b, `,"arguments":`...)
		b = append(append(b, call.Arguments...), '}')
		if i == len(c.Completion.ToolCalls)-1 {
			b = append(b, ']')
		}
	}
	return b
}

// endResponse closes the frame and returns the buffer.
func (r *response) endResponse(isError bool) []byte {
	if !isError {
		r.b = append(r.b, "]}"...)
	}
	if r.isTooLarge() {
		r.fail(tooLarge(r.size()))
	}
	binary.BigEndian.PutUint32(r.b[r.start:], uint32(r.size()))
	return r.b
}

func (r *response) size() int { return len(r.b) - r.start - prefix }

func (r *response) isTooLarge() bool { return r.size() > rlm.Limit }

func tooLarge(n int) string {
	return fmt.Sprintf("Frame too large: %d bytes (max %d)", n, rlm.Limit)
}
