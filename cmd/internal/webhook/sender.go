package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"golang.org/x/time/rate"

	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/schemas"
)

// sender is somebody who may post events.
type sender struct {
	config.Sender
	tokens []tokenHash
	github []string
	hooks  []*standardwebhooks.Webhook
	limit  *rate.Limiter
}

// defaultRate is a sender's rate where none is set.
const defaultRate = 100 // events a second

// newSender compiles a sender. Offline its secrets are not read.
func newSender(c config.Sender, offline bool, fault func(key, message string)) *sender {
	s := &sender{Sender: c, limit: rate.NewLimiter(defaultRate, defaultRate)}
	if c.Rate.Events > 0 {
		s.limit = rate.NewLimiter(rate.Limit(float64(c.Rate.Events)/c.Rate.Per.Seconds()), c.Rate.Events)
	}
	if offline {
		s.look(fault)
	} else {
		s.readSecrets(fault)
	}
	if len(c.Auth.Bearer)+len(c.Auth.GitHub)+len(c.Auth.StandardWebhooks) == 0 {
		fault("auth", "is empty: nothing would prove this sender")
	}
	if len(c.Kinds) == 0 {
		fault("kinds", `is empty: the sender could write nothing; "*" stands for all`)
	}
	if len(c.Scopes) == 0 {
		fault("scopes", `is empty: the sender could write nowhere; "**" stands for all`)
	}
	for i, pattern := range c.Scopes {
		if !doublestar.ValidatePattern(pattern) {
			fault(fmt.Sprintf("scopes[%d]", i), fmt.Sprintf("%q is no pattern such as group/* or node/**", pattern))
		}
	}
	checkCap(c.Cap, fault)
	return s
}

// look checks the form of what the secrets are in.
func (s *sender) look(fault func(key, message string)) {
	for sort, refs := range map[string][]string{"bearer": s.Auth.Bearer, "github": s.Auth.GitHub, "standard_webhooks": s.Auth.StandardWebhooks} {
		for i, ref := range refs {
			if sort == "bearer" && strings.HasPrefix(ref, hashPrefix) {
				if _, err := readHashes(ref); err != nil {
					fault(fmt.Sprintf("auth.bearer[%d]", i), err.Error())
				}
			} else if _, _, err := splitRef(ref); err != nil {
				fault(fmt.Sprintf("auth.%s[%d]", sort, i), err.Error())
			}
		}
	}
}

func (s *sender) readSecrets(fault func(key, message string)) {
	for i, ref := range s.Auth.Bearer {
		hashes, err := readHashes(ref)
		if err != nil {
			fault(fmt.Sprintf("auth.bearer[%d]", i), err.Error())
		}
		s.tokens = append(s.tokens, hashes...)
	}
	for i, ref := range s.Auth.GitHub {
		secret, err := readSecret(ref)
		if err != nil {
			fault(fmt.Sprintf("auth.github[%d]", i), err.Error())
		}
		s.github = append(s.github, secret)
	}
	for i, ref := range s.Auth.StandardWebhooks {
		secret, err := readSecret(ref)
		if err != nil {
			fault(fmt.Sprintf("auth.standard_webhooks[%d]", i), err.Error())
			continue
		}
		hook, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			fault(fmt.Sprintf("auth.standard_webhooks[%d]", i), ref+": must hold base64, with or without whsec_ before it")
			continue
		}
		s.hooks = append(s.hooks, hook)
	}
}

func checkCap(c config.Cap, fault func(key, message string)) {
	if c.TTL != 0 && c.TTL < time.Second {
		fault("cap.ttl", "must be at least 1s")
	}
	if c.Splay < 0 {
		fault("cap.splay", "must be above 0")
	}
	if c.Trigger != "" && c.Trigger != string(schemas.TriggerNext) {
		fault("cap.trigger", "must be next")
	}
}

// mayKind reports whether the sender may touch entries of a kind.
func (s *sender) mayKind(kind string) bool {
	return slices.Contains(s.Kinds, "*") || kind != "" && slices.Contains(s.Kinds, kind)
}

// mayScope reports whether the sender may write in a scope.
func (s *sender) mayScope(scope schemas.Scope) bool {
	return slices.ContainsFunc(s.Scopes, func(pattern string) bool {
		ok, err := doublestar.Match(pattern, string(scope))
		return ok && err == nil
	})
}

