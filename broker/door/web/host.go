package web

import (
	"net"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/transport"
)

// containerHosts are the names of the host machine in containers.
var containerHosts = []string{"host.docker.internal", "host.containers.internal", "gateway.docker.internal"}

// ContainerHost reports whether a Host header is a container's name for this machine
// and the peer is on this machine or on a container bridge. The name alone proves
// nothing, since anybody can resolve it to this machine.
func ContainerHost(host string, peer net.Addr) bool {
	if !slices.Contains(containerHosts, strings.ToLower(transport.Hostname(host))) {
		return false
	}
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return peer != nil && peer.Network() == "unix"
	}
	return tcp.IP.IsLoopback() || slices.ContainsFunc(links(), func(l link) bool { return l.reaches(tcp.IP) })
}

// A link is an address of a network interface.
type link struct {
	name string
	net  *net.IPNet // the address itself, and the mask
}

func links() []link {
	var all []link
	interfaces, _ := net.Interfaces() // without them, only loopback is admitted
	for _, i := range interfaces {
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok {
				all = append(all, link{i.Name, n})
			}
		}
	}
	return all
}

// bridges are the prefixes of the names of container engines' bridges.
var bridges = []string{"docker", "br-", "podman", "cni", "nerdctl", "lxcbr", "lxdbr", "incusbr"}

// reaches reports whether ip is the link's own address, or an address on a container bridge.
func (l link) reaches(ip net.IP) bool {
	isBridge := slices.ContainsFunc(bridges, func(b string) bool { return strings.HasPrefix(l.name, b) })
	return l.net.IP.Equal(ip) || isBridge && l.net.Contains(ip)
}
