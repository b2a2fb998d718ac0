//go:build !unix

package door

// readFirst reads what comes next.
func (c *Conn) readFirst() (int, error) {
	c.grow(smallBuffer)
	return c.Conn.Read(c.buf)
}
