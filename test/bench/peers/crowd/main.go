// Crowd is both ends of many connections: it answers requests, or it dials so many
// that all are open at once, and has each ask something and hear the answer.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
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
			defer c.Close()
			for lines := bufio.NewScanner(c); lines.Scan(); {
				if _, err := fmt.Fprintln(c, strings.Replace(lines.Text(), asked, answered, 1)); err != nil {
					return
				}
			}
		}()
	}
}

// What tells a request from its answer.
const (
	asked    = `"method":"tools/list"`
	answered = `"result":{"tools":[]}`
)

// dial opens n connections, has each ask 100 times, and closes them when all have
// been answered.
func dial(n int, address string) {
	var heard sync.WaitGroup
	for i := range n {
		c, err := net.Dial("tcp", address)
		check(err)
		defer c.Close()
		heard.Go(func() {
			for j := range 100 {
				line := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`+"\n", i*100+j, asked)
				_, err := io.WriteString(c, line)
				check(err)
				want := strings.Replace(line, asked, answered, 1)
				back := make([]byte, len(want))
				_, err = io.ReadFull(c, back)
				check(err)
				if string(back) != want {
					check(fmt.Errorf("connection %d heard %q", i, back))
				}
			}
		})
	}
	heard.Wait()
}
