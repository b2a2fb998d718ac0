// Crowd is both ends of many connections: it echoes, or it dials so many that
// all are open at once, and has each say something and hear it again.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "listen" {
		listen()
		return
	}
	if len(os.Args) == 4 && os.Args[1] == "dial" {
		if n, err := strconv.Atoi(os.Args[2]); err == nil {
			dial(n, os.Args[3])
			return
		}
	}
	fmt.Fprintln(os.Stderr, "usage: crowd listen | crowd dial N ADDRESS")
	os.Exit(2)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func listen() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println(l.Addr())
	for {
		c, err := l.Accept()
		check(err)
		go func() {
			_, _ = io.Copy(c, c)
			c.Close()
		}()
	}
}

// dial opens n connections, has each say and hear again 100 lines, and closes them
// when all have.
func dial(n int, address string) {
	var heard sync.WaitGroup
	for i := range n {
		c, err := net.Dial("tcp", address)
		check(err)
		defer c.Close()
		heard.Go(func() {
			for j := range 100 {
				line := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`+"\n", i*100+j)
				_, err := io.WriteString(c, line)
				check(err)
				back := make([]byte, len(line))
				_, err = io.ReadFull(c, back)
				check(err)
				if string(back) != line {
					check(fmt.Errorf("connection %d heard %q", i, back))
				}
			}
		})
	}
	heard.Wait()
}
