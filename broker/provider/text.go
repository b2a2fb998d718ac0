package provider

// AppendText appends a string token to the completion's text. It is for streams.
func (c *Completion) AppendText(token []byte) {
	if len(c.scratch) == 0 {
		c.scratch = append(c.scratch, `""`...)
	}
	c.scratch = append(append(c.scratch[:len(c.scratch)-1], token[1:len(token)-1]...), '"')
	c.Text = c.scratch
}

// Seal gives a completion without text the empty one.
func (c *Completion) Seal() {
	if c.Text == nil {
		c.Text = []byte(`""`)
	}
}
