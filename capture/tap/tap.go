// Package tap copies the traffic of a relay or a broker to viewers. A [Hub] keeps the newest
// records, and a [Server] sends them over a Unix socket as a pcapng capture. [List], [Dial]
// and [Await] find the taps of this user. A tap never delays the traffic.
//
// docs/taps.md is the specification of the protocol.
package tap
