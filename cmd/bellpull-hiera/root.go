package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
)

// app is one run of the program.
type app struct {
	streams    cli.Streams
	configFile string
	started    bool // the command line was understood
}

func run(ctx context.Context, streams cli.Streams, args []string) error {
	a := &app{streams: streams}
	root := &cobra.Command{
		Use:   "bellpull-hiera",
		Short: "Bring the bucket's documents to Hiera",
		Long: `bellpull-hiera brings the bucket's documents to Hiera.

stdout is data, stderr is talk. Exit codes: 0 ok, 1 failure, 2 wrong usage,
3 not found, 4 invalid, 6 unavailable.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return cli.Usage(errors.New("a command is wanted: sync or lookup"))
		},
	}
	root.PersistentPreRun = func(*cobra.Command, []string) { a.started = true }
	root.PersistentFlags().StringVar(&a.configFile, "config", "", "configuration `file` (default $BELLPULL_CONFIG or "+config.DefaultFile+")")
	root.AddCommand(a.syncCommand(), a.lookupCommand())
	root.SetArgs(args)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !a.started {
		err = cli.Usage(fmt.Errorf("%w (see `%s --help`)", err, cmd.CommandPath()))
	}
	return err
}

// bucket is where the configuration says that the bucket is.
func bucket(cfg config.Config) natskv.Config {
	return natskv.Config{
		Servers: cfg.NATS.Servers, TLS: natskv.TLS(cfg.NATS.TLS), Creds: cfg.NATS.Creds, NKey: cfg.NATS.NKey,
		Timeout: cfg.NATS.Timeout, Name: "bellpull-hiera", Bucket: cfg.Bucket,
	}
}
