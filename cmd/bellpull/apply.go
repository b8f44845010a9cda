package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/user"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/datadir"
	"github.com/bellpull/bellpull/cmd/internal/gitrepo"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/publish"
	"github.com/bellpull/bellpull/schemas"
	"github.com/bellpull/bellpull/schemas/kinds"
)

// gcPercent lets a short command collect less often than a daemon should.
const gcPercent = 400

// applyOptions are apply's flags.
type applyOptions struct {
	prune, take, yes, dryRun, exitCode bool
	prefix, commit                     string
}

func (a *app) applyCommand() *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use:   "apply DIR",
		Short: "Bring a directory of data files into the bucket",
		Long: `apply makes scopes say what the data files below DIR say: common.yaml is the scope
common, node/web1.example.com.yaml is node/web1.example.com, as in a Hiera data
directory. What differs is shown and written, all of it or, if it is more than the
server takes at once, in parts; a repeat goes on where an earlier one ended.

apply writes entries that it wrote before and that nobody has touched since, and
such as do not exist. An entry that was set or removed since by an event or by put
is kept and reported, until its value in the files changes or --take is given. With
--prune, entries that apply wrote and that no file holds any more are removed.

The files may say more of their entries under the key bellpull::meta: kind,
sensitive, ttl or expires, run and owner. An entry with a ttl is not renewed while
its file stays as it is.`,
		Example: `  bellpull apply data --dry-run
  bellpull apply data --prune --yes
  bellpull apply data --prefix group --commit "$CI_COMMIT_SHA"`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.exitCode && !o.dryRun {
				return cli.Usage(errors.New("--exit-code goes with --dry-run"))
			}
			if o.prune && !o.yes && !o.dryRun && !isTerminal(a.streams.In) {
				return cli.Usage(errors.New("--prune removes entries: --yes is wanted where there is no terminal"))
			}
			if o.prefix = strings.TrimSuffix(o.prefix, "/"); o.prefix != "" {
				if _, err := schemas.ParseScope(o.prefix); err != nil {
					return cli.Usage(fmt.Errorf("--prefix: %w", err))
				}
			}
			return a.apply(cmd.Context(), args[0], o)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.prune, "prune", false, "remove entries that apply wrote and that no file holds any more")
	flags.BoolVar(&o.take, "take", false, "overwrite entries that somebody else has set or removed, and own them from now on")
	flags.BoolVar(&o.yes, "yes", false, "do not ask before entries are removed")
	flags.BoolVar(&o.dryRun, "dry-run", false, "show what would be done, write nothing")
	flags.BoolVar(&o.exitCode, "exit-code", false, "with --dry-run: end with 7 if something would change")
	flags.StringVar(&o.prefix, "prefix", "", "handle only the scope `PREFIX` and those below it, and own what is written under that name")
	flags.StringVar(&o.commit, "commit", "", "`id` of the state of the files, shown as the source (default: the git commit)")
	return cmd
}

func (a *app) apply(ctx context.Context, dir string, o applyOptions) error {
	// Ten thousand documents are read, compared and let go within seconds.
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	}
	tree, err := datadir.Read(dir)
	if err != nil {
		return err
	}
	for _, note := range tree.Notes {
		a.warn("%s", note)
	}
	cfg, err := config.Load(a.configFile)
	if err != nil {
		return err
	}
	set, err := kinds.Load(cfg.Gateway.Kinds)
	if err != nil {
		return err
	}
	source, err := a.applySource(ctx, dir, o.commit)
	if err != nil {
		return err
	}
	r := &applyRun{owner: "apply:" + o.prefix, source: source, id: rand.Text(), prune: o.prune, take: o.take}
	publisher := publish.New(publish.Config{Kinds: set})
	if err := r.want(dir, tree, o.prefix, publisher.Check); err != nil {
		return err
	}
	bucket, _, done, err := dial(ctx, cfg)
	if err != nil {
		return err
	}
	defer done()
	r.history = bucket.History
	scopes, err := r.scopes(ctx, bucket, o.prefix)
	if err != nil {
		return err
	}
	// A large directory takes as long as it takes; each call has a deadline of its own.
	plan, err := publish.New(publish.Config{Bucket: bucket, Kinds: set}).Plan(ctx, scopes, r.decide)
	if err != nil {
		return err
	}
	for _, warning := range plan.Warnings() {
		a.warn("%s", warning)
	}
	return a.carryOut(ctx, r, plan, bucket, o)
}