// mayEntry reports whether the sender may touch an entry of this name.
func (s *sender) mayEntry(name string) bool {
	return len(s.Entries) == 0 || slices.ContainsFunc(s.Entries, func(pattern string) bool { return like(pattern, name) })
}

// like reports whether name is the pattern, in which * stands for any text. A
// member's brackets stand for themselves, unlike in a pattern of files.
func like(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	if last == 0 {
		return pattern == name
	}
	rest, ok := strings.CutPrefix(name, parts[0])
	if !ok || len(rest) < len(parts[last]) || !strings.HasSuffix(rest, parts[last]) {
		return false
	}
	rest = rest[:len(rest)-len(parts[last])]
	for _, part := range parts[1:last] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return true
}

// limited brings an event down to what c allows.
func limited(ev schemas.Event, c config.Cap) schemas.Event {
	if ev.Action != schemas.ActionSet {
		return ev
	}
	if c.TTL > 0 && (ev.TTL == 0 || ev.TTL > c.TTL) {
		ev.TTL = c.TTL
	}
	ev.Run.Splay = max(ev.Run.Splay, c.Splay)
	if c.Trigger != "" {
		ev.Run.Trigger = schemas.Trigger(c.Trigger)
	}
	ev.Run.Noop = ev.Run.Noop || c.Noop
	return ev
}

// proof is who sent a request, and what its signature covers beside the body.
type proof struct {
	sender *sender
	id     string // signed id of the delivery, or the digest of the body
	github bool
}

// errUnproven is all that somebody unknown is told.
var errUnproven = errors.New("nothing in the request proves a known sender")

// errStale is for somebody who is known: the signature is right.
var errStale = errors.New("the signed time is outside the replay window")

const (
	hubHeader   = "X-Hub-Signature-256"
	bearerLabel = "bearer "
)

// unread proves a sender by what stands in the headers alone, or tells that the
// body is needed for it. Who shows nothing at all is refused before a byte of the
// body is read.
func (h *Handler) unread(header http.Header) (p proof, needsBody bool, err error) {
	given := 0
	for _, name := range []string{"Authorization", hubHeader, standardwebhooks.HeaderWebhookSignature} {
		values := header.Values(name)
		if len(values) > 1 {
			return proof{}, false, errUnproven
		}
		given += len(values)
	}
	if given != 1 {
		return proof{}, false, errUnproven
	}
	authorization := header.Get("Authorization")
	if authorization == "" {
		return proof{}, true, nil
	}
	if len(authorization) <= len(bearerLabel) || !strings.EqualFold(authorization[:len(bearerLabel)], bearerLabel) {
		return proof{}, false, errUnproven
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(authorization[len(bearerLabel):])))
	for _, s := range h.senders {
		for _, hash := range s.tokens {
			if hash.is(sum) {
				p.sender = s
			}
		}
	}
	if p.sender == nil {
		return proof{}, false, errUnproven
	}
	return p, false, nil
}

// signed proves a sender by a signature over the body as it was received.
func (h *Handler) signed(header http.Header, body []byte) (p proof, err error) {
	if signature := header.Get(hubHeader); signature != "" {
		for _, s := range h.senders {
			for _, secret := range s.github {
				if secret != "" && hubSignature(signature, secret, body) {
					p = proof{sender: s, id: digest(body), github: true}
				}
			}
		}
	}
	if header.Get(standardwebhooks.HeaderWebhookSignature) != "" {
		if len(header.Values(standardwebhooks.HeaderWebhookID)) != 1 || len(header.Values(standardwebhooks.HeaderWebhookTimestamp)) != 1 {
			return proof{}, errUnproven
		}
		for _, s := range h.senders {
			for _, hook := range s.hooks {
				if hook.VerifyIgnoringTimestamp(body, header) == nil {
					p = proof{sender: s, id: header.Get(standardwebhooks.HeaderWebhookID)}
				}
			}
		}
		if p.sender != nil && !h.fresh(header.Get(standardwebhooks.HeaderWebhookTimestamp)) {
			return p, errStale
		}
	}
	if p.sender == nil {
		return proof{}, errUnproven
	}
	return p, nil
}

func (h *Handler) fresh(timestamp string) bool {
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	age := h.now().Sub(time.Unix(seconds, 0))
	return err == nil && age.Abs() <= h.window
}

// digest names a body by its bytes.
func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha256:" + hex.EncodeToString(sum[:])
}
