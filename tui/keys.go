package tui

import "github.com/charmbracelet/bubbles/key"

// keyMap holds all keys; the help is drawn from it.
type keyMap struct {
	Up, Down, PageUp, PageDown, Top, Bottom, Left, Right    key.Binding
	Next, Previous, Open, Back                              key.Binding
	IDs, Frames, Findings, Stats, Peers                     key.Binding
	Freeze, Follow, Sort, Group, Live, Wider, Narrower, Fit key.Binding
	Filter, Search, SearchNext, SearchBack, Clear           key.Binding
	Fold, FoldAll, JQ, Copy, Diff, Pane                     key.Binding
	Bookmark, Note, Write                                   key.Binding
	Cancel, Resend, Hold, Release, Edit, Drop               key.Binding
	Theme, Mouse, Help, Quit                                key.Binding
}

func bind(help string, keys ...string) key.Binding {
	shown := keys[0]
	if len(keys) > 1 {
		shown += " " + keys[1]
	}
	return key.NewBinding(key.WithKeys(keys...), key.WithHelp(shown, help))
}

func newKeyMap() keyMap {
	return keyMap{
		Up: bind("up", "k", "up"), Down: bind("down", "j", "down"),
		PageUp: bind("page up", "pgup", "ctrl+b", "ctrl+u"), PageDown: bind("page down", "pgdown", "ctrl+f", "ctrl+d"),
		Top: bind("first", "g", "home"), Bottom: bind("last", "G", "end"),
		Left: bind("earlier", "h", "left"), Right: bind("later", "l", "right"),
		Next: bind("next view", "tab"), Previous: bind("previous view", "shift+tab"),
		Open: bind("open", "enter"), Back: bind("back", "esc", "backspace"),
		IDs: bind("ids", "1"), Frames: bind("frames", "2"), Findings: bind("findings", "3"), Stats: bind("stats", "4"), Peers: bind("peers", "5"),
		Freeze: bind("freeze", " "), Follow: bind("follow the newest", "F"),
		Sort: bind("sort", "s"), Group: bind("group", "b"), Live: bind("in flight only", "c"),
		Wider: bind("zoom in", "+", "="), Narrower: bind("zoom out", "-"), Fit: bind("show the whole time", "0"),
		Filter: bind("filter", "f", ":"), Search: bind("search", "/"), SearchNext: bind("next match", "n"), SearchBack: bind("previous match", "N"),
		Clear: bind("clear the filter", "x"),
		Fold:  bind("fold", "o"), FoldAll: bind("fold all", "O"), JQ: bind("jq on the payload", "|"), Copy: bind("copy", "y"),
		Diff: bind("compare frames", "d"), Pane: bind("tree, hex or both", "v"),
		Bookmark: bind("bookmark", "m"), Note: bind("note", "a"), Write: bind("write to a file", "w"),
		Cancel: bind("send a cancel", "X"), Resend: bind("send the request again", "R"), Hold: bind("hold frames that match", "H"),
		Release: bind("release the held frame", "u"), Edit: bind("edit the held frame", "e"), Drop: bind("drop the held frame", "D"),
		Theme: bind("dark or light", "T"), Mouse: bind("mouse on or off", "M"), Help: bind("help", "?"), Quit: bind("quit", "q", "ctrl+c"),
	}
}

// A keyGroup is a part of the help.
type keyGroup struct {
	title string
	keys  []key.Binding
}

func (k *keyMap) groups() []keyGroup {
	return []keyGroup{
		{"Views", []key.Binding{k.IDs, k.Frames, k.Findings, k.Stats, k.Peers, k.Next, k.Previous, k.Open, k.Back}},
		{"Moving", []key.Binding{k.Up, k.Down, k.PageUp, k.PageDown, k.Top, k.Bottom, k.Left, k.Right, k.Follow, k.Freeze}},
		{"Ids", []key.Binding{k.Sort, k.Group, k.Fold, k.FoldAll, k.Live, k.Wider, k.Narrower, k.Fit, k.Note}},
		{"Filter and search", []key.Binding{k.Filter, k.Clear, k.Search, k.SearchNext, k.SearchBack, k.Bookmark}},
		{"A frame", []key.Binding{k.Pane, k.Fold, k.FoldAll, k.JQ, k.Copy, k.Diff, k.Write}},
		{"Live traffic", []key.Binding{k.Cancel, k.Resend, k.Hold, k.Release, k.Edit, k.Drop}},
		{"wirectl", []key.Binding{k.Theme, k.Mouse, k.Help, k.Quit}},
	}
}
