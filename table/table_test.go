package table

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/internal/render"
)

type fruit struct {
	name, taste string
	count       int64
}

var fruits = []Column[fruit]{
	{Name: "fruit", Title: "FRUIT", Least: 4, Value: func(f *fruit) any { return f.name }},
	{Name: "count", Title: "COUNT", Right: true, Drop: 2, Value: func(f *fruit) any { return Count(f.count) }},
	{Name: "hidden", Value: func(*fruit) any { return Flag(true) }},
	{Title: "BAR", Drop: 1, Shown: IfAny, Value: func(*fruit) any { return nil }},
	{Name: "taste", Title: "TASTE", Value: func(f *fruit) any { return f.taste }},
}

// The same columns print all forms. On a terminal columns are left out in their order, then names
// are cut; a pipe gets all. What the wire sends is escaped.
func TestForms(t *testing.T) {
	list := []fruit{{"pineapple", "sour", 7}, {"fig\x1b[2J", "", 0}}
	for _, test := range []struct {
		form  string
		width int
		want  string
	}{
		{AsText, 0, "FRUIT       COUNT  TASTE\npineapple       7  sour\nfig\\x1b[2J\n"},
		{AsText, 18, "FRU…  COUNT  TASTE\npin…      7  sour\nfig…\n"},
		{AsText, 10, "FR…  TASTE\npi…  sour\nfi…\n"},
		{AsText, 14, "FRUIT    TASTE\npineap…  sour\nfig\\x1…\n"},
		{AsNDJSON, 14, `{"fruit":"pineapple","count":7,"hidden":true,"taste":"sour"}` + "\n" + `{"fruit":"fig\u001b[2J","hidden":true}` + "\n"},
		{AsCSV, 14, "fruit,count,hidden,taste\npineapple,7,true,sour\nfig\x1b[2J,,true,\n"},
	} {
		var out bytes.Buffer
		if err := Write(Output{To: &out, Form: test.form, Width: test.width, Style: &render.Style{}}, fruits, list); err != nil || out.String() != test.want {
			t.Errorf("%s, %d cells: %v\n%s\nwant\n%s", test.form, test.width, err, &out, test.want)
		}
	}
}

// Live rows are printed at once, in columns of their usual widths.
func TestLive(t *testing.T) {
	var out bytes.Buffer
	p := Printer[fruit]{Output: Output{To: &out, Form: AsText, Style: render.Palette(true), Indent: "  "}, Columns: fruits, Live: true}
	p.Print(&fruit{"kiwi", "sweet", 1})
	if got := strings.Count(out.String(), "\n"); got != 2 || !strings.Contains(out.String(), "\n  kiwi       1  sweet\n") {
		t.Errorf("%q", &out)
	}
}

// Rows that are printed aside are the same, in order. The first error is known before the end, after which no
// more is written.
func TestAside(t *testing.T) {
	list := make([]fruit, 10_000)
	for i := range list {
		list[i].count = int64(i + 1)
	}
	var want, got bytes.Buffer
	if err := Write(Output{To: &want, Form: AsNDJSON}, fruits, list); err != nil {
		t.Fatal(err)
	}
	p := Printer[fruit]{Output: Output{To: &got, Form: AsNDJSON}, Columns: fruits, Aside: true}
	for i := range list {
		p.Print(&list[i])
	}
	if err := p.Close(); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%d bytes, want %d: %v", got.Len(), want.Len(), err)
	}
	broken := &closedPipe{}
	p = Printer[fruit]{Output: Output{To: broken, Form: AsNDJSON}, Columns: fruits, Aside: true}
	for printed := 0; p.Err() == nil; printed++ {
		if p.Print(&list[printed%len(list)]); printed > 100_000_000 {
			t.Fatal("no error")
		}
	}
	if err := p.Close(); err != io.ErrClosedPipe || broken.writes != 1 {
		t.Errorf("%v after %d writes", err, broken.writes)
	}
	p = Printer[fruit]{Output: Output{To: &got, Form: AsNDJSON}, Columns: fruits, Aside: true}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

type closedPipe struct{ writes int }

func (c *closedPipe) Write([]byte) (int, error) {
	c.writes++
	return 0, io.ErrClosedPipe
}

func TestBar(t *testing.T) {
	for _, tt := range []struct {
		solid, shade float64
		cells        int
		want         string
	}{
		{0, 0, 4, ""},
		{1, 1, 4, "████"},
		{.5, .5, 4, "██"},
		{.53125, .53125, 4, "██▏"},
		{.5, 1, 4, "██░░"},
		{0, .5, 4, "░░"},
		{1e-9, 1e-9, 4, "▏"}, // a small value is still visible
	} {
		if got := barOf(tt.solid, tt.shade, tt.cells); got != tt.want {
			t.Errorf("%v %v: %q, want %q", tt.solid, tt.shade, got, tt.want)
		}
	}
}

func TestDurationsHaveThreeDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                       "0s",
		1234:                    "1.23µs",
		850_400:                 "850µs",
		1_234_567:               "1.23ms",
		31_249_000:              "31.2ms",
		488_875_000:             "489ms",
		1_851_000_000:           "1.85s",
		3725*time.Second + 1e8:  "1h2m5s",
		119*time.Second + 949e6: "2m0s",
		-time.Second:            "-1s",
	} {
		if got := Millis(d).String(); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
	if b, err := Millis(1_234_567).MarshalJSON(); string(b) != "1.235" || err != nil {
		t.Errorf("%s %v", b, err)
	}
}
