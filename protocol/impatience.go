package protocol

import "bytes"

// impatience lists, in lower case, how SDKs word a timeout in the reason of a cancel.
var impatience = [][]byte{
	[]byte("timed out"),         // TypeScript, Python, C#: "Request timed out", "Timed out while waiting for response"
	[]byte("timeout"),           // TypeScript's "Maximum total timeout exceeded", Rust's "request timeout", Python's TimeoutError, Java's TimeoutException
	[]byte("deadline exceeded"), // Go: "context deadline exceeded"
}

// Impatience returns the words in the reason of a cancel which say that it is a timeout; nil if it
// is none. Records without texts keep them.
func Impatience(reason []byte) []byte {
	lower := bytes.ToLower(reason)
	if len(lower) != len(reason) {
		lower = reason // a letter changes its size
	}
	for _, words := range impatience {
		if at := bytes.Index(lower, words); at >= 0 {
			return reason[at : at+len(words)]
		}
	}
	return nil
}
