package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

// permitsTimeout is for permits to be looked at twice, and made one by one.
const permitsTimeout = time.Minute

type permitsView struct {
	Limit string `json:"limit"`
	// Permits are those that exist: free or held. They are as many as the limit says
	// unless some were lost, or the limit has just changed.
	Permits int         `json:"permits"`
	Lease   string      `json:"lease"` // a holder that is not heard for so long has lost its permit
	Holders []standView `json:"holders"`
	Waiters []standView `json:"waiters"`
}

// standView is a node that runs under a permit, or waits for one, as it says itself.
type standView struct {
	Node    string    `json:"node"`
	Asked   time.Time `json:"asked"`
	Granted time.Time `json:"granted,omitzero"`
	Unknown time.Time `json:"unknown,omitzero"` // since when no keeper has answered it
}

func (a *app) permitsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "permits",
		Short: "Show and set how many nodes may run at the same time",
		Long: `permits shows the limit of simultaneous runs, who holds a permit and who waits for
one, first come first. Holders and waiters are what the nodes report themselves, a
second later at most.`,
		Example: `  bellpull permits
  bellpull permits set 50
  bellpull permits set none`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			bucket, _, done, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			return a.showPermits(cmd.Context(), bucket)
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "set N|none",
		Short: "Set the limit",
		Long: `set lets at most N nodes run at the same time, or with none any number. It takes
effect at once. No run is stopped: after the limit was lowered, runs that have
begun under the old one end in their own time.`,
		Example: `  bellpull permits set 50
  bellpull permits set none`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			limit, err := schemas.ParseLimit(args[0])
			if err != nil {
				return err
			}
			return a.mendPermits(cmd.Context(), func(ctx context.Context, b *natskv.Bucket) error { return b.SetLimit(ctx, limit) })
		},
	}, &cobra.Command{
		Use:   "repair",
		Short: "Make the permits as many as the limit says",
		Long: `repair adds permits that were lost and takes away those over the limit. Keepers do
so by themselves, twice a minute.`,
		Example: `  bellpull permits repair`,
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.mendPermits(cmd.Context(), func(context.Context, *natskv.Bucket) error { return nil })
		},
	})
	return cmd
}

type mendedView struct {
	Limit   string `json:"limit"`
	Found   int    `json:"found"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
}

func (a *app) mendPermits(ctx context.Context, first func(context.Context, *natskv.Bucket) error) error {
	bucket, _, done, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, permitsTimeout)
	defer cancel()
	if err := first(ctx, bucket); err != nil {
		return err
	}
	mended, err := bucket.MendPermits(ctx)
	if err != nil {
		return err
	}
	view := mendedView{mended.Limit.String(), mended.Tokens, mended.Added, mended.Removed}
	return a.print(view, func(row func(...any)) {
		row("LIMIT", "FOUND", "ADDED", "REMOVED")
		row(view.Limit, view.Found, view.Added, view.Removed)
	})
}

func (a *app) showPermits(ctx context.Context, bucket *natskv.Bucket) error {
	count, err := bucket.PermitCount(ctx)
	if err != nil {
		return err
	}
	all, err := bucket.Statuses(ctx)
	if err != nil {
		return err
	}
	view := permitsView{Limit: count.Limit.String(), Permits: count.Tokens, Lease: count.Lease.String(), Holders: []standView{}, Waiters: []standView{}}
	for _, s := range all {
		p := s.Status.Permit
		switch {
		case p == nil:
		case !p.Granted.IsZero():
			view.Holders = append(view.Holders, standView{s.Node, p.Asked, p.Granted, p.Unknown})
		default:
			view.Waiters = append(view.Waiters, standView{s.Node, p.Asked, p.Granted, p.Unknown})
		}
	}
	for _, list := range [][]standView{view.Holders, view.Waiters} {
		slices.SortFunc(list, func(a, b standView) int { return cmp.Or(a.Asked.Compare(b.Asked), cmp.Compare(a.Node, b.Node)) })
	}
	return a.print(view, func(row func(...any)) {
		row("LIMIT", "PERMITS", "HOLDERS", "WAITERS")
		row(view.Limit, view.Permits, len(view.Holders), len(view.Waiters))
		const most = 20 // a table is for people; JSON has all
		for _, s := range view.Holders[:min(most, len(view.Holders))] {
			row(fmt.Sprintf("%s holds a permit since %s", s.Node, stamp(s.Granted)))
		}
		for _, s := range view.Waiters[:min(most, len(view.Waiters))] {
			line := fmt.Sprintf("%s waits since %s", s.Node, stamp(s.Asked))
			if !s.Unknown.IsZero() {
				line += fmt.Sprintf(", no keeper answers it since %s", stamp(s.Unknown))
			}
			row(line)
		}
	})
}
