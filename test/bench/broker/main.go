// Broker measures the broker beside Python's socketserver, net/http's ReverseProxy and
// Portkey's gateway. As "broker monitor" it measures the monitor in a terminal,
// and as "broker unit" the unit beside a bare echo.
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
	default:
		harness.Main(rlmDoor, openaiDoor)
	}
}
