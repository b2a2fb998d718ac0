//go:build unix

// Broker measures the broker against its peers; see bench/broker.sh. As "mock",
// "bare" and "proxy URL" it is three of the parts: a mock of a provider, a backend
// that does nothing but answer, and net/http's reverse proxy.
package main

import (
	"fmt"
	"log"
	"os"
)

func main() {
	log.SetFlags(0)
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == "mock":
		err = mock()
	case len(os.Args) == 2 && os.Args[1] == "bare":
		err = bare()
	case len(os.Args) == 3 && os.Args[1] == "proxy":
		err = reverseProxy(os.Args[2])
	case len(os.Args) == 3 && os.Args[1] == "load":
		err = run(os.Args[2], (*bench).loads)
	case len(os.Args) == 3 && os.Args[1] == "trips":
		err = run(os.Args[2], (*bench).trips)
	default:
		err = fmt.Errorf("usage: broker mock | bare | proxy URL | load DURATION | trips DURATION")
	}
	if err != nil {
		log.Fatal(err)
	}
}
