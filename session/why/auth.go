package why

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/session"
)

// The steps of MCP's authorization, in their order.
type authStep uint8

const (
	asks      authStep = iota // a request to the server of tools
	describes                 // the metadata of the resource: RFC 9728
	issues                    // the metadata of the authorization server: RFC 8414, or OpenID Connect Discovery
	registers                 // the registration of the client: RFC 7591
	authorizes
	grants // a token
)

var authSteps = [...]string{
	asks: "the request", describes: "the resource's metadata", issues: "the authorization server's metadata",
	registers: "the registration of the client", authorizes: "the authorization by the user", grants: "the token",
}

// A visit is a request over HTTP that may be a part of an authorization, with its response.
type visit struct {
	step      authStep
	seq       int64 // of the request
	answered  int64 // the frame of the head of the response
	at, until time.Time
	host      string
	path      string
	token     bool   // it carries one
	resource  bool   // it names the resource
	grant     string // of a request for a token
	status    string
	challenge string // the WWW-Authenticate of the response
	fault     string // what the body of a response says of its failure
	names     bool   // the body of a metadata document has what the next step needs
	scope     string
}

func (v *visit) ok() bool {
	return strings.HasPrefix(v.status, "2") || strings.HasPrefix(v.status, "3")
}

// auth is what a session shows of the authorization of its servers over HTTP.
type auth struct {
	open       map[exchange]*visit
	visits     []*visit
	challenged map[string]bool // servers of tools that want authorization, by host and path
	version    string          // of MCP
}

const maxVisits = 1 << 10

var protocolVersion = regexp.MustCompile(`"protocolVersion"\s*:\s*"(\d{4}-\d\d-\d\d)"`)

// see reads a frame of HTTP.
func (a *auth) see(f *Frame) {
	at, head := exchange{f.Conn, f.Stream}, f.Meta.Head
	switch {
	case head.Method() != "":
		a.sent(f, at, head)
	case f.Dir == frame.U2C && a.open[at] != nil:
		v := a.open[at]
		if status := head.Status(); status != "" && status[0] != '1' {
			v.status, v.answered, v.until = status, f.Seq, f.Time
			v.challenge = strings.Join(head.Values("Www-Authenticate"), ", ")
			a.conclude(v)
		}
		a.body(v, f.Body)
		if f.Meta.Signal == frame.End || head != nil && !strings.HasPrefix(head.Start, "HTTP/2") {
			delete(a.open, at)
		}
	case f.Dir != frame.U2C && a.open[at] != nil && f.Meta.Signal == frame.NoSignal: // in HTTP/2
		a.asked(a.open[at], f.Body)
	}
}

func (a *auth) sent(f *Frame, at exchange, head *frame.Head) {
	target := head.Target()
	u, err := url.Parse(target)
	if err != nil {
		return
	}
	v := &visit{seq: f.Seq, at: f.Time, host: strings.ToLower(head.Get("Host") + head.Get(":authority")), path: u.Path, token: head.Get("Authorization") != ""}
	if v.host == "" {
		v.host = u.Host
	}
	switch path := u.Path; {
	case strings.Contains(path, "/.well-known/oauth-protected-resource"):
		v.step = describes
	case strings.Contains(path, "/.well-known/oauth-authorization-server"), strings.Contains(path, "/.well-known/openid-configuration"):
		v.step = issues
	case head.Method() == "GET" && u.Query().Get("response_type") != "":
		v.step = authorizes
		v.resource = u.Query().Get("resource") != ""
	}
	if version := head.Get("Mcp-Protocol-Version"); version != "" {
		a.version = version
	}
	if a.open == nil || len(a.open) >= maxVisits {
		a.open = map[exchange]*visit{}
	}
	a.open[at] = v
	a.asked(v, f.Body)
}

// asked reads the body of a request.
func (a *auth) asked(v *visit, body []byte) {
	if v.step != asks || len(body) == 0 {
		return
	}
	if body[0] == '{' {
		if _, redirects := jsonscan.Get(body, "redirect_uris"); redirects {
			v.step = registers
		} else if m := protocolVersion.FindSubmatch(body[:min(len(body), 4096)]); m != nil && a.version == "" {
			a.version = string(m[1])
		}
		return
	}
	if len(body) < 16<<10 && strings.Contains(string(body), "grant_type=") {
		if form, err := url.ParseQuery(string(body)); err == nil {
			v.step, v.grant, v.resource, v.scope = grants, form.Get("grant_type"), form.Get("resource") != "", form.Get("scope")
		}
	}
}

// conclude keeps a visit once the status of its response is known, if it belongs to an authorization.
func (a *auth) conclude(v *visit) {
	at := v.host + " " + v.path
	refused := v.step == asks && (v.status == "401" || v.status == "403" && strings.Contains(strings.ToLower(v.challenge), "bearer"))
	if refused {
		if a.challenged == nil || len(a.challenged) >= maxVisits {
			a.challenged = map[string]bool{}
		}
		a.challenged[at] = true
	}
	if v.step == asks && !a.challenged[at] {
		return
	}
	if n := len(a.visits); n > 0 && v.step == asks && !refused && a.visits[n-1].step == asks && a.visits[n-1].ok() && a.visits[n-1].path == v.path {
		return // one success is enough
	}
	a.visits = keepLast(a.visits, v, maxVisits)
}

