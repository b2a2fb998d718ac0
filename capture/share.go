package capture

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/wirectl/wirectl/internal/render"
)

// A Share makes a session fit to be shown to others. Besides secrets it takes out e-mail addresses, the
// names of users, as in home folders, and those of hosts, and puts names in their places that are always the same: user-1.
// What belongs to the protocol stays: methods, ids, the names of members and tools.
type Share struct {
	users, hosts map[string]bool      // whether they are words to look for
	names        map[string]*Replaced // by the text
	order        []*Replaced
	counts       map[string]int // of names, by kind
}

// Replaced is a text that a share has replaced.
type Replaced struct {
	Kind  string `json:"kind"`           // user, host, email or secret
	Text  string `json:"text,omitempty"` // "" of a secret
	Name  string `json:"name"`
	Count int    `json:"count"`
}

const maxShared = 1 << 16 // texts that are told apart

// The places where the names of users and hosts are. Separators may be escaped as in URLs.
const (
	letter       = `[\p{L}\p{M}\p{N}_.-]`
	slash        = `(?:/|%2[Ff]|\\{1,4})`
	folderOfUser = `(?:(?:/|%2[Ff]|\b[A-Za-z](?::|%3[Aa])` + slash + `)(?:home|[Uu]sers)` + slash + `)(?P<` + secretGroup + `>(?:[\p{L}\p{N}_]|%[89A-Fa-f][0-9A-Fa-f])(?:` + letter + `|%(?:20|[89A-Fa-f][0-9A-Fa-f]))*)`
	spacedFolder = `\b[A-Za-z]:\\{1,4}[Uu]sers\\{1,4}(?P<` + secretGroup + `>[^\\/:*?"<>|\x00-\x1f]{1,64})\\`
	tilde        = `(?:^|[\s"'=:(])~(?P<` + secretGroup + `>[A-Za-z]` + letter + `*)/`
	variable     = `\b(?:USER|USERNAME|LOGNAME|SUDO_USER)` + isSet + `(?P<` + secretGroup + `>\p{L}` + letter + `*)`
	email        = `(?P<` + secretGroup + `>(?:"[^"\s@]+(?: [^"\s@]+)*"|[\p{L}\p{N}_][\p{L}\p{M}\p{N}_.+'-]*)(?:@|%40)[\p{L}\p{M}\p{N}_-]+(?:\.[\p{L}\p{M}\p{N}_-]+)*\.\p{L}[\p{L}\p{M}]+)`
	hostOfUser   = `\b[\w.-]+@(?P<` + secretGroup + `>[\w-]+):`
	hostInURL    = `://[^/\s@"']+@(?P<` + secretGroup + `>[\w-]+)(?:[:/\s"']|$)`
	share        = `(?:^|[\s"'=(])(?:\\\\){1,2}(?P<` + secretGroup + `>[A-Za-z][\w-]*)\\{1,2}[\w$]`
	hostVariable = `\b(?:HOST|HOSTNAME|COMPUTERNAME)` + isSet + `(?P<` + secretGroup + `>[A-Za-z][\w.-]*)`
	isSet        = `(?:=["']?|["']\s*:\s*["'])`
	ownHost      = `(?P<` + secretGroup + `>\b[\w-]+(?:\.[\w-]+)*\.(?:local|lan|internal|corp|intranet|home\.arpa))(?:\.?$|\.?[^\w.-]|\.[^\w])`
	ownAddress   = `(?P<` + secretGroup + `>\b(?:10\.\d{1,3}|192\.168|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])|172\.(?:1[6-9]|2\d|3[01]))\.\d{1,3}\.\d{1,3}\b|(?i:\bf(?:[cd][0-9a-f]{2}|e80)(?::[0-9a-f]{0,4}){2,7}\b))`
)

var (
	userPatterns   = compiled(folderOfUser, spacedFolder, variable, tilde)
	hostPatterns   = compiled(hostOfUser, hostInURL, hostVariable, share)
	emailPattern   = regexp.MustCompile(email)
	hostPattern    = regexp.MustCompile(ownHost)
	addressPattern = regexp.MustCompile(ownAddress)
)

func compiled(patterns ...string) (list []*regexp.Regexp) {
	for _, p := range patterns {
		list = append(list, regexp.MustCompile(p))
	}
	return list
}

// general are names of users and hosts that tell nothing, and are words elsewhere.
var general = strings.Fields("user users home root admin administrator test guest public shared default node app runner ubuntu debian ec2-user vscode codespace localhost host server me dev www")

// NewShare returns a share that knows the user and the host of this machine.
func NewShare() *Share {
	s := &Share{users: map[string]bool{}, hosts: map[string]bool{}, names: map[string]*Replaced{}, counts: map[string]int{}}
	if u, err := user.Current(); err == nil {
		learn(s.users, u.Username[strings.LastIndexByte(u.Username, '\\')+1:], true)
	}
	if name, err := os.Hostname(); err == nil {
		learn(s.hosts, name, true)
	}
	return s
}

