package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/keeper"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/service"
)

func run(ctx context.Context, streams cli.Streams, args []string) error {
	var file, level string
	var keeperOnly, started bool
	root := &cobra.Command{
		Use:   "bellpull-auth --keeper-only",
		Short: "Hand out permits to run",
		Long: `bellpull-auth hands out permits to run where there is a limit of simultaneous runs
(bellpull permits set N), until it is told to end by SIGINT or SIGTERM. It keeps no
state: run two or more, anywhere; nodes that wait are served first come, first served
over all of them. It goes on without NATS and connects when NATS is there.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !keeperOnly {
				return errors.New("--keeper-only is wanted: the auth callout is not part of this version")
			}
			started = true
			log, err := cli.Logger("bellpull-auth", level, streams.Err)
			if err != nil {
				return err
			}
			cfg, err := config.Load(file)
			if err != nil {
				return err
			}
			return keep(cmd.Context(), cfg, log)
		},
	}
	root.Flags().BoolVar(&keeperOnly, "keeper-only", false, "hand out permits, and nothing else")
	root.Flags().StringVar(&file, "config", "", "configuration `file` (default $BELLPULL_CONFIG or "+config.DefaultFile+")")
	root.Flags().StringVar(&level, "log-level", "info", "`level` of the log: "+cli.Levels)
	root.SetArgs(args)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	err := root.ExecuteContext(ctx)
	if err != nil && !started {
		err = cli.Usage(fmt.Errorf("%w (see `bellpull-auth --help`)", err))
	}
	return err
}

// keep works until ctx ends.
func keep(ctx context.Context, cfg config.Config, log hclog.Logger) error {
	bucket, err := natskv.Connect(ctx, natskv.Config{
		Servers: cfg.NATS.Servers, TLS: natskv.TLS(cfg.NATS.TLS), Creds: cfg.NATS.Creds, NKey: cfg.NATS.NKey,
		Timeout: cfg.NATS.Timeout, Name: "bellpull-auth", Bucket: cfg.Bucket, Warn: log.Warn,
	})
	if err != nil {
		return err
	}
	defer bucket.Close()
	// It is ready without NATS: it waits for it.
	manager := service.New(log)
	manager.Ready()
	defer manager.Stopping()
	return keeper.New(keeper.Config{Bucket: bucket, Logger: log}).Run(ctx)
}
