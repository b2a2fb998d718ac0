package jsondiff

import (
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// HoldsID reports whether a key holds ids, judged by its name: id, requestId, target_id,
// progressToken, request_seq, or a list such as taskIds. The requestState of an MCP call names
// the call that a retry continues.
func HoldsID(key string) bool {
	key = strings.ToLower(key)
	return key == "requeststate" || strings.HasSuffix(key, "id") || strings.HasSuffix(key, "ids") || strings.HasSuffix(key, "token") || strings.HasSuffix(key, "seq")
}

// IsToken reports whether a JSON value is the token with that text. Tokens of some protocols
// include the quotes.
func IsToken(value []byte, text string) bool {
	if string(value) == text {
		return true
	}
	unquoted, ok := jsonscan.Unquote(value)
	return ok && string(unquoted) == text
}
