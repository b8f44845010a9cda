// Command bellpull-gateway takes webhooks and CloudEvents over HTTP, checks them,
// and writes them into the bucket of desired state.
//
// It needs no argument: where there are only environment variables, as on
// Vercel, $BELLPULL_CONFIG_YAML holds its configuration and $PORT its port.
package main

import (
	"os"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/gateway"
)

func main() { os.Exit(cli.Main("bellpull-gateway", gateway.Run)) }
