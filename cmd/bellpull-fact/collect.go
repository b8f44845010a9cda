package main

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/puppetcert"
	"github.com/bellpull/bellpull/cmd/internal/statedir"
	"github.com/bellpull/bellpull/factsource"
	"github.com/bellpull/bellpull/schemas"
)

// collect makes the fact, or says why it is not known what to read.
func collect(cfg config.Config, until time.Time) (*factsource.Collection, error) {
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	scopes, err := cfg.Scopes()
	if err != nil {
		return nil, err
	}
	certname := cfg.Node.Certname
	if certname == "" && cfg.NATS.TLS.Cert != "" {
		names, err := puppetcert.Read(cfg.NATS.TLS.Cert)
		if err != nil {
			return nil, err
		}
		certname = names["certname"]
	}
	dir, digester, stateErr := openState(cfg.State)
	c := factsource.New(factsource.Config{
		Store: &store{cfg: natskv.Config{
			Servers: cfg.NATS.Servers, TLS: natskv.TLS(cfg.NATS.TLS), Creds: cfg.NATS.Creds, NKey: cfg.NATS.NKey,
			Timeout: cfg.NATS.Timeout, Name: "bellpull-fact", Node: certname, Bucket: cfg.Bucket,
		}},
		Scopes: scopes, Name: cfg.Fact.Name, State: cfg.Fact.State, Dir: dir, Digester: digester,
		Run: os.Getenv("BELLPULL_RUN"), Wanted: os.Getenv("BELLPULL_WANTED"), Lock: lock(cfg, dir),
	}).Collect(ctx)
	// A user who may not keep state there is not told so in every run.
	if stateErr != nil && (os.Geteuid() == 0 || errors.Is(stateErr, schemas.ErrInvalid)) {
		c.Warnings = append(c.Warnings, stateErr.Error())
	}
	return c, nil
}

// openState returns the node's private directory and its digester; "" and an
// error if this user cannot have one.
func openState(state string) (string, schemas.Digester, error) {
	dir, err := statedir.Open(state)
	if err != nil {
		return "", schemas.Digester{}, err
	}
	digester, err := statedir.Digester(dir)
	if err != nil {
		return "", schemas.Digester{}, err
	}
	return dir, digester, nil
}

// lock is the agent's run lock: as configured, or as the watcher has asked
// Puppet for it. It is not asked for here: Puppet takes a second to answer.
func lock(cfg config.Config, dir string) string {
	if cfg.Puppet.Lock != "" || dir == "" {
		return cfg.Puppet.Lock
	}
	var asked struct {
		Lock string `json:"agent_catalog_run_lockfile"`
	}
	body, err := os.ReadFile(filepath.Join(dir, statedir.Puppet))
	if err != nil || json.Unmarshal(body, &asked) != nil {
		return ""
	}
	return asked.Lock
}

// store connects when it is first read. The connection ends with the process.
type store struct {
	cfg    natskv.Config
	bucket *natskv.Bucket
}

// Read implements [factsource.Store].
func (s *store) Read(ctx context.Context, scopes []schemas.Scope) (schemas.Reading, error) {
	if s.bucket == nil {
		bucket, err := natskv.Dial(ctx, s.cfg)
		if err != nil {
			return schemas.Reading{}, stable{err}
		}
		s.bucket = bucket
	}
	reading, err := s.bucket.Read(ctx, scopes)
	if err != nil {
		return schemas.Reading{}, stable{err}
	}
	return reading, nil
}

// stable is an error whose text is the same in the next run: it leaves out our
// own port, which a fact must not change for.
type stable struct{ error }

func (e stable) Unwrap() error { return e.error }

func (e stable) Error() string {
	text := e.error.Error()
	var op *net.OpError
	if errors.As(e.error, &op) && op.Source != nil {
		text = strings.ReplaceAll(text, cmp.Or(op.Source.String(), "?")+"->", "")
	}
	return text
}
