// Broker measures the broker against Python's socketserver, net/http's ReverseProxy and
// Portkey's gateway. Its other modes are:
//
//	broker monitor   the monitor in a terminal
//	broker unit      the unit against a bare echo
//	broker share     brokers and workers at a hub
//	broker rlm       wirectl rlm with a mock
package main

import (
	"os"

	"github.com/wirectl/wirectl/test/bench/harness"
)

func main() {
	mode := ""
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	switch mode {
	case "monitor":
		harness.Main(million, steady)
	case "unit":
		harness.Main(pings)
	case "share":
		harness.Main(sharedRate, sharedCancels)
	case "rlm":
		harness.Main(runs, subCalls, large, cancels)
	default:
		harness.Main(rlmDoor, openaiDoor)
	}
}
