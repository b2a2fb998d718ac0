package render

import "fmt"

// Safe is [AppendSafe] for a text among others.
func Safe(text string) string { return string(AppendSafe(nil, []byte(text))) }

// Count says how many there are of a thing: "1 frame", "2 frames".
func Count(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
