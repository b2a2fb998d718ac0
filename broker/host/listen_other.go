//go:build !linux

package host

import "net"

var listenConfig net.ListenConfig
