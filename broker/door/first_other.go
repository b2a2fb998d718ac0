//go:build !unix

package door

type firstRead struct{}

// readFirst reads what comes next.
func (c *Conn) readFirst() (int, error) {
	c.grow(smallBuffer)
	return c.Conn.Read(c.buf)
}
