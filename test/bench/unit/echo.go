//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/quic-go/quic-go"

	"github.com/wirectl/wirectl/transport"
)

// serveEcho gives back all bytes, and prints where.
func serveEcho(network string) error {
	if network == "quic" {
		return echoQUIC()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("tcp://" + l.Addr().String())
	for {
		nc, err := l.Accept()
		if err != nil {
			return err
		}
		go giveBack(nc)
	}
}

// giveBack writes what it reads, without any shortcut of the kernel's: a unit has
// to look at the bytes as well.
func giveBack(rw io.ReadWriter) {
	buf := make([]byte, 64<<10)
	for {
		n, err := rw.Read(buf)
		if err != nil {
			return
		}
		if _, err := rw.Write(buf[:n]); err != nil {
			return
		}
	}
}

func echoQUIC() error {
	opts := transport.Options{}
	cfg, err := opts.ServerTLS("127.0.0.1")
	if err != nil {
		return err
	}
	cfg.NextProtos = []string{"latis-frames"}
	l, err := quic.ListenAddr("127.0.0.1:0", cfg, nil)
	if err != nil {
		return err
	}
	fmt.Println("quic://" + l.Addr().String())
	for {
		conn, err := l.Accept(context.Background())
		if err != nil {
			return err
		}
		go func() {
			if s, err := conn.AcceptStream(context.Background()); err == nil {
				giveBack(s)
			}
		}()
	}
}
