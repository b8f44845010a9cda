package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/publish"
	"github.com/bellpull/bellpull/schemas"
	"github.com/bellpull/bellpull/schemas/kinds"
)

type rollbackOptions struct {
	to, ifRevision uint64
	force, dryRun  bool
}

type rollbackAnswer struct {
	Scope    schemas.Scope `json:"scope"`
	To       uint64        `json:"to"`
	Revision uint64        `json:"revision"`
	Event    string        `json:"event"`
	Changed  bool          `json:"changed"`
	Set      []string      `json:"set,omitempty"`
	Removed  []string      `json:"removed,omitempty"`
	Expired  []string      `json:"expired,omitempty"` // and therefore not brought back
	DryRun   bool          `json:"dry_run,omitzero"`
}

func (a *app) rollbackCommand() *cobra.Command {
	var o rollbackOptions
	cmd := &cobra.Command{
		Use:   "rollback SCOPE --to REVISION",
		Short: "Bring a scope back to an earlier revision",
		Long: `rollback writes a new revision of a scope with the entries that an earlier one had.
It works after a deletion, and where some other client has left what is no document.
Entries that have expired since stay gone, and are named. Entries that are the same
keep their event; the others are this rollback's, and win over events before it.

A revision of another scope, a deletion, and a revision that is no longer kept are
refused, and so are entries that their kinds no longer allow, unless --force is
given. bellpull history shows the revisions, bellpull diff what a rollback changes.`,
		Example: `  bellpull history group/web
  bellpull diff group/web 812
  bellpull rollback group/web --to 812`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			scope, err := schemas.ParseScope(args[0])
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("to") {
				return cli.Usage(errors.New("--to REVISION is wanted; `bellpull history SCOPE` shows the revisions"))
			}
			var ifRevision *uint64
			if cmd.Flags().Changed("if-revision") {
				ifRevision = &o.ifRevision
			}
			return a.rollback(cmd.Context(), scope, o, ifRevision)
		},
	}
	flags := cmd.Flags()
	flags.Uint64Var(&o.to, "to", 0, "the `revision` whose entries are to stand again")
	flags.Uint64Var(&o.ifRevision, "if-revision", 0, "only if the scope is at this `revision` now")
	flags.BoolVar(&o.force, "force", false, "bring back entries that their kinds no longer allow, too")
	flags.BoolVar(&o.dryRun, "dry-run", false, "check everything, write nothing")
	return cmd
}

func (a *app) rollback(ctx context.Context, scope schemas.Scope, o rollbackOptions, ifRevision *uint64) error {
	cfg, err := config.Load(a.configFile)
	if err != nil {
		return err
	}
	set, err := kinds.Load(cfg.Gateway.Kinds)
	if err != nil {
		return err
	}
	bucket, ctx, done, err := dial(ctx, cfg)
	if err != nil {
		return err
	}
	defer done()
	old, err := stored(ctx, bucket, scope, o.to)
	if err != nil {
		return err
	}
	by := source
	if u, err := user.Current(); err == nil {
		by += "/" + u.Username
	}
	r := publish.Rollback{Scope: scope, To: old, ID: rand.Text(), Source: by, IfRevision: ifRevision, Force: o.force, DryRun: o.dryRun}
	revision, restored, err := publish.New(publish.Config{Bucket: bucket, Kinds: set}).Rollback(ctx, r)
	if err != nil {
		if !o.force && errors.Is(err, schemas.ErrInvalid) {
			err = fmt.Errorf("%w; --force brings it back all the same", err)
		}
		return err
	}
	for _, warning := range restored.Warnings {
		a.warn("%s", warning)
	}
	for _, name := range restored.Expired {
		a.warn("%s has expired since and stays gone", name)
	}
	answer := rollbackAnswer{
		Scope: scope, To: o.to, Revision: revision, Event: r.ID, Changed: restored.Changed(),
		Set: restored.Set, Removed: restored.Removed, Expired: restored.Expired, DryRun: o.dryRun,
	}
	return a.print(answer, func(row func(...any)) {
		for _, name := range answer.Set {
			row("set", name)
		}
		for _, name := range answer.Removed {
			row("removed", name)
		}
		switch {
		case !answer.Changed:
			row(fmt.Sprintf("%s stands at revision %d and says what revision %d said: nothing to do", scope, revision, o.to))
		case o.dryRun:
			row(fmt.Sprintf("%s would be as in revision %d; nothing was written", scope, o.to))
		default:
			row(fmt.Sprintf("%s is as in revision %d again, at revision %d", scope, o.to, revision))
		}
	})
}

// stored is the document that a revision of a scope holds. The error says why
// there is none, and which revisions there are.
func stored(ctx context.Context, bucket *natskv.Bucket, scope schemas.Scope, revision uint64) (schemas.Document, error) {
	r, err := bucket.At(ctx, scope, revision)
	switch {
	case errors.Is(err, schemas.ErrNotFound):
		return schemas.Document{}, fmt.Errorf("%w; it is another scope's, or no longer kept; %s", err, kept(ctx, bucket, scope))
	case err != nil:
		return schemas.Document{}, err
	case r.Deleted:
		return schemas.Document{}, fmt.Errorf("%w: scope %s was deleted at revision %d, which holds no entries; %s", schemas.ErrNotFound, scope, revision, kept(ctx, bucket, scope))
	}
	doc, err := schemas.ParseDocument(r.Body)
	if err != nil {
		return schemas.Document{}, fmt.Errorf("scope %s, revision %d: %w; %s", scope, revision, err, kept(ctx, bucket, scope))
	}
	return doc.Dated(r.Time), nil
}

// kept names the revisions of a scope that hold a document, the newest of them if
// they are many.
func kept(ctx context.Context, bucket *natskv.Bucket, scope schemas.Scope) string {
	const most = 8
	revisions, err := bucket.History(ctx, scope)
	if err != nil {
		return "`bellpull history` shows which there are"
	}
	var numbers []string
	for _, r := range revisions {
		if _, err := schemas.ParseDocument(r.Body); err == nil && !r.Deleted {
			numbers = append(numbers, fmt.Sprint(r.Revision))
		}
	}
	if len(numbers) == 0 {
		return "none is kept"
	}
	return "there are " + strings.Join(numbers[max(0, len(numbers)-most):], ", ")
}
