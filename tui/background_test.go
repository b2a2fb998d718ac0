package tui

import (
	"image/color"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// chunks is a terminal whose input arrives in pieces.
type chunks struct {
	file
	list []string
}

func (c *chunks) Read(p []byte) (int, error) {
	n := copy(p, c.list[0])
	c.list = c.list[1:]
	return n, nil
}

// typed returns the typed keys, and the reported themes for the background.
func typed(list ...string) (keys string, heard []string) {
	c := &chunks{list: list}
	k := &keyboard{file: c, heard: func(c color.Color) { heard = append(heard, background{c}.theme("unknown")) }}
	buf := make([]byte, 256)
	for len(c.list) > 0 {
		n, _ := k.Read(buf)
		keys += string(buf[:n])
	}
	return keys + string(k.held), heard
}

// Only the answer is removed from the keys, wherever it arrives and however it is split.
func TestBackgroundAmongKeys(t *testing.T) {
	for answer, want := range map[string]string{
		"\x1b]11;rgb:ffff/ffff/ffff\x1b\\": "light", "\x1b]11;rgb:1e/1e/2e\a": "dark",
		"\x1b]11;#fdf6e3\a": "light", "\x1b]11;rgba:ffff/ffff/dddd/ffff\a": "light", "\x1b]11;?\a": "unknown",
	} {
		for cut := 2; cut <= len(answer); cut++ {
			keys, heard := typed("\x1b", "ab"+answer[:cut], answer[cut:]+"c", "\x1b", "]11;")
			if keys != "\x1babc\x1b]11;" || len(heard) != 1 || heard[0] != want {
				t.Errorf("%q, cut at %d: keys %q, heard %q; want %s", answer, cut, keys, heard, want)
			}
		}
	}
	fills := strings.Repeat("x", 255)
	if keys, heard := typed(fills+"\x1b", "]11;rgb:0/0/0\ay"); keys != fills+"y" || len(heard) != 1 {
		t.Errorf("cut by the buffer: keys %q, heard %q", keys, heard)
	}
	for _, list := range [][]string{
		{"\x1b", "q"}, {"\x1b]", "x"}, {"\x1b]1", "0;x\a"}, {"\x1b[A", "\x1b[<0;1;1M"}, {"\x1b]11;" + strings.Repeat("f", maxAnswer), "x"},
	} {
		if keys, heard := typed(list...); keys != strings.Join(list, "") || len(heard) > 0 {
			t.Errorf("%q: keys %q, heard %q", list, keys, heard)
		}
	}
}

// A user who quits before the answer waits for it, or quits at once with a second key.
// Otherwise the shell would read the answer as keys.
func TestLeavingBeforeTheAnswer(t *testing.T) {
	soon := func() *question { return &question{queriedAt: time.Now().Add(time.Hour)} }
	leaves := func(q *question, msgs ...tea.Msg) (got []bool) {
		for _, msg := range msgs {
			_, quit := q.filter(nil, msg).(tea.QuitMsg)
			got = append(got, quit)
		}
		return got
	}
	quit, answer := tea.QuitMsg{}, background{}
	for _, tt := range []struct {
		about string
		q     *question
		msgs  []tea.Msg
		want  []bool
	}{
		{"quits, and the answer comes", soon(), []tea.Msg{quit, answer}, []bool{false, true}},
		{"quits twice", soon(), []tea.Msg{quit, quit}, []bool{false, true}},
		{"the answer has come", soon(), []tea.Msg{answer, quit}, []bool{false, true}},
		{"no answer comes any more", &question{queriedAt: time.Now().Add(-time.Hour)}, []tea.Msg{quit}, []bool{true}},
	} {
		got := leaves(tt.q, tt.msgs...)
		for i := range got {
			if got[i] != tt.want[i] {
				t.Errorf("%s: %t, want %t", tt.about, got, tt.want)
				break
			}
		}
	}
}