// learn notes a name, which is replaced elsewhere, too, if it is a word.
func learn(names map[string]bool, name string, isWord bool) {
	const least, most = 3, 64
	if len(names) < maxShared {
		name = strings.ToLower(name)
		names[name] = names[name] || isWord && len(name) >= least && len(name) <= most && !slices.Contains(general, name)
	}
}

// Learn notes the names of users and hosts in a text of a session, which are then replaced wherever they are words.
func (s *Share) Learn(text []byte) {
	if bytes.Contains(text, []byte(`\u`)) {
		text = slices.Concat(text, []byte("\n"), escapePattern.ReplaceAllFunc(text, func(e []byte) []byte {
			n, _ := strconv.ParseUint(string(e[2:]), 16, 16)
			return utf8.AppendRune(nil, rune(n))
		}))
	}
	for of, patterns := range map[*map[string]bool][]*regexp.Regexp{&s.users: userPatterns, &s.hosts: hostPatterns} {
		for i, p := range patterns {
			for _, m := range p.FindAllSubmatch(text, -1) {
				learn(*of, string(m[1]), i < len(patterns)-1) // the last ones are not that sure
			}
		}
	}
}

var escapePattern = regexp.MustCompile(`\\u[0-9a-fA-F]{4}`)

// LearnRecord notes the names in a record.
func (s *Share) LearnRecord(r *Record) {
	s.Learn(r.Text)
	if r.Kind == Frame {
		s.Learn(r.Payload())
		if r.Meta != nil && r.Meta.Head != nil {
			s.Learn([]byte(r.Meta.Head.Start))
		}
	}
}

// Redaction returns what is to be taken out.
func (s *Share) Redaction() Redaction {
	x := Secrets()
	x.Values = slices.Concat(x.Values, userPatterns, hostPatterns, []*regexp.Regexp{emailPattern, hostPattern, addressPattern})
	for _, names := range []map[string]bool{s.users, s.hosts} {
		for name, isWord := range names {
			if !isWord {
				continue
			}
			x.Values = append(x.Values, regexp.MustCompile(`(?i)(?:^|[^0-9A-Za-z_])(?P<`+secretGroup+`>`+regexp.QuoteMeta(name)+`)(?:$|[^0-9A-Za-z_])`))
		}
	}
	x.Name, x.KeepsOwn = s.nameOf, true
	return x
}

// nameOf returns the name that takes the place of a text.
func (s *Share) nameOf(text []byte) string {
	key := strings.ToLower(string(text))
	r := s.names[key]
	if r == nil {
		if len(s.order) >= maxShared {
			return ""
		}
		r = &Replaced{Kind: s.kindOf(text), Text: string(text)}
		s.counts[r.Kind]++
		if r.Name = fmt.Sprintf("%s-%d", r.Kind, s.counts[r.Kind]); r.Kind == "email" {
			r.Name += "@example.com"
		}
		if r.Kind == "secret" {
			r.Text = ""
		}
		s.names[key], s.order = r, append(s.order, r)
	}
	r.Count++
	return r.Name
}

func (s *Share) kindOf(text []byte) string {
	whole := func(re *regexp.Regexp) bool { return len(re.Find(text)) == len(text) }
	switch name := string(text); {
	case whole(emailPattern):
		return "email"
	default:
		_, isUser := s.users[strings.ToLower(name)]
		_, isHost := s.hosts[strings.ToLower(name)]
		switch {
		case isUser:
			return "user"
		case isHost, whole(hostPattern), whole(addressPattern):
			return "host"
		}
	}
	return "secret"
}

// Replaced returns what was replaced, users first.
func (s *Share) Replaced() []Replaced {
	var list []Replaced
	for _, r := range s.order {
		list = append(list, *r)
	}
	kinds := []string{"user", "host", "email", "secret"}
	slices.SortStableFunc(list, func(a, b Replaced) int { return cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)) })
	return list
}

// Write writes a line for each text that was replaced; not those of secrets.
func (s *Share) Write(w io.Writer) error {
	var b bytes.Buffer
	for _, r := range s.Replaced() {
		fmt.Fprintf(&b, "%-24s %6d  %s\n", r.Name, r.Count, render.Safe(cmp.Or(r.Text, "(a secret)")))
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Summary says how many texts were replaced: "replaced 2 users, 1 email".
func (s *Share) Summary() string {
	var parts []string
	for _, kind := range []string{"user", "host", "email", "secret"} {
		if n := s.counts[kind]; n > 0 {
			parts = append(parts, render.Count(int64(n), kind))
		}
	}
	if parts == nil {
		return "nothing to replace was found: read the result before you share it"
	}
	return "replaced " + strings.Join(parts, ", ") + ": read the result before you share it"
}

// isOwn reports whether a value of JSON at a path belongs to the protocol.
func (e *eraser) isOwn(path []string, token []byte) bool {
	return e.own != nil && len(token) > 1 && e.own.keeps(path, bytes.Trim(token, `"`))
}
