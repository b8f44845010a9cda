// Package config reads the one configuration file that all of bellpull's
// programs share.
//
// [Load] takes, in this order, each overriding the one before: the defaults;
// the file; $BELLPULL_CONFIG_YAML, which holds a whole file where there are only
// variables; and $BELLPULL_A_B for the key a.b, YAML text for lists. A key that
// is not known is an error with its file and line.
package config

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v4"
)

// DefaultFile is read when neither --config nor $BELLPULL_CONFIG names a file.
// It may be missing; a named one may not.
const DefaultFile = "/etc/bellpull/bellpull.yaml"

// Config is the whole file. Durations are written as 250ms, 5m, 1h30m.
type Config struct {
	NATS    NATS    `yaml:"nats"`
	Bucket  string  `yaml:"bucket"` // name of the bucket; default desired
	Node    Node    `yaml:"node"`
	Fact    Fact    `yaml:"fact"`
	Watch   Watch   `yaml:"watch"`
	Puppet  Puppet  `yaml:"puppet"`
	Hiera   Hiera   `yaml:"hiera"`
	Gateway Gateway `yaml:"gateway"`
	State   string  `yaml:"state"` // directory of all state; default /var/lib/bellpull
}

// NATS says how to reach the servers.
type NATS struct {
	Servers []string      `yaml:"servers"` // such as tls://nats.example.com:4222; default nats://127.0.0.1:4222
	TLS     TLS           `yaml:"tls"`
	Creds   string        `yaml:"creds"`   // file with a user JWT and its seed, or env:NAME
	NKey    string        `yaml:"nkey"`    // file with an nkey seed, or env:NAME
	Timeout time.Duration `yaml:"timeout"` // for one connect or request; default 1s
}

// TLS names PEM files; CA may be env:NAME. Without CA the system's authorities are trusted.
type TLS struct {
	CA   string `yaml:"ca"`
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// Node says who this node is.
type Node struct {
	// Certname defaults to the common name in nats.tls.cert.
	Certname string `yaml:"certname"`
	// Hierarchy lists the node's scopes, most specific first. {certname} and the
	// certificate's extensions, such as {pp_role}, are filled in; a line whose name
	// the certificate does not have is left out.
	Hierarchy []string `yaml:"hierarchy"`
}

// Fact shapes the external fact.
type Fact struct {
	Name     string        `yaml:"name"`     // top-level fact; default bellpull
	Deadline time.Duration `yaml:"deadline"` // for the whole program; default 1.5s
	State    Patterns      `yaml:"state"`    // what the fact carries: all (default), none, or entry names and patterns such as my_firewall::*
}

// Watch shapes the watcher.
type Watch struct {
	Quiet       time.Duration `yaml:"quiet"`        // wait this long for more changes; default 250ms
	QuietMax    time.Duration `yaml:"quiet_max"`    // but at most this long; default 2s
	Splay       time.Duration `yaml:"splay"`        // spread runs over at most this long; default 0s
	MinInterval time.Duration `yaml:"min_interval"` // least time between two runs' starts; default 0s
	Resync      time.Duration `yaml:"resync"`       // read everything again this often; default 10m
	Skew        time.Duration `yaml:"skew"`         // wait this long after an expiry; default 5s
	Command     []string      `yaml:"command"`      // the run; default puppet agent with bellpull's options
	Proof       string        `yaml:"proof"`        // agent, apply or exit; default: told from the command
	Timeout     time.Duration `yaml:"timeout"`      // of one run; default 1h
	// PermitsUnavailable is how long to wait where there is a limit of simultaneous
	// runs and no keeper answers; default 10m. never waits for ever.
	PermitsUnavailable Patience `yaml:"permits_unavailable"`
	Metrics            Metrics  `yaml:"metrics"`
}

// Metrics says where the watcher's figures go, in Prometheus's text format. By
// default there are none.
type Metrics struct {
	Listen   string `yaml:"listen"`   // loopback address and port, such as 127.0.0.1:9469
	Textfile string `yaml:"textfile"` // a file for node_exporter's textfile collector, named *.prom
}

// Patience is a duration; negative, written never, means for ever.
type Patience time.Duration

// UnmarshalYAML reads a duration such as 10m, or never.
func (p *Patience) UnmarshalYAML(value *yaml.Node) error {
	if value.Value == "never" {
		*p = -1
		return nil
	}
	d, err := time.ParseDuration(value.Value)
	if err != nil || d < 0 {
		return fmt.Errorf("%q: must be a duration such as 10m, or never", value.Value)
	}
	*p = Patience(d)
	return nil
}

// Puppet names files that otherwise puppet config print is asked for, once.
type Puppet struct {
	Lock         string `yaml:"lock"`          // agent_catalog_run_lockfile
	DisabledLock string `yaml:"disabled_lock"` // agent_disabled_lockfile
	Report       string `yaml:"report"`        // lastrunreport
}

// Patterns is a list of names; "all" and "none" may stand for it.
type Patterns []string

func defaults() Config {
	return Config{
		NATS:   NATS{Servers: []string{"nats://127.0.0.1:4222"}, Timeout: time.Second},
		Bucket: "desired",
		Node:   Node{Hierarchy: []string{"node/{certname}", "group/{pp_role}", "common"}},
		Fact:   Fact{Name: "bellpull", Deadline: 1500 * time.Millisecond, State: Patterns{"*"}},
		Watch: Watch{
			Quiet: 250 * time.Millisecond, QuietMax: 2 * time.Second, Resync: 10 * time.Minute,
			Skew: 5 * time.Second, Timeout: time.Hour, PermitsUnavailable: Patience(10 * time.Minute),
		},
		Gateway: Gateway{MaxBody: 256 << 10, ReplayWindow: 5 * time.Minute},
		State:   "/var/lib/bellpull",
	}
}
