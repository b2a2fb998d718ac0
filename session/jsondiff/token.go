package jsondiff

import (
	"strings"

	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// HoldsID reports whether ids stand under a key, judged by its name: id,
// requestId, target_id, progressToken, request_seq, or in a list under it: taskIds. The requestState of a call of MCP
// names what its retry continues.
func HoldsID(key string) bool {
	key = strings.ToLower(key)
	return key == "requeststate" || strings.HasSuffix(key, "id") || strings.HasSuffix(key, "ids") || strings.HasSuffix(key, "token") || strings.HasSuffix(key, "seq")
}

// IsToken reports whether a JSON value is the token that has that text: tokens
// of some protocols have their quotes, and of others not.
func IsToken(value []byte, text string) bool {
	if string(value) == text {
		return true
	}
	unquoted, ok := jsonscan.Unquote(value)
	return ok && string(unquoted) == text
}
