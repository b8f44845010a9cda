// Package gateway is the process around package webhook: its command line, its
// HTTP server, its lasting connection to the bucket, and its reloads. It is no
// part of command bellpull-gateway itself, because builders of functions compile
// that one's main.go alone.
package gateway

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/webhook"
)

// Run carries out a command line of bellpull-gateway.
func Run(ctx context.Context, streams cli.Streams, args []string) error {
	var o options
	var started bool
	root := &cobra.Command{
		Use:   "bellpull-gateway",
		Short: "Take webhooks and CloudEvents, and write them into the bucket",
		Long: `bellpull-gateway takes events over HTTP, as CloudEvents at /v1/events and in the
senders' own forms at the configured routes, checks who sends them and whether they
are valid, and writes them into the bucket. It answers 202 when they are stored.

SIGHUP makes it read its configuration, its secrets and its kinds again; what is bad
stays as it was, and /healthz names it. SIGTERM lets it finish what it has begun.`,
		Example: `  bellpull-gateway
  bellpull-gateway --config gateway.yaml --listen 127.0.0.1:8080
  PORT=3000 BELLPULL_CONFIG_YAML="$(cat gateway.yaml)" bellpull-gateway`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			started = true
			log, err := cli.Logger("bellpull-gateway", o.level, streams.Err)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), o, streams, log)
		},
	}
	root.PersistentFlags().StringVar(&o.file, "config", "", "configuration `file` (default $BELLPULL_CONFIG or "+config.DefaultFile+")")
	root.Flags().StringVar(&o.listen, "listen", "", "`address` to listen on (default gateway.listen, else :$PORT, else "+defaultListen+"); port 0 takes a free one")
	root.Flags().StringVar(&o.level, "log-level", "info", "`level` of the log: "+cli.Levels)
	root.AddCommand(tokenCommand(streams, &started))
	root.SetArgs(args)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	err := root.ExecuteContext(ctx)
	if err != nil && !started {
		err = cli.Usage(fmt.Errorf("%w (see `bellpull-gateway --help`)", err))
	}
	return err
}

// tokenCommand makes a bearer token.
func tokenCommand(streams cli.Streams, started *bool) *cobra.Command {
	return &cobra.Command{
		Use:   "token",
		Short: "Make a bearer token, and the hash of it for the configuration",
		Long: `token writes a random token, for the sender, and a second line with its hash, for
gateway.senders[].auth.bearer. The gateway needs the hash alone.`,
		Example: `  bellpull-gateway token`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			*started = true
			token := "bp_" + rand.Text()
			_, err := fmt.Fprintf(streams.Out, "%s\n%s\n", token, webhook.HashToken(token))
			return err
		},
	}
}
