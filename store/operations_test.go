package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/store"
)

// task is a call of a tool that becomes a task, which is asked for twice.
const task = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"build","arguments":{}}}
{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"k","status":"working"}}
{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"k"}}
{"jsonrpc":"2.0","id":2,"result":{"taskId":"k","status":"working"}}
{"jsonrpc":"2.0","id":3,"method":"ping"}
{"jsonrpc":"2.0","id":3,"result":{}}
{"jsonrpc":"2.0","id":4,"method":"tasks/get","params":{"taskId":"k"}}
{"jsonrpc":"2.0","id":4,"result":{"taskId":"k","status":"completed"}}
`

func streamed(t testing.TB, o store.Options, text string) *store.Store {
	t.Helper()
	return filled(t, o, decode.Input{Stream: strings.NewReader(text)})
}

// listed is the list of exchanges as ids, with a + before what belongs to another.
func listed(s *store.Store, q store.IDsQuery) string {
	q.N = 100
	var ids []string
	for _, x := range s.IDs(q).List {
		switch {
		case x.Group != nil:
			ids = append(ids, fmt.Sprintf("%s(%d)", x.Group.Name, x.Group.Total))
		case x.Operation != 0:
			ids = append(ids, "+"+x.ID)
		default:
			ids = append(ids, x.ID)
		}
	}
	return strings.Join(ids, " ")
}

// What belongs to an operation is listed below it if that is unfolded, in any order, in
// groups, and of what a filter matches.
func TestOperationsAreListed(t *testing.T) {
	s := streamed(t, store.Options{}, task)
	all := store.Folds{All: true}
	mark := s.IDs(store.IDsQuery{Sort: store.ByArrival, N: 1}).List[0].Mark
	but := store.Folds{But: map[uint32]bool{mark: true}}
	for _, test := range []struct {
		filter string
		query  store.IDsQuery
		want   string
	}{
		{"", store.IDsQuery{}, "3 1"},
		{"", store.IDsQuery{Unfolded: all}, "3 1 +2 +4"},
		{"", store.IDsQuery{Sort: store.ByArrival, Unfolded: but}, "1 +2 +4 3"},
		{"", store.IDsQuery{Group: store.GroupKind}, "tools/call(1) 1 ping(1) 3"},
		{"", store.IDsQuery{Group: store.GroupKind, Unfolded: all}, "tools/call(1) 1 +2 +4 ping(1) 3"},
		{"", store.IDsQuery{Group: store.GroupKind, Unfolded: all, Folds: all}, "tools/call(1) ping(1)"},
		{"seq>6", store.IDsQuery{Unfolded: all}, "1 +4"},
		{"kind==tasks/get", store.IDsQuery{}, "1"},
		{"kind==ping", store.IDsQuery{Unfolded: all}, "3"},
		{"name==build", store.IDsQuery{}, "1"},
		{`name=="build"`, store.IDsQuery{}, "1"},
		{"name==buil", store.IDsQuery{}, ""},
	} {
		setFilter(t, s, test.filter)
		if got := listed(s, test.query); got != test.want {
			t.Errorf("%q %+v: %s, want %s", test.filter, test.query, got, test.want)
		}
	}
	if _, err := store.ParseFilter(`name=="x`); err == nil {
		t.Error("a name is taken whose quotes do not end")
	}
}

// What goes on though its operation is over is among those in flight.
func TestInFlightBelow(t *testing.T) {
	lines := strings.SplitAfter(task, "\n")
	in := decode.Input{Stream: strings.NewReader(lines[0] + lines[1] + lines[2] +
		`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"k","status":"completed"}}` + "\n")}
	s := store.New(store.Options{})
	defer s.Close()
	s.Begin(in)
	if err := s.Read(t.Context(), in, decode.Config{Workers: 1}); err != nil {
		t.Fatal(err)
	}
	for want, q := range map[string]store.IDsQuery{"1 +2": {Unfolded: store.Folds{All: true}}, "1": {}, "+2": {OpenOnly: true}} {
		if got := listed(s, q); got != want {
			t.Errorf("%+v: %s, want %s", q, got, want)
		}
	}
}

// What is folded away is found at its operation, and that at its group.
func TestFoldedIsFound(t *testing.T) {
	s := streamed(t, store.Options{}, task)
	list := s.IDs(store.IDsQuery{Unfolded: store.Folds{All: true}, N: 10}).List
	at := store.Spot{Number: list[3].Mark}
	if p := s.IDs(store.IDsQuery{At: at, N: 10}); p.At.Number != list[1].Mark {
		t.Errorf("it is found at %v", p.At)
	}
	if p := s.IDs(store.IDsQuery{At: at, Group: store.GroupConn, Folds: store.Folds{All: true}, N: 10}); !p.At.Heading {
		t.Errorf("it is found at %v", p.At)
	}
}

// The ledger of an operation has the frames of what belongs to it, as has the file that it
// is written to; that of an exchange which belongs to one has its own.
func TestLedgerOfOperation(t *testing.T) {
	s := streamed(t, store.Options{}, task)
	of := func(seq int64) (seqs []int64) {
		for _, e := range s.Outline(seq).Ledger {
			seqs = append(seqs, e.Seq)
		}
		return seqs
	}
	for seq, want := range map[int64][]int64{1: {1, 2, 3, 4, 7, 8}, 3: {3, 4}, 8: {7, 8}, 5: {5, 6}} {
		if got := of(seq); !slices.Equal(got, want) {
			t.Errorf("the ledger of frame %d is %v, want %v", seq, got, want)
		}
	}
	d := s.Detail(1)
	if n := s.RecordsOf(1, d.Mark).Len(); n != 6 {
		t.Errorf("%d frames are written", n)
	}
	if x := d.Exchange; x.Joined != 2 || x.Of != 0 || x.OutcomeName() != "done" || x.Closed != 8 {
		t.Errorf("the operation is %+v", x)
	}
	if x := s.Outline(3).Exchange; x.Of != 1 || x.Operation != d.Mark {
		t.Errorf("what belongs to it is %+v", x)
	}
}

// What is found about an exchange that belongs to an operation is told of that, too.
func TestFindingsBelow(t *testing.T) {
	s := streamed(t, store.Options{}, task+`{"jsonrpc":"2.0","id":2,"result":{}}`+"\n")
	for _, x := range s.IDs(store.IDsQuery{Unfolded: store.Folds{All: true}, N: 10}).List {
		if want := map[string]int{"1": 1, "2": 1}[x.ID]; x.Findings != want {
			t.Errorf("%s has %d findings, want %d", x.ID, x.Findings, want)
		}
	}
}

// What belongs to an operation that is not kept any more is listed for itself.
func TestOperationIsDropped(t *testing.T) {
	var text strings.Builder
	lines := strings.SplitAfter(task, "\n")
	text.WriteString(strings.Join(lines[:4], ""))
	for i := range 20_000 {
		fmt.Fprintf(&text, `{"jsonrpc":"2.0","id":"p%d","method":"ping"}`+"\n"+`{"jsonrpc":"2.0","id":"p%d","result":{}}`+"\n", i, i)
	}
	text.WriteString(strings.Join(lines[6:], ""))
	s := streamed(t, store.Options{Exchanges: 5000}, text.String())
	if first := s.IDs(store.IDsQuery{N: 2}).List[0]; first.ID != "4" || first.Operation != 0 {
		t.Errorf("the last is %+v", first)
	}
}
