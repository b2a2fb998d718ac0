package hub

import "github.com/nats-io/nats.go/jetstream"

// SharedBytes bounds what brokers share.
const SharedBytes = 64 << 20

// SharedStream is the bucket of what brokers share. It has no age: the state of a budget
// must not go before its period ends.
func SharedStream(replicas int) jetstream.StreamConfig {
	stream, subjects := Bucket(Shared)
	return jetstream.StreamConfig{
		Name: stream, Description: "What brokers share", Subjects: []string{subjects + ">"},
		Storage: jetstream.FileStorage, Replicas: replicas, AllowDirect: true,
		Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1, MaxBytes: SharedBytes,
	}
}
