package door

import (
	"errors"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// InvalidJSON is the error message for a payload that is not JSON. It names NaN and Infinity,
// which Python writes by default.
func InvalidJSON(payload []byte, err error) string {
	const sentence = "Invalid JSON payload"
	if syntax, ok := errors.AsType[*jsonscan.SyntaxError](err); ok && syntax.Offset < len(payload) {
		at := payload[max(0, syntax.Offset-1):] // -Infinity fails at its second byte
		word := strings.TrimLeft(string(at[:min(len(at), 10)]), "-:,[ ")
		if strings.HasPrefix(word, "NaN") || strings.HasPrefix(word, "Infinity") {
			return sentence + ": NaN and Infinity are not JSON"
		}
	}
	return sentence
}