// carryOut shows the plan and, unless it is only to be shown, writes it.
func (a *app) carryOut(ctx context.Context, r *applyRun, plan *publish.Plan, bucket *natskv.Bucket, o applyOptions) error {
	if a.forPeople() || o.dryRun {
		if err := a.printPlan(r.view(plan.Scopes(), o.dryRun)); err != nil {
			return err
		}
	}
	if o.dryRun {
		if o.exitCode && plan.Scopes() > 0 {
			return cli.ErrWouldChange
		}
		return nil
	}
	if n := r.count(actionPrune); n > 0 && !o.yes {
		if err := a.confirm(fmt.Sprintf("Remove %d entries?", n)); err != nil {
			return err
		}
	}
	if done, err := plan.Write(ctx, bucket); err != nil {
		if plan.Scopes() > 1 {
			err = fmt.Errorf("%w; %d of %d scopes are done, a repeat goes on from there", err, done, plan.Scopes())
		}
		return err
	}
	if a.forPeople() {
		return nil
	}
	return a.printPlan(r.view(plan.Scopes(), false))
}

// applySource is the source of an apply's events: what it applies, or else who.
func (a *app) applySource(ctx context.Context, dir, commit string) (string, error) {
	if commit == "" {
		var err error
		if commit, err = gitrepo.Commit(ctx, dir); err != nil {
			a.warn("the commit of %s is not known: %v; --commit names it", dir, err)
		}
	}
	if commit == "" {
		if u, err := user.Current(); err == nil {
			commit = u.Username
		}
	}
	if err := (schemas.Event{ID: "x", Source: sourceApply + commit, Scope: "x", Entry: "x", Action: schemas.ActionRemove}).Check(); err != nil {
		return "", cli.Usage(fmt.Errorf("--commit: at most %d characters, no control characters", schemas.MaxID-len(sourceApply)))
	}
	return sourceApply + commit, nil
}

// want checks what the files say and remembers it. It returns every fault.
func (r *applyRun) want(dir string, tree datadir.Tree, prefix string, check func(schemas.Event) (schemas.Event, error)) error {
	r.wanted = map[schemas.Scope][]schemas.Event{}
	var faults []string
	outside := 0
	for _, f := range tree.Files {
		if !below(f.Scope, prefix) {
			outside++
			continue
		}
		size := 0
		events := make([]schemas.Event, 0, len(f.Entries))
		for _, e := range f.Entries {
			ev := schemas.Event{
				ID: r.id, Source: r.source, Scope: f.Scope, Entry: e.Name, Action: schemas.ActionSet, Once: true,
				Value: e.Value, Kind: e.Kind, TTL: e.TTL, Expires: e.Expires, Sensitive: e.Sensitive, Run: e.Run, Owner: r.owner,
			}
			if e.HasOwner {
				ev.Owner = e.Owner
			}
			ev, err := check(ev)
			if err != nil {
				faults = append(faults, fmt.Sprintf("%s: %q: %v", e.Place, e.Name, err))
			}
			events, size = append(events, ev), size+len(e.Name)+len(e.Value)
		}
		if size > schemas.MaxDocument {
			faults = append(faults, fmt.Sprintf("%s: scope %s would have %d bytes or more, at most %d are allowed", f.Path, f.Scope, size, schemas.MaxDocument))
		}
		r.wanted[f.Scope] = events
	}
	if len(faults) > 0 {
		return datadir.Invalid(dir, faults)
	}
	if len(r.wanted) == 0 {
		return datadir.Invalid(dir, []string{fmt.Sprintf("holds no data file of %s or below it, but %d others", prefix, outside)})
	}
	return nil
}

func below(scope schemas.Scope, prefix string) bool {
	return prefix == "" || string(scope) == prefix || strings.HasPrefix(string(scope), prefix+"/")
}

// scopes are those that the run has to read.
func (r *applyRun) scopes(ctx context.Context, bucket *natskv.Bucket, prefix string) ([]schemas.Scope, error) {
	out := make([]schemas.Scope, 0, len(r.wanted))
	for scope := range r.wanted {
		out = append(out, scope)
	}
	if r.prune {
		infos, err := bucket.Scopes(ctx, prefix)
		if err != nil {
			return nil, err
		}
		for _, info := range infos {
			if _, known := r.wanted[info.Scope]; !known && !info.Foreign && !info.Deleted && below(info.Scope, prefix) {
				out = append(out, info.Scope)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// sameContent reports whether an entry is what the event would make of it. A ttl is compared as it was when the entry was set.
func sameContent(ev schemas.Event, e schemas.Entry) bool {
	expires := ev.Expires
	if ev.TTL > 0 {
		expires = e.Time.Add(ev.TTL)
	}
	return ev.Value == e.Value && ev.Kind == e.Kind && ev.Sensitive == e.Sensitive && ev.Run.Equal(e.Run) && expires.Equal(e.Expires)
}
