package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

type statusOptions struct {
	scope    string
	node     string
	event    string
	silent   time.Duration
	wait     bool
	timeout  time.Duration
	revision uint64
}

func (a *app) statusCommand() *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what the nodes have applied, and wait for it",
		Long: `status shows what nodes have applied of what is wanted now: a summary of the fleet
by scope and by event, the nodes of one scope (--scope), which nodes have applied an
event (--event), or one node (--node).

With --wait it waits until every node that is known has applied the revisions that
stand when it begins, or --revision of --scope, or --event. It ends with 0 when all
have, with 1 when the others have failed, and with 6 when --timeout is over: then
it says who is missing. Nodes that are gone for good: bellpull status forget NODE.

Nodes report when something changes, and once a day; those that have not for
--silent are shown as silent.`,
		Example: `  bellpull status
  bellpull status --scope group/web --wait --timeout 5m
  bellpull status --event 4f0e7d6c --wait
  bellpull status --node web1.example.com -o json`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.status(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.scope, "scope", "", "the nodes of one `scope`")
	flags.StringVar(&o.node, "node", "", "one node, by its `certname`")
	flags.StringVar(&o.event, "event", "", "the nodes that have to apply the event with this `id`")
	flags.DurationVar(&o.silent, "silent", 26*time.Hour, "a node that has not reported for so long is silent")
	flags.BoolVar(&o.wait, "wait", false, "wait until it is applied everywhere")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "with --wait: wait at most so long")
	flags.Uint64Var(&o.revision, "revision", 0, "with --scope: this `revision` instead of the one that stands")
	cmd.AddCommand(a.statusForgetCommand())
	return cmd
}

func (o statusOptions) check() error {
	switch {
	case o.revision != 0 && o.scope == "":
		return cli.Usage(fmt.Errorf("--revision wants --scope: revisions are a scope's"))
	case o.event != "" && (o.scope != "" || o.node != ""):
		return cli.Usage(fmt.Errorf("--event stands alone: it is an entry of one scope"))
	case o.silent <= 0 || o.timeout <= 0:
		return cli.Usage(fmt.Errorf("--silent and --timeout must be durations above 0, such as 26h"))
	}
	if o.scope != "" {
		if _, err := schemas.ParseScope(o.scope); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) status(ctx context.Context, o statusOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	bucket, _, done, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer done()
	f, err := look(ctx, bucket, o)
	if err != nil {
		return err
	}
	if len(f.nodes) == 0 {
		return fmt.Errorf("%w: no node has reported %s", schemas.ErrNotFound, o.about())
	}
	if o.wait {
		return a.wait(ctx, f, o)
	}
	a.warnHerd(ctx, bucket, f.nodes)
	switch {
	case o.node != "":
		return a.printNode(f, o)
	case o.scope != "", o.event != "":
		return a.printNodes(f, o)
	}
	return a.printFleet(f, o)
}

// about says in words what was asked for.
func (o statusOptions) about() string {
	switch {
	case o.node != "":
		return "as " + o.node
	case o.event != "":
		return "the scope of event " + o.event
	case o.scope != "":
		return "scope " + o.scope
	}
	return "yet"
}

// fleet is what nodes reported, and what they are to have applied.
type fleet struct {
	bucket  string // the bucket's id
	nodes   map[string]natskv.NodeStatus
	targets map[schemas.Scope]target
	// documents are those of the targets' scopes, where they can be read.
	documents map[schemas.Scope]schemas.ScopeReading
	events    map[string]target // by id: those whose entries stand in the documents
}

// look reads the fleet as far as it is asked for.
func look(ctx context.Context, bucket *natskv.Bucket, o statusOptions) (*fleet, error) {
	all, err := bucket.Statuses(ctx)
	if err != nil {
		return nil, err
	}
	f := &fleet{nodes: map[string]natskv.NodeStatus{}, targets: map[schemas.Scope]target{}, documents: map[schemas.Scope]schemas.ScopeReading{}, events: map[string]target{}}
	scopes := map[schemas.Scope]bool{}
	for _, s := range all {
		_, has := s.Status.Scopes[schemas.Scope(o.scope)]
		if o.node != "" && s.Node != o.node || o.scope != "" && !has {
			continue
		}
		f.nodes[s.Node] = s
		for scope := range s.Status.Scopes {
			if o.scope == "" || scope == schemas.Scope(o.scope) {
				scopes[scope] = true
			}
		}
	}
	if err := f.read(ctx, bucket, slices.Sorted(maps.Keys(scopes))); err != nil {
		return nil, err
	}
	if o.revision != 0 {
		t := f.targets[schemas.Scope(o.scope)]
		t.revision = o.revision
		f.targets[t.scope] = t
	}
	if o.event != "" {
		return f, f.narrow(ctx, bucket, o.event)
	}
	return f, nil
}

// read sets the targets: what stands in the scopes now.
func (f *fleet) read(ctx context.Context, bucket *natskv.Bucket, scopes []schemas.Scope) error {
	for batch := range slices.Chunk(scopes, lsBatch) {
		reading, err := bucket.Read(ctx, batch)
		if err != nil {
			return err
		}
		if f.bucket = reading.Bucket; f.bucket == "" {
			return errNoID
		}
		for _, r := range reading.Scopes {
			if r.Revision == 0 && r.Err != nil {
				return r.Err
			}
			f.documents[r.Scope] = r
			f.targets[r.Scope] = target{bucket: f.bucket, scope: r.Scope, revision: r.Revision}
			for name, e := range r.Document.Live(reading.At) {
				if e.Event != "" {
					f.events[e.Event] = target{f.bucket, r.Scope, r.Revision, name}
				}
			}
			for name, e := range r.Document.Removed {
				if _, stands := r.Document.Entries[name]; e.Event != "" && !stands {
					f.events[e.Event] = target{f.bucket, r.Scope, r.Revision, name}
				}
			}
		}
	}
	return nil
}

// narrow makes an event the only target: the revision that brought it, as far as
// the bucket's history goes back.
func (f *fleet) narrow(ctx context.Context, bucket *natskv.Bucket, event string) error {
	t, known := f.events[event]
	if !known {
		return fmt.Errorf("%w: no scope of a node has an entry of event %s; it may have been superseded, or have expired", schemas.ErrNotFound, event)
	}
	revisions, err := bucket.History(ctx, t.scope)
	if err != nil {
		return err
	}
	for _, r := range revisions {
		doc, err := schemas.ParseDocument(r.Body)
		if err == nil && (doc.Entries[t.entry].Event == event || doc.Removed[t.entry].Event == event) {
			t.revision = r.Revision
			break
		}
	}
	f.targets = map[schemas.Scope]target{t.scope: t}
	maps.DeleteFunc(f.nodes, func(_ string, s natskv.NodeStatus) bool {
		_, has := s.Status.Scopes[t.scope]
		return !has
	})
	return nil
}

// judge is how far a node is with all targets that are its own.
func (f *fleet) judge(s natskv.NodeStatus) judgement {
	total := judgement{verdict: converged}
	for _, scope := range slices.Sorted(maps.Keys(f.targets)) {
		if j, ok := judge(s, f.targets[scope]); ok {
			total = worst(total, j)
		}
	}
	return total
}