// body reads what the body of a response says.
func (a *auth) body(v *visit, body []byte) {
	if len(body) == 0 || len(body) > 64<<10 || body[0] != '{' {
		return
	}
	text := func(name string) string {
		value, _ := jsonscan.Get(body, name)
		plain, _ := jsonscan.Unquote(value)
		return string(plain)
	}
	if !v.ok() {
		v.fault = session.OneLine([]byte(text("error") + " " + text("error_description")))
		return
	}
	switch v.step {
	case describes:
		list, _ := jsonscan.Get(body, "authorization_servers")
		v.names = len(list) > 2
	case issues:
		v.names = text("token_endpoint") != ""
	case registers:
		v.names = text("client_id") != ""
	case grants:
		v.names = text("access_token") != ""
		if scope := text("scope"); scope != "" {
			v.scope = scope
		}
	}
}

// challengeOf returns a parameter of a WWW-Authenticate.
func challengeOf(challenge, name string) string {
	for _, m := range parameters.FindAllStringSubmatch(challenge, -1) {
		if strings.EqualFold(m[1], name) {
			return m[2] + m[3]
		}
	}
	return ""
}

var parameters = regexp.MustCompile(`([A-Za-z_]+)\s*=\s*(?:"([^"]*)"|([^\s,"]+))`)

// authorization answers which step of an authorization failed, unless the request succeeded in the end.
func (t *talk) authorization() []Answer {
	visits := t.auth.visits
	last := -1 // the last refusal
	for i, v := range visits {
		if v.step == asks && !v.ok() {
			last = i
		}
	}
	if last < 0 || !t.isOAuth() {
		return nil
	}
	refusal := visits[last]
	if slices.ContainsFunc(visits[last+1:], func(v *visit) bool {
		return v.step == asks && v.ok() && v.host == refusal.host && v.path == refusal.path
	}) {
		return nil
	}
	for _, v := range visits {
		v.fault = t.masked(v.fault)
	}
	text, do, at := t.failedStep(visits, last)
	a := Answer{Verdict: "authorization", Text: text, Do: do, weight: 95, at: refusal.until}
	for _, c := range t.rows { // what it explains
		isVisit := slices.ContainsFunc(visits, func(v *visit) bool { return c.Frame == v.seq })
		if c.Outcome.Failed() && !isHead(c) && (isVisit || c.Frame <= refusal.seq && c.Last >= refusal.seq && c.Status == refusal.status) {
			a.of, a.also = c, append(a.also, c)
		}
	}
	begin := 0
	for i, v := range visits[:last] {
		if v.step == asks && v.ok() {
			begin = i + 1
		}
	}
	list := visits[begin:]
	for _, v := range list[max(0, len(list)-10):] {
		mark := ""
		if v == at {
			mark = "  ← failed"
		}
		a.Evidence = append(a.Evidence, Evidence{Frame: v.seq, Time: v.at, Text: v.String() + mark})
	}
	return []Answer{a}
}

// isOAuth reports whether the refusals are those of a server of MCP, or of OAuth.
func (t *talk) isOAuth() bool {
	return t.auth.version != "" || slices.ContainsFunc(t.auth.visits, func(v *visit) bool {
		return v.step != asks || challengeOf(v.challenge, "resource_metadata") != ""
	})
}

// String describes a visit: the step, where, and the response. Values of tokens are not in it.
func (v *visit) String() string {
	text := authSteps[v.step]
	if v.step == asks {
		if text += " without a token"; v.token {
			text = "the request with a token [redacted]"
		}
	}
	if v.grant != "" {
		text += " (" + v.grant + ")"
	}
	text += ": " + v.host + v.path + " → " + v.status
	if v.fault != "" {
		text += " " + v.fault
	}
	if v.challenge != "" {
		text += ", WWW-Authenticate:"
		for _, name := range [...]string{"error", "error_description", "scope", "resource_metadata"} { // no others, which may be secret
			if value := challengeOf(v.challenge, name); value != "" {
				text += " " + name + "=" + value
			}
		}
	}
	return session.OneLine([]byte(text))
}

