// Bellpull-hiera brings the bucket's documents to Hiera: `sync` keeps a
// directory of data files equal to the bucket, for the Puppet function
// bellpull::data to read, and `lookup` answers one key from NATS directly.
//
// stdout is data, stderr is talk. Exit codes: 0 ok, 1 failure, 2 wrong usage,
// 3 not found, 4 invalid, 6 unavailable.
package main

import (
	"os"

	"github.com/bellpull/bellpull/cmd/internal/cli"
)

func main() { os.Exit(cli.Main("bellpull-hiera", run)) }
