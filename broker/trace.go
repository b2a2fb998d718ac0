package broker

import "strings"

// ParseTraceparent reads a W3C trace context. What is none is not ok, and must
// not be passed on: it would be a header of anybody's making.
func ParseTraceparent(s string) (trace, span, flags string, ok bool) {
	parts := strings.Split(s, "-")
	if len(parts) < 4 || parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 {
		return "", "", "", false
	}
	for i, size := range [...]int{2, 32, 16, 2} {
		if len(parts[i]) != size || strings.Trim(parts[i], "0123456789abcdef") != "" {
			return "", "", "", false
		}
	}
	if strings.Trim(parts[1], "0") == "" || strings.Trim(parts[2], "0") == "" {
		return "", "", "", false
	}
	return parts[1], parts[2], parts[3], true
}

// validTraceparent returns a trace context that may be passed on, or "".
func validTraceparent(s string) string {
	if s == "" {
		return ""
	}
	trace, span, flags, ok := ParseTraceparent(s)
	if !ok {
		return ""
	}
	return "00-" + trace + "-" + span + "-" + flags
}
