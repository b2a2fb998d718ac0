package render

import "testing"

func TestAppendSafe(t *testing.T) {
	for _, c := range []struct{ text, want, why string }{
		{"plain text", "plain text", "ASCII stays"},
		{"日本 é Привет", "日本 é Привет", "and so does any script"},
		{`C:\new`, `C:\new`, "a backslash is not an escape"},
		{"one\r\n\ttwo", `one\r\n\ttwo`, "one line stays one line"},
		{"\x1b[2J\x1b]0;title\a", `\x1b[2J\x1b]0;title\x07`, "nothing reaches the terminal as a command"},
		{"nul \x00 del \x7f", `nul \x00 del \x7f`, "C0 and DEL"},
		{"csi \u009b2J", `csi \u009b2J`, "C1 controls act like ESC"},
		{"bad \xff\xc3(\xe2\x82", `bad \xff\xc3(\xe2\x82`, "bytes that are not UTF-8"},
		{"\xed\xa0\x80", `\xed\xa0\x80`, "a surrogate is not UTF-8"},
		{"user\u202etxt.exe", `user\u202etxt.exe`, "text does not run backwards"},
		{"\u2066a\u2069\u200f\u061c", `\u2066a\u2069\u200f\u061c`, "isolates and marks"},
		{"a\u2028b\u2029c", `a\u2028b\u2029c`, "separators break lines in some programs"},
		{"\ufeffbom, so\u00adft", `\ufeffbom, so\u00adft`, "a mark at the head, a hyphen that may not show"},
		{"ad\u200bmin ad\u200dmin", `ad\u200bmin ad\u200dmin`, "two ids that differ look different"},
		{"\u3164\u115f", `\u3164\u115f`, "fillers are letters that cannot be seen"},
		{"\U000e0041\U000e0042", `\U000e0041\U000e0042`, "tags carry hidden text"},
		{"👩\u200d💻 ❤\ufe0f 👁\ufe0f\u200d🗨\ufe0f", "👩\u200d💻 ❤\ufe0f 👁\ufe0f\u200d🗨\ufe0f", "emoji keep what joins them"},
		{"می\u200cخواهم", "می\u200cخواهم", "Persian is written with joiners"},
		{"❤\ufe0f\ufe0f 👩\u200d\u200d", "❤\ufe0f" + `\ufe0f` + " 👩\u200d" + `\u200d`, "one is enough"},
		{"1\ufe0f", `1\ufe0f`, "nothing hides behind ASCII"},
	} {
		if got := string(AppendSafe(nil, []byte(c.text))); got != c.want {
			t.Errorf("%q:\n got %s\nwant %s\n%s", c.text, got, c.want, c.why)
		}
	}
}

func TestAppendSafeKeepsDst(t *testing.T) {
	if got := string(AppendSafe([]byte("a"), []byte("b\n"))); got != `ab\n` {
		t.Errorf("got %s", got)
	}
}
