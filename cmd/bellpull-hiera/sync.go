package main

import (
	"context"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	hieradata "github.com/bellpull/bellpull/hieradata_backend"
	"github.com/bellpull/bellpull/schemas"
)

func (a *app) syncCommand() *cobra.Command {
	var once bool
	var level string
	cmd := &cobra.Command{
		Use:   "sync",
		Short: "Keep the data files equal to the bucket",
		Long: `sync keeps the directory hiera.dir equal to the bucket, one file per scope, until
it is told to end by SIGINT or SIGTERM. It waits out a NATS that is away; the files
stay as they were last.

With --once it brings the files in line and ends, with exit code 6 if NATS gives
no answer.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := cli.Logger("bellpull-hiera", level, a.streams.Err)
			if err != nil {
				return err
			}
			cfg, err := config.Load(a.configFile)
			if err != nil {
				return err
			}
			if once {
				return syncOnce(cmd.Context(), cfg, log)
			}
			return sync(cmd.Context(), cfg, log)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "bring the files in line with the bucket and end")
	cmd.Flags().StringVar(&level, "log-level", "info", "`level` of the log: "+cli.Levels)
	return cmd
}

func sync(ctx context.Context, cfg config.Config, log hclog.Logger) error {
	where := bucket(cfg)
	where.Warn = log.Warn
	b, err := natskv.Connect(ctx, where)
	if err != nil {
		return err
	}
	defer b.Close()
	log.Info("keeping data files", "dir", cfg.Hiera.Dir, "bucket", b.Name())
	return data(cfg, b, log).Run(ctx)
}

func syncOnce(ctx context.Context, cfg config.Config, log hclog.Logger) error {
	dialCtx, cancel := context.WithTimeout(ctx, answerFactor*cfg.NATS.Timeout)
	defer cancel()
	b, err := natskv.Dial(dialCtx, bucket(cfg))
	if err != nil {
		return err
	}
	defer b.Close()
	return data(cfg, b, log).Once(ctx)
}

func data(cfg config.Config, b *natskv.Bucket, log hclog.Logger) *hieradata.Sync {
	return hieradata.New(hieradata.Config{Store: store{b}, Dir: cfg.Hiera.Dir, Prefixes: cfg.Hiera.Prefixes, Log: log})
}

// store is the bucket as package hieradata wants it.
type store struct{ *natskv.Bucket }

func (s store) All(ctx context.Context, each func(schemas.ScopeReading) error) (hieradata.Position, error) {
	at, err := s.Bucket.All(ctx, each)
	return hieradata.Position(at), err
}

func (s store) Revisions(ctx context.Context, each func(schemas.Scope, uint64, bool) error) (hieradata.Position, error) {
	at, err := s.Bucket.Revisions(ctx, each)
	return hieradata.Position(at), err
}

func (s store) Changes(ctx context.Context) (<-chan schemas.Notice, error) {
	return s.Bucket.Changes(ctx, nil)
}

func (s store) Position(ctx context.Context) (hieradata.Position, error) {
	at, err := s.Bucket.Position(ctx)
	return hieradata.Position(at), err
}
