// Package tap is the copy of what passes a relay or a broker, for whoever wants
// to look: a [Hub] keeps the newest records, a [Server] hands them out over a
// Unix socket as a capture in pcapng, and [List], [Dial] and [Await] find the
// taps of this user. A tap never delays what it copies.
//
// docs/taps.md is the specification of what the socket carries.
package tap
