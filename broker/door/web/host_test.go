package web

import (
	"net"
	"testing"
)

// A container's name for this machine is accepted from this machine and from container
// bridges. No other name is.
func TestContainerHost(t *testing.T) {
	for _, tt := range []struct {
		host string
		peer net.Addr
		want bool
	}{
		{"host.docker.internal:8761", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, true},
		{"Host.Containers.Internal", &net.TCPAddr{IP: net.IPv6loopback}, true},
		{"gateway.docker.internal", &net.UnixAddr{Name: "/s", Net: "unix"}, true},
		{"host.docker.internal", &net.TCPAddr{IP: net.IPv4(203, 0, 113, 7)}, false},
		{"host.docker.internal.example.com", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, false},
		{"example.com", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, false},
		{"host.docker.internal", nil, false},
	} {
		if got := ContainerHost(tt.host, tt.peer); got != tt.want {
			t.Errorf("%s from %v: %t", tt.host, tt.peer, got)
		}
	}
	for _, tt := range []struct {
		name, addr, peer string
		want             bool
	}{
		{"docker0", "172.17.0.1/16", "172.17.0.2", true},
		{"br-0123456789ab", "172.18.0.1/16", "172.18.0.9", true},
		{"podman1", "fd00::1/64", "fd00::2", true},
		{"docker0", "172.17.0.1/16", "172.18.0.2", false},
		{"eth0", "192.0.2.1/24", "192.0.2.2", false},
		{"eth0", "192.0.2.1/24", "192.0.2.1", true},
		{"wlan0", "192.0.2.1/24", "::ffff:192.0.2.1", true},
	} {
		ip, n, err := net.ParseCIDR(tt.addr)
		if err != nil {
			t.Fatal(err)
		}
		n.IP = ip
		if got := (link{tt.name, n}).reaches(net.ParseIP(tt.peer)); got != tt.want {
			t.Errorf("%s %s from %s: %t", tt.name, tt.addr, tt.peer, got)
		}
	}
}