// failedStep says which step failed after the refusal at an index, and what to do. It returns the visit
// that shows it.
func (t *talk) failedStep(visits []*visit, last int) (text, do string, at *visit) {
	refusal := visits[last]
	server := refusal.host + refusal.path
	of := func(step authStep) (found *visit) { // the last one that did its part, or the last one
		for _, v := range visits {
			if v.step == step && (found == nil || !found.ok() || !found.names || v.ok() && v.names) {
				found = v
			}
		}
		return found
	}
	resource, issuer, registration, token := of(describes), of(issues), of(registers), of(grants)
	fault := func(v *visit) string {
		if v.fault != "" {
			return "HTTP " + v.status + ": " + v.fault
		}
		return "HTTP " + v.status
	}
	version := t.auth.version
	said := strings.TrimSpace(challengeOf(refusal.challenge, "error") + " " + challengeOf(refusal.challenge, "error_description"))
	scope := challengeOf(refusal.challenge, "scope")
	switch {
	case refusal.status == "403" || strings.HasPrefix(said, "insufficient_scope"):
		text = fmt.Sprintf("%s refuses the token: its scope does not suffice", server)
		if scope != "" {
			text += "; it wants " + scope
		}
		return sentence(text), "Let the client ask for this scope: it authorizes again, with all the scopes that it needs (since 2025-11-25).", refusal
	case refusal.token && (token == nil || token.seq < refusal.seq):
		text = fmt.Sprintf("%s refuses the token of the client", server)
		if said != "" {
			text += ": " + said
		}
		do = "Compare the audience, the issuer and the expiry of the token with what the server expects."
		if token != nil && !token.resource && version >= "2025-06-18" {
			text += "; the request for the token does not name the resource, so the token may be for another audience"
			do = "The client must send the parameter resource with the request for the token (since 2025-06-18)."
		}
		return sentence(text), do, refusal
	case token != nil && !(token.ok() && token.names):
		return sentence(fmt.Sprintf("%s wants authorization, and the client got no token: %s", server, fault(token))), "See the error of the token endpoint: a code that is used twice or too late, another redirect address, an unknown client.", token
	case token != nil:
		return sentence(fmt.Sprintf("%s wants authorization, and the client got a token, but did not send the request again", server)), "The client must repeat the request with the token in Authorization.", token
	case registration != nil && !registration.ok() && issuer != nil && !issuer.ok() && (resource == nil || !resource.ok()) && version != "2025-03-26":
		return sentence(fmt.Sprintf("%s wants authorization, but nothing describes it: no metadata of the resource or of an authorization server, and %s at the default address of registration", server, fault(registration))), "Serve /.well-known/oauth-protected-resource with authorization_servers (RFC 9728; since 2025-06-18), or give the client a token.", issuer
	case registration != nil && !(registration.ok() && registration.names):
		return sentence(fmt.Sprintf("%s wants authorization, and the authorization server does not register the client: %s", server, fault(registration))), "Register the client by hand and give it the client id, or use a client id metadata document (since 2025-11-25).", registration
	case issuer != nil && !(issuer.ok() && issuer.names):
		how := fault(issuer)
		if issuer.ok() {
			how = "the document has no token_endpoint"
		}
		return sentence(fmt.Sprintf("%s wants authorization, and the metadata of its authorization server cannot be read: %s", server, how)), "Serve it at /.well-known/oauth-authorization-server with the path of the issuer after it, or since 2025-11-25 as openid-configuration.", issuer
	case registration != nil, issuer != nil:
		shows := issuer
		if registration != nil {
			shows = registration
		}
		return sentence(fmt.Sprintf("%s wants authorization, and the client asked for no token: its user has not authorized it, or it has no client id", server)), "Look at the browser that the client opened; what happens there is not on this wire.", shows
	case resource != nil && !(resource.ok() && resource.names) && version != "2025-03-26":
		how := fault(resource)
		if resource.ok() {
			how = "the document names no authorization_servers"
		}
		return sentence(fmt.Sprintf("%s wants authorization, but its resource metadata does not say where: %s", server, how)), "Serve /.well-known/oauth-protected-resource with authorization_servers (RFC 9728; since 2025-06-18).", resource
	case resource != nil:
		return sentence(fmt.Sprintf("%s wants authorization, and the client did not ask its authorization server for anything", server)), "See if the client reaches the authorization server that the resource metadata names.", resource
	case challengeOf(refusal.challenge, "resource_metadata") == "" && version == "2025-06-18":
		return sentence(fmt.Sprintf("%s answers with 401 and no resource_metadata in WWW-Authenticate, so the client does not know where to authorize", server)), "Send WWW-Authenticate: Bearer resource_metadata=\"…\" with each 401: 2025-06-18 requires it; since 2025-11-25 the well-known address suffices.", refusal
	case refusal.challenge == "":
		return sentence(fmt.Sprintf("%s answers with %s and no WWW-Authenticate, and the client did not go on", server, refusal.status)), "Give the client a token or a key for the server, or let the server describe its authorization.", refusal
	}
	if u, err := url.Parse(challengeOf(refusal.challenge, "resource_metadata")); err == nil && u.Host != "" && u.Host != refusal.host {
		return sentence(fmt.Sprintf("%s wants authorization, and what the client did then at %s is not in this session", server, u.Host)), "Record that host, too, or look at the log of the client. The resource that the metadata names must be the address that the client uses.", refusal
	}
	return sentence(fmt.Sprintf("%s wants authorization, and the client did not go on after the 401", server)), "The client may not support authorization, or wait for its user: log in to the server in the client, or give it a token.", refusal
}
