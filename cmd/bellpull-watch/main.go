// Bellpull-watch starts a Puppet run when the desired state of its node has
// changed, and keeps a record of what runs are proven to have applied.
//
// It goes on without NATS and connects when NATS is there. A run that it has
// started outlives it: after a restart it takes the run over.
//
// stderr is its log. Exit codes: 0 ended as told, 1 failure (with --once: what is
// wanted is not applied), 2 wrong usage, 4 invalid configuration, 5 another
// watcher is at work, 6 unavailable.
package main

import (
	"os"

	"github.com/bellpull/bellpull/cmd/internal/cli"
)

func main() { os.Exit(cli.Main("bellpull-watch", run)) }
