// Bellpull-auth is what a site with a NATS cluster of its own runs beside it. For
// now it is a keeper of permits: run two or more, anywhere.
//
// stderr is its log. Exit codes: 0 ended as told, 1 failure, 2 wrong usage, 4
// invalid configuration.
package main

import (
	"os"

	"github.com/bellpull/bellpull/cmd/internal/cli"
)

func main() { os.Exit(cli.Main("bellpull-auth", run)) }
