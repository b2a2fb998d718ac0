package server

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	nserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/wirectl/wirectl/capture/output"
	"github.com/wirectl/wirectl/hub"
)

// A Right is what a token allows.
type Right string

// The rights.
const (
	Publish Right = "publish" // send sessions, but not view them
	View    Right = "view"    // view sessions, but not send them
	Control Right = "control" // view sessions, and give commands to their senders
	Broker  Right = "broker"  // share limits with other brokers, and use workers
	Worker  Right = "worker"  // work for brokers
)

// Rights lists every right.
var Rights = []Right{Publish, View, Control, Broker, Worker}

// A token is what the hub stores of a token. Only its owner has the secret.
type token struct {
	Name  string `json:"name"`
	Key   string `json:"key"` // public
	Right Right  `json:"right"`
}

func tokensFile(dir string) string { return filepath.Join(dir, "tokens.json") }

// NewToken makes a token for the hub with that folder. It replaces a token of the same name.
// It returns the credentials, for a file that ?creds= names.
func NewToken(dir, name string, right Right) ([]byte, error) {
	if name != hub.Word(name) {
		return nil, fmt.Errorf("invalid token name %q: want letters, digits, - and _", name)
	}
	pair, err := nkeys.CreatePairWithRand(nkeys.PrefixByteUser, rand.Reader)
	if err != nil {
		return nil, err
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	tokens, err := readTokens(tokensFile(dir))
	if err != nil {
		return nil, err
	}
	kept := []token{{name, public, right}}
	for _, t := range tokens {
		if t.Name != name {
			kept = append(kept, t)
		}
	}
	text, err := json.MarshalIndent(kept, "", "  ")
	if err != nil {
		return nil, err
	}
	file, err := output.Begin(tokensFile(dir))
	if err != nil {
		return nil, err
	}
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Close(err == nil)); err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "# wirectl hub token %s --%s\n%s\n", name, right, seed), nil
}

// readTokens reads the tokens of a hub. Without a file, there are none.
func readTokens(file string) (list []token, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("the tokens of the hub in %s: %w", file, err)
	}
	return list, nil
}

// An authority decides who may do what. It reads the tokens for each client, so that a new
// token can be used at once.
type authority struct {
	file string
	open bool   // every client may do everything
	own  string // the public key of the hub itself
	// accounts are the accounts of the rights; nil until they are ready.
	accounts atomic.Pointer[map[Right]*nserver.Account]
}

// Check implements [nserver.Authentication].
func (a *authority) Check(c nserver.ClientAuthentication) bool {
	key := c.GetOpts().Nkey
	if key == "" {
		if a.open {
			c.RegisterUser(&nserver.User{})
		}
		return a.open
	}
	user, err := nkeys.FromPublicKey(key)
	if err != nil {
		return false
	}
	signature, err := base64.RawURLEncoding.DecodeString(c.GetOpts().Sig)
	if err != nil || user.Verify(c.GetNonce(), signature) != nil {
		return false
	}
	if key == a.own {
		c.RegisterUser(&nserver.User{})
		return true
	}
	tokens, err := readTokens(a.file)
	accounts := a.accounts.Load()
	if err != nil || accounts == nil {
		return false
	}
	for _, t := range tokens {
		if account := (*accounts)[t.Right]; t.Key == key && account != nil {
			c.RegisterUser(&nserver.User{Account: account, Permissions: t.permissions()})
			return true
		}
	}
	return false
}

// permissions returns the permissions of a client with the token. A sender sends as a host
// with the name of the token, and cannot reach the sessions of other hosts.
func (t *token) permissions() *nserver.Permissions {
	p := &nserver.Permissions{
		Publish:   &nserver.SubjectPermission{Allow: subjects()[t.Right]},
		Subscribe: &nserver.SubjectPermission{Allow: []string{hub.Inbox + t.Key + ".>"}},
	}
	switch t.Right {
	case Broker:
		p.Publish.Allow = append(p.Publish.Allow, hub.Work+">")
		p.Subscribe.Allow = append(p.Subscribe.Allow, hub.Work+"*.here")
	case Worker: // gets only its own calls, and answers them
		p.Publish.Allow = []string{hub.Work + "*.here"}
		p.Subscribe.Allow = append(p.Subscribe.Allow, hub.Work+"*.who", hub.Work+"*.take.*", hub.Work+"*.call."+t.Name+".>")
		p.Response = &nserver.ResponsePermission{MaxMsgs: -1, Expires: workTime}
	case Publish:
		own := func(subject string) string { return strings.TrimSuffix(subject, ">") + "*." + t.Name + ".*.*" }
		p.Publish.Allow = nil
		for _, subject := range subjects()[Publish] {
			p.Publish.Allow = append(p.Publish.Allow, own(subject))
		}
		p.Subscribe.Allow = append(p.Subscribe.Allow, own(hub.Commands+">"))
		p.Response = &nserver.ResponsePermission{MaxMsgs: 1, Expires: answerTime}
	}
	return p
}

// subjects returns the subjects that each right needs. None creates a consumer, which could
// have messages delivered to any subject.
func subjects() map[Right][]string {
	get := "$JS.API.DIRECT.GET."
	publish, view := []string{hub.Segments + ">"}, []string{get + hub.Stream, hub.Find + "*"}
	for _, bucket := range []string{hub.Presence, hub.Summaries} {
		stream, keys := hub.Bucket(bucket)
		publish = append(publish, keys+">")
		view = append(view, get+stream)
	}
	shared, sharedKeys := hub.Bucket(hub.Shared)
	return map[Right][]string{Broker: {get + shared, sharedKeys + ">"}, Worker: nil, Publish: publish, View: view, Control: append(slices.Clone(view), hub.Commands+">")}
}

// workTime is how long a worker may answer after the last message of its broker.
const workTime = time.Minute

// answerTime is how long an answer to a viewer may take.
const answerTime = 10 * time.Second

// admit makes an account for each right, which reaches only its subjects in the account of
// the hub. The server does not check permissions for the subject of an answer: without
// accounts, a viewer could have an answer published as a segment, and a publisher could
// have an acknowledgement delivered as a command.
func (a *authority) admit(s *nserver.Server) error {
	accounts := map[Right]*nserver.Account{}
	for right, list := range subjects() {
		if right == Worker {
			continue // it uses the account of brokers
		}
		account, err := s.RegisterAccount(string(right))
		if err != nil {
			return err
		}
		for _, subject := range list {
			if strings.HasPrefix(subject, hub.Commands) {
				continue // senders serve it
			}
			answers := nserver.Singleton
			if strings.HasPrefix(subject, "$JS.") || strings.HasPrefix(subject, hub.Find) {
				answers = nserver.Streamed
			}
			err := errors.Join(
				s.GlobalAccount().AddServiceExportWithResponse(subject, answers, nil),
				s.GlobalAccount().SetServiceExportResponseThreshold(subject, answerTime),
				account.AddServiceImport(s.GlobalAccount(), subject, subject),
			)
			if err != nil {
				return err
			}
		}
		accounts[right] = account
	}
	accounts[Worker] = accounts[Broker]
	commands := hub.Commands + ">"
	err := errors.Join(
		accounts[Publish].AddServiceExport(commands, nil),
		accounts[Publish].SetServiceExportResponseThreshold(commands, answerTime),
		accounts[Control].AddServiceImport(accounts[Publish], commands, commands),
	)
	if !a.open { // only the hub itself is in its account
		err = errors.Join(err, s.GlobalAccount().AddServiceImport(accounts[Publish], commands, commands))
	}
	if err != nil {
		return err
	}
	a.accounts.Store(&accounts)
	return nil
}
