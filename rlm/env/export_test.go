package env

import "encoding/json"

// Read reads a message in both ways. Scanned reports whether the fast one could.
func Read(payload []byte) (fast, slow any, scanned bool, err error) {
	var a, b message
	scanned = a.scan(payload)
	err = json.Unmarshal(payload, &b)
	return a, b, scanned, err
}
