package hub

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// SharedBytes bounds what brokers share.
const SharedBytes = 64 << 20

// SharedStream returns the bucket of what brokers share. Its entries do not expire: the
// state of a budget must stay until its period ends.
func SharedStream(replicas int) jetstream.StreamConfig {
	return BucketStream(Shared, "What brokers share", replicas, 0, SharedBytes)
}

// BucketStream returns the stream of a bucket whose entries expire at an age; 0 is never.
func BucketStream(name, about string, replicas int, age time.Duration, maxBytes int64) jetstream.StreamConfig {
	stream, subjects := Bucket(name)
	return jetstream.StreamConfig{
		Name: stream, Description: about, Subjects: []string{subjects + ">"},
		Storage: jetstream.FileStorage, Replicas: replicas, AllowDirect: true,
		Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1, MaxAge: age, MaxBytes: maxBytes,
	}
}
