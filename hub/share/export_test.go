package share

// Die ends a broker as kill -9 does: it returns nothing.
func (g *Group) Die() {
	g.stop()
	g.running.Wait()
	g.conn.Close()
}
