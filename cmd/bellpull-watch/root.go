package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/service"
	"github.com/bellpull/bellpull/schemas"
)

func run(ctx context.Context, streams cli.Streams, args []string) error {
	var file, level string
	var once, dryRun, started bool
	root := &cobra.Command{
		Use:   "bellpull-watch",
		Short: "Start a Puppet run when this node's desired state has changed",
		Long: `bellpull-watch starts a Puppet run (watch.command) when this node's desired state has
changed, until it is told to end by SIGINT or SIGTERM. A run under way goes on then,
and the next bellpull-watch takes it over. A changed configuration needs a restart.

With --once it reads once, runs at once if a run is owed, and ends when the run has
ended: with 0 if what is wanted is applied. With --dry-run it only says what it would do.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			started = true
			log, err := cli.Logger("bellpull-watch", level, streams.Err)
			if err != nil {
				return err
			}
			cfg, err := config.Load(file)
			if err != nil {
				return err
			}
			if once || dryRun {
				return runOnce(cmd.Context(), cfg, file, dryRun, log)
			}
			return watch(cmd.Context(), cfg, file, log)
		},
	}
	root.Flags().StringVar(&file, "config", "", "configuration `file` (default $BELLPULL_CONFIG or "+config.DefaultFile+")")
	root.Flags().StringVar(&level, "log-level", "info", "`level` of the log: "+cli.Levels)
	root.Flags().BoolVar(&once, "once", false, "run once if a run is owed, and end")
	root.Flags().BoolVar(&dryRun, "dry-run", false, "only say whether a run is owed and why, and end")
	root.SetArgs(args)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	err := root.ExecuteContext(ctx)
	if err != nil && !started {
		err = cli.Usage(fmt.Errorf("%w (see `bellpull-watch --help`)", err))
	}
	return err
}

// watch works until ctx ends.
func watch(ctx context.Context, cfg config.Config, file string, log hclog.Logger) error {
	// SIGHUP is what service managers send to mean "again"; by default it would kill.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	n, err := newNode(ctx, cfg, file, log)
	if err != nil {
		return err
	}
	where := n.bucket
	where.Warn = log.Warn
	bucket, err := natskv.Connect(ctx, where)
	if err != nil {
		return err
	}
	defer bucket.Close()
	notices, err := bucket.Changes(ctx, n.scopes)
	if err != nil {
		return err
	}
	told, stop, err := n.tell(ctx, bucket)
	if err != nil {
		return err
	}
	defer stop()
	log.Info("watching", "scopes", n.scopes, "command", n.command, "proof", n.agent.Proof(), "state", n.dir)
	// It works without NATS: it waits for it. A loop that hangs is restarted by the
	// manager, and the run that it has started goes on.
	manager := service.New(log)
	manager.Ready()
	defer manager.Stopping()
	loop := n.loop(bucket, func(s schemas.Status) {
		told(s)
		manager.Status(strings.TrimSuffix(string(s.State)+": "+s.Why, ": "))
	}, manager.Alive)
	return loop.Run(ctx, notices)
}

func runOnce(ctx context.Context, cfg config.Config, file string, dryRun bool, log hclog.Logger) error {
	n, err := newNode(ctx, cfg, file, log)
	if err != nil {
		return err
	}
	const factor = 5 // a connection to one of several servers, and a reading
	dialCtx, cancel := context.WithTimeout(ctx, factor*cfg.NATS.Timeout)
	defer cancel()
	bucket, err := natskv.Dial(dialCtx, n.bucket)
	if err != nil {
		return err
	}
	defer bucket.Close()
	if dryRun {
		return n.loop(bucket, nil, nil).Once(ctx, true)
	}
	reporter, err := bucket.Reporter()
	if err != nil {
		return err
	}
	defer reporter.Close()
	return n.loop(bucket, reporter.Report, nil).Once(ctx, false)
}

// runEnvironment lets the fact of a run read the configuration that the watcher
// reads: the same file, and the same variables over it.
func runEnvironment(file string) ([]string, error) {
	var out []string
	for _, variable := range os.Environ() {
		if strings.HasPrefix(variable, "BELLPULL_") && !strings.HasPrefix(variable, "BELLPULL_CONFIG=") {
			out = append(out, variable)
		}
	}
	if file == "" {
		file = os.Getenv("BELLPULL_CONFIG")
	}
	if file == "" {
		return out, nil
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("find the configuration file: %w", err)
	}
	return append(out, "BELLPULL_CONFIG="+path), nil
}
