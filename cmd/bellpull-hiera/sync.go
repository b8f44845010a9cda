package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"os/user"
	"strconv"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/service"
	hieradata "github.com/bellpull/bellpull/hieradata_backend"
	"github.com/bellpull/bellpull/schemas"
)

func (a *app) syncCommand() *cobra.Command {
	var once bool
	var level string
	cmd := &cobra.Command{
		Use:   "sync",
		Short: "Keep the data files equal to the bucket",
		Long: `sync keeps the directory hiera.dir equal to the bucket, one file per scope, and the
directories of hiera.buckets equal to theirs, until it is told to end by SIGINT or
SIGTERM. It waits out a NATS that is away; the files stay as they were last. Every
file is verified at the start and once an hour, and on SIGHUP at once.

A service manager is told that it is ready when every bucket has been synced for the
first time.

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
			return keep(cmd.Context(), cfg, log)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "bring the files in line with the bucket and end")
	cmd.Flags().StringVar(&level, "log-level", "info", "`level` of the log: "+cli.Levels)
	return cmd
}

// keep keeps the files of every bucket until ctx ends. One that fails ends all: the
// service manager starts it again, and says so.
func keep(ctx context.Context, cfg config.Config, log hclog.Logger) error {
	group, err := readers(cfg.Hiera.Group)
	if err != nil {
		return err
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)

	sources := cfg.Sources()
	board := newBoard(len(sources), service.New(log))
	defer board.manager.Stopping()
	again := make([]chan struct{}, len(sources))
	work, ctx := errgroup.WithContext(ctx)
	for i, source := range sources {
		again[i] = make(chan struct{}, 1)
		work.Go(func() error {
			log := log
			if len(sources) > 1 {
				log = log.With("bucket", source.Bucket)
			}
			where := bucket(cfg)
			where.Bucket, where.Warn = source.Bucket, log.Warn
			b, err := natskv.Connect(ctx, where)
			if err != nil {
				return err
			}
			defer b.Close()
			log.Info("keeping data files", "dir", source.Dir, "bucket", source.Bucket)
			files := data(source, b, log)
			files.Group, files.Again = group, again[i]
			files.Synced = func(scopes int) { board.synced(i, scopes) }
			files.Alive = func() { board.alive(i) }
			return hieradata.New(files).Run(ctx)
		})
	}
	work.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-hangups:
				log.Info("every file is verified")
				for _, c := range again {
					select {
					case c <- struct{}{}:
					default: // it is about to
					}
				}
			}
		}
	})
	return work.Wait()
}

func syncOnce(ctx context.Context, cfg config.Config, log hclog.Logger) error {
	group, err := readers(cfg.Hiera.Group)
	if err != nil {
		return err
	}
	for _, source := range cfg.Sources() {
		if err := syncSource(ctx, cfg, source, group, log); err != nil {
			return fmt.Errorf("bucket %s: %w", source.Bucket, err)
		}
	}
	return nil
}

func syncSource(ctx context.Context, cfg config.Config, source config.Source, group *int, log hclog.Logger) error {
	dialCtx, cancel := context.WithTimeout(ctx, answerFactor*cfg.NATS.Timeout)
	defer cancel()
	where := bucket(cfg)
	where.Bucket = source.Bucket
	b, err := natskv.Dial(dialCtx, where)
	if err != nil {
		return err
	}
	defer b.Close()
	files := data(source, b, log)
	files.Group = group
	return hieradata.New(files).Once(ctx)
}

func data(source config.Source, b *natskv.Bucket, log hclog.Logger) hieradata.Config {
	return hieradata.Config{Store: store{b}, Dir: source.Dir, Prefixes: source.Prefixes, Log: log}
}

// readers returns the group that gets the files: the one that is named, or Puppet
// Server's where root is to be of use to it.
func readers(name string) (*int, error) {
	if name == "" {
		if os.Geteuid() != 0 {
			return nil, nil
		}
		name = "puppet"
		if _, err := user.LookupGroup(name); err != nil {
			return nil, nil // there is no Puppet Server here
		}
	}
	group, err := user.LookupGroup(name)
	if err != nil {
		return nil, fmt.Errorf("hiera.group: %w", err)
	}
	id, err := strconv.Atoi(group.Gid)
	if err != nil {
		return nil, fmt.Errorf("hiera.group: %w", err)
	}
	return &id, nil
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
