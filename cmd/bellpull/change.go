package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/publish"
	"github.com/bellpull/bellpull/schemas"
	"github.com/bellpull/bellpull/schemas/kinds"
)

// source is what events of this program have for a source. A made-up id says
// who was at work too; an id that the caller gave must name the same event
// whoever sends it again.
const source = "cli"

// change is what put and rm have in common.
type change struct {
	event      string
	time       string
	ifRevision uint64
	dryRun     bool
}

func (c *change) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Uint64Var(&c.ifRevision, "if-revision", 0, "only if the scope is at this `revision`; 0: only if it has no document")
	flags.StringVar(&c.event, "event", "", "`id` of the event: the same id again changes nothing")
	flags.StringVar(&c.time, "time", "", "the event's own `time`, as 2026-12-01T10:00:00Z; a newer event wins (default now)")
}

// complete fills in who sends the event, and when it happened.
func (c *change) complete(ev *schemas.Event) error {
	ev.ID, ev.Source = c.event, source
	if c.event == "" {
		ev.ID, ev.Once = rand.Text(), true
		if u, err := user.Current(); err == nil {
			ev.Source += "/" + u.Username
		}
	}
	if c.time != "" {
		at, err := schemas.ParseTime(c.time)
		if err != nil {
			return cli.Usage(fmt.Errorf("--time: %w", err))
		}
		if ev.Time = at; at.IsZero() {
			return cli.Usage(fmt.Errorf("--time %q: is the zero time, which stands for no time", c.time))
		}
	}
	return nil
}

type changeAnswer struct {
	Scope      schemas.Scope `json:"scope"`
	Entry      string        `json:"entry"`
	Revision   uint64        `json:"revision"`
	Changed    bool          `json:"changed"`
	Superseded bool          `json:"superseded,omitzero"`
	Time       time.Time     `json:"time,omitzero"`
	DryRun     bool          `json:"dry_run,omitzero"`
}

// publish sends the event and tells what came of it.
func (a *app) publish(cmd *cobra.Command, c *change, ev schemas.Event, mustExist bool) error {
	if err := ev.Check(); err != nil { // before anything is asked of a server
		return err
	}
	cfg, err := config.Load(a.configFile)
	if err != nil {
		return err
	}
	set, err := kinds.Load(cfg.Gateway.Kinds)
	if err != nil {
		return err
	}
	bucket, ctx, done, err := dial(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	defer done()
	// Asked first, so that a bucket that does not exist is told as just that.
	if _, err := bucket.Read(ctx, nil); err != nil {
		return err
	}
	opts := publish.Options{DryRun: c.dryRun, MustExist: mustExist}
	if cmd.Flags().Changed("if-revision") {
		opts.IfRevision = &c.ifRevision
	}
	result, err := a.send(ctx, publish.Config{Bucket: bucket, Kinds: set}, ev, opts)
	if err != nil {
		return err
	}
	return a.print(changeAnswer{
		Scope: ev.Scope, Entry: ev.Entry, Revision: result.Revision, Changed: result.Changed,
		Superseded: result.Superseded, Time: result.Time, DryRun: c.dryRun,
	}, func(row func(...any)) {
		row(ev.Scope, ev.Entry, fmt.Sprintf("revision %d", result.Revision), outcome(result, c.dryRun))
	})
}

func (a *app) send(ctx context.Context, cfg publish.Config, ev schemas.Event, opts publish.Options) (publish.Result, error) {
	result, err := publish.New(cfg).Publish(ctx, ev, opts)
	if err != nil {
		return publish.Result{}, err
	}
	for _, warning := range result.Warnings {
		a.warn("%s", warning)
	}
	if result.Superseded {
		a.warn("nothing was written: a newer event stands for %s in %s", ev.Entry, ev.Scope)
	}
	return result, nil
}

func outcome(r publish.Result, dryRun bool) string {
	switch {
	case r.Superseded:
		return "superseded"
	case !r.Changed:
		return "unchanged"
	case dryRun:
		return "would change"
	}
	return "changed"
}
