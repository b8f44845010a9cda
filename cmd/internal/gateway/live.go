package gateway

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/publish"
	"github.com/bellpull/bellpull/cmd/internal/webhook"
	"github.com/bellpull/bellpull/schemas"
	"github.com/bellpull/bellpull/schemas/kinds"
)

// live is what a reload replaces, behind what stays.
type live struct {
	file      string // of the configuration
	store     *store
	publisher *publish.Publisher
	metrics   *webhook.Metrics
	log       hclog.Logger

	set     atomic.Pointer[kinds.Set]
	handler atomic.Pointer[webhook.Handler]
	keyPair atomic.Pointer[tls.Certificate]
	trouble atomic.Pointer[[]string] // of the last reload
}

// newLive compiles everything; what is bad is an error that names its place.
func newLive(file string, cfg config.Config, s *store, log hclog.Logger) (*live, error) {
	l := &live{file: file, store: s, log: log}
	set, err := kinds.Load(cfg.Gateway.Kinds)
	if err != nil {
		return nil, err
	}
	for _, warning := range set.Warnings() {
		log.Warn("kinds", "warning", warning)
	}
	l.set.Store(set)
	version, _, _ := cli.Version()
	l.metrics = webhook.NewMetrics(version, s.bucket.Connected)
	l.publisher = publish.New(publish.Config{Bucket: s, Kinds: l, Punctual: true})
	h, err := l.compile(cfg.Gateway, set)
	if err != nil {
		return nil, err
	}
	l.handler.Store(h)
	return l, nil
}

func (l *live) compile(g config.Gateway, set *kinds.Set) (*webhook.Handler, error) {
	return webhook.New(webhook.Config{
		Gateway: g, Kinds: set, Publisher: l.publisher,
		Bucket: l.store.bucket.Name(), Stream: l.store.bucket.Stream(),
		Ready: l.store.ready, Notes: l.notes, Metrics: l.metrics, Logger: l.log,
	})
}

// Complete is that of the kinds in force.
func (l *live) Complete(ev schemas.Event) (schemas.Event, error) { return l.set.Load().Complete(ev) }

// ServeHTTP is that of the handler in force.
func (l *live) ServeHTTP(w http.ResponseWriter, r *http.Request) { l.handler.Load().ServeHTTP(w, r) }

func (l *live) notes() []string {
	if trouble := l.trouble.Load(); trouble != nil {
		return slices.Clone(*trouble)
	}
	return nil
}

// reload reads configuration, secrets and kinds again. What is bad stays in force
// as it was.
func (l *live) reload() {
	var trouble []string
	bad := func(what string, err error) {
		trouble = append(trouble, what+": "+strings.ReplaceAll(err.Error(), "\n", "; "))
		l.log.Error("reload", "what", what, "error", err)
	}
	const stay = "%w; the old settings stay in force"
	cfg, err := config.Load(l.file)
	if err != nil {
		bad("settings", fmt.Errorf(stay, err))
		l.trouble.Store(&trouble)
		return
	}
	set, err := l.set.Load().Reload(cfg.Gateway.Kinds)
	if err != nil {
		bad("kinds", err)
	}
	h, err := l.compile(cfg.Gateway, set)
	if err != nil {
		bad("settings", fmt.Errorf(stay, err))
	} else {
		l.handler.Store(h)
		l.set.Store(set)
	}
	if cfg.Gateway.TLS.Cert != "" {
		if err := l.loadKeyPair(cfg.Gateway.TLS); err != nil {
			bad("certificate", fmt.Errorf("%w; the old one stays in force", err))
		}
	}
	l.trouble.Store(&trouble)
	l.log.Info("reloaded", "kinds", len(set.Names()), "bad", len(trouble))
}

// tls makes a configuration whose certificate a reload replaces.
func (l *live) tls(files config.GatewayTLS) (*tls.Config, error) {
	if err := l.loadKeyPair(files); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return l.keyPair.Load(), nil },
	}, nil
}

func (l *live) loadKeyPair(files config.GatewayTLS) error {
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return fmt.Errorf("read gateway.tls: %w", err)
	}
	l.keyPair.Store(&pair)
	return nil
}
