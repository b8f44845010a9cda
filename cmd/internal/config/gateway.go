package config

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// Gateway shapes the HTTP gateway, and what publishers may write.
type Gateway struct {
	// Listen is an address and a port. Default: :$PORT where a platform sets
	// $PORT, else 127.0.0.1:8080.
	Listen string `yaml:"listen"`
	// TLS makes the gateway speak HTTPS. Without it a proxy in front should.
	TLS GatewayTLS `yaml:"tls"`
	// Kinds is a directory of further kinds, NAME.schema.json; default: the
	// embedded ones alone.
	Kinds string `yaml:"kinds"`
	// MaxBody is the largest request body that is read; default 256KiB.
	MaxBody Size `yaml:"max_body"`
	// ReplayWindow is how old, or ahead of this machine's clock, a signed
	// timestamp may be; default 5m.
	ReplayWindow time.Duration `yaml:"replay_window"`
	Senders      []Sender      `yaml:"senders"`
	Routes       []Route       `yaml:"routes"`
}

// GatewayTLS names PEM files, read at the start and at each reload.
type GatewayTLS struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// Sender is somebody who may post events: how it proves who it is, and what it
// may write. A right that is not given is not had.
type Sender struct {
	Name string `yaml:"name"`
	Auth Auth   `yaml:"auth"`
	// Kinds that the sender may set, and whose entries it may replace and remove;
	// "*" = all, and entries without a kind.
	Kinds []string `yaml:"kinds"`
	// Scopes are patterns: group/* is one segment, node/** any number of them.
	Scopes []string `yaml:"scopes"`
	// Entries are names of entries that the sender may touch, in which * stands for
	// any text: my_firewall::rules[*]. Default: all.
	Entries []string `yaml:"entries"`
	// Rate is how many events are taken, such as 100/s or 60/m; default 100/s.
	Rate Rate `yaml:"rate"`
	Cap  Cap  `yaml:"cap"`
}

// Auth lists what proves a sender; any one of them will do. Several of a sort
// let one be replaced by another. Each is env:NAME or file:PATH.
type Auth struct {
	// Bearer are SHA-256 hashes of tokens, sha256:HEX, as `bellpull-gateway token`
	// makes them; they may also stand here themselves.
	Bearer []string `yaml:"bearer"`
	// GitHub are secrets of X-Hub-Signature-256.
	GitHub []string `yaml:"github"`
	// StandardWebhooks are secrets of the Standard Webhooks specification, with or
	// without whsec_.
	StandardWebhooks []string `yaml:"standard_webhooks"`
}

// Cap limits what an event may ask for.
type Cap struct {
	TTL     time.Duration `yaml:"ttl"`     // at most; an event without a ttl gets this one
	Splay   time.Duration `yaml:"splay"`   // at least
	Trigger string        `yaml:"trigger"` // next: no event starts a run by itself
	Noop    bool          `yaml:"noop"`    // all runs are previews
}

// Route maps a sender's own body to an event. In templates {a.b} stands for the
// member b of the body's member a. A template that is one {x} keeps x's type.
type Route struct {
	Path    string   `yaml:"path"`    // such as /api/trigger-firewall-update
	Methods []string `yaml:"methods"` // of POST and DELETE, which removes; default POST
	Senders []string `yaml:"senders"` // names of those who may use it; default all
	// Body is the schema that the body must keep: a file in gateway.kinds, or the
	// schema itself. Its defaults are filled in.
	Body       any               `yaml:"body"`
	Kind       string            `yaml:"kind"`
	Scope      string            `yaml:"scope"`       // template; a {x} is one segment or a part of one
	Entry      string            `yaml:"entry"`       // template; no {x} may hold [ or ]
	Value      any               `yaml:"value"`       // of templates
	RemoveWhen map[string]any    `yaml:"remove_when"` // members of the body and what they must be
	ID         string            `yaml:"id"`          // template; default: the signed id, or the digest of the body
	Source     string            `yaml:"source"`      // template; default: the sender's name
	Time       string            `yaml:"time"`        // template of an RFC 3339 time; default: timeless
	TTL        string            `yaml:"ttl"`         // template of a duration such as 20m
	Sensitive  bool              `yaml:"sensitive"`
	Run        RouteRun          `yaml:"run"`
	Cap        Cap               `yaml:"cap"`
	Message    string            `yaml:"message"` // of the answer; default accepted
	Answer     map[string]string `yaml:"answer"`  // templates of further members of the answer
}

// RouteRun is the run policy of a route's entries: templates, as in [Route].
type RouteRun struct {
	Trigger string   `yaml:"trigger"`
	Splay   string   `yaml:"splay"`
	Tags    []string `yaml:"tags"`
	Noop    bool     `yaml:"noop"`
}

// Size is a number of bytes, written as 256KiB, 1MiB or 4096.
type Size int64

// UnmarshalYAML reads a size.
func (s *Size) UnmarshalYAML(node *yaml.Node) error {
	parts := regexp.MustCompile(`^([0-9]{1,9})(|B|KiB|MiB)$`).FindStringSubmatch(node.Value)
	if parts == nil {
		return fmt.Errorf("%q: must be a size such as 256KiB", node.Value)
	}
	n, err := strconv.ParseInt(parts[1], 10, 64)
	*s = Size(n << map[string]int{"KiB": 10, "MiB": 20}[parts[2]])
	return err
}

// Rate is a number of events in a time.
type Rate struct {
	Events int
	Per    time.Duration
}

// UnmarshalYAML reads a rate.
func (r *Rate) UnmarshalYAML(node *yaml.Node) error {
	events, per, _ := strings.Cut(node.Value, "/")
	n, err := strconv.Atoi(events)
	unit, ok := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[per]
	if err != nil || n < 1 || n > 1_000_000 || !ok {
		return fmt.Errorf("%q: must be a rate such as 100/s, 60/m or 10/h", node.Value)
	}
	*r = Rate{Events: n, Per: unit}
	return nil
}

func (c *Config) checkGateway(fault func(key, message string)) {
	g := c.Gateway
	if g.Listen != "" {
		if _, port, err := net.SplitHostPort(g.Listen); err != nil || port == "" {
			fault("gateway.listen", "must be an address and a port, such as 127.0.0.1:8080 or :8080")
		}
	}
	if (g.TLS.Cert == "") != (g.TLS.Key == "") {
		fault("gateway.tls", "cert and key go together")
	}
	if g.MaxBody < 1024 || g.MaxBody > 2<<20 {
		fault("gateway.max_body", "must be between 1KiB and 2MiB")
	}
	if g.ReplayWindow < time.Second || g.ReplayWindow > time.Hour {
		fault("gateway.replay_window", "must be between 1s and 1h")
	}
}
