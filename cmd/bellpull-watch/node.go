package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/puppetcert"
	"github.com/bellpull/bellpull/cmd/internal/statedir"
	"github.com/bellpull/bellpull/puppet"
	"github.com/bellpull/bellpull/schemas"
)

// node is this node as the configuration describes it.
type node struct {
	cfg      config.Config
	log      hclog.Logger
	certname string
	scopes   []schemas.Scope
	dir      string // its private state
	digester schemas.Digester
	bucket   natskv.Config
	command  []string
	agent    *puppet.Agent
}

// newNode finds out what does not change while the watcher runs. Puppet is asked
// for its files here, so that a missing Puppet is said at the start.
func newNode(ctx context.Context, cfg config.Config, file string, log hclog.Logger) (*node, error) {
	n := &node{cfg: cfg, log: log, certname: cfg.Node.Certname, command: cfg.Watch.Command}
	var err error
	if n.scopes, err = cfg.Scopes(); err != nil {
		return nil, err
	}
	if n.certname == "" && cfg.NATS.TLS.Cert != "" {
		names, err := puppetcert.Read(cfg.NATS.TLS.Cert)
		if err != nil {
			return nil, err
		}
		n.certname = names["certname"]
	}
	if n.certname == "" {
		return nil, &schemas.InvalidError{What: "configuration", Faults: []schemas.Fault{
			{Pointer: "node.certname", Message: "is not set, and neither is nats.tls.cert, which would tell it: the node reports its status by it"},
		}}
	}
	if n.dir, err = statedir.Open(cfg.State); err != nil {
		return nil, err
	}
	if n.digester, err = statedir.Digester(n.dir); err != nil {
		return nil, err
	}
	n.bucket = natskv.Config{
		Servers: cfg.NATS.Servers, TLS: natskv.TLS(cfg.NATS.TLS), Creds: cfg.NATS.Creds, NKey: cfg.NATS.NKey,
		Timeout: cfg.NATS.Timeout, Name: "bellpull-watch", Node: n.certname, Bucket: cfg.Bucket,
	}
	if len(n.command) == 0 {
		n.command = puppet.DefaultCommand()
	}
	return n, n.newAgent(ctx, file)
}

func (n *node) newAgent(ctx context.Context, file string) error {
	proof, err := puppet.ParseProof(n.cfg.Watch.Proof, n.command)
	if err != nil {
		return err
	}
	paths := puppet.Paths{Lock: n.cfg.Puppet.Lock, DisabledLock: n.cfg.Puppet.DisabledLock, Report: n.cfg.Puppet.Report}
	if proof != puppet.ProofExit {
		if paths, err = puppet.FindPaths(ctx, paths, puppet.QuestionOf(n.command, proof), filepath.Join(n.dir, statedir.Puppet)); err != nil {
			return err
		}
	}
	env, err := runEnvironment(file)
	if err != nil {
		return err
	}
	n.agent, err = puppet.NewAgent(puppet.AgentConfig{
		Command: n.command, Proof: proof, Timeout: n.cfg.Watch.Timeout, Paths: paths, Dir: n.dir, Env: env,
	})
	return err
}

// tell returns what tells a status to everybody who wants to know it: the bucket,
// and metrics where they are asked for.
func (n *node) tell(ctx context.Context, bucket *natskv.Bucket) (told func(schemas.Status), stop func(), err error) {
	version, _, _ := cli.Version()
	figures := newMetrics(n.cfg.Watch.Metrics, version, n.log)
	unserve := func() {}
	if figures != nil && n.cfg.Watch.Metrics.Listen != "" {
		if unserve, err = figures.serve(ctx, n.cfg.Watch.Metrics.Listen); err != nil {
			return nil, nil, err
		}
	}
	reporter, err := bucket.Reporter()
	if err != nil {
		unserve()
		return nil, nil, err
	}
	told = func(s schemas.Status) {
		reporter.Report(s)
		if figures != nil {
			figures.take(s)
		}
	}
	return told, func() { reporter.Close(); unserve() }, nil
}

func (n *node) loop(bucket *natskv.Bucket, told func(schemas.Status), alive func()) *puppet.Loop {
	w := n.cfg.Watch
	version, _, _ := cli.Version()
	return puppet.NewLoop(puppet.LoopConfig{
		Store: store{bucket}, Runner: n.agent, Proof: n.agent.Proof(), Scopes: n.scopes, Node: n.certname, Dir: n.dir, Digester: n.digester,
		Timing: puppet.Timing{Quiet: w.Quiet, QuietMax: w.QuietMax, Splay: w.Splay, MinInterval: w.MinInterval, Skew: w.Skew},
		Resync: w.Resync, Logger: n.log,
		Permits: bucket.Permits(), PermitsUnavailable: time.Duration(w.PermitsUnavailable), Version: version, Report: told, Alive: alive,
	})
}
