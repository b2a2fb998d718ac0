//go:build !linux

package service

import "net"

var listenConfig net.ListenConfig
