package provider

// AppendText appends a string token to the completion's text. It is for streams.
func (c *Completion) AppendText(token []byte) {
	if len(c.scratch) == 0 {
		c.scratch = append(c.scratch, `""`...)
	}
	c.scratch = append(append(c.scratch[:len(c.scratch)-1], token[1:len(token)-1]...), '"')
	c.Text = c.scratch
}

// Reason returns what a string token says of why a completion is finished. It
// takes no memory for what is usual.
func Reason(token []byte) string {
	switch string(token) {
	case `"stop"`:
		return "stop"
	case `"length"`:
		return "length"
	case `"tool_calls"`:
		return "tool_calls"
	}
	return Unquote(token)
}

// Seal gives a completion without text the empty one.
func (c *Completion) Seal() {
	if c.Text == nil {
		c.Text = []byte(`""`)
	}
}
