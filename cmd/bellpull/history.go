package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

type revisionView struct {
	Revision uint64               `json:"revision"`
	Time     time.Time            `json:"time"`
	Set      map[string]entryView `json:"set,omitempty"`
	Removed  map[string]goneView  `json:"removed,omitempty"`
	Deleted  bool                 `json:"deleted,omitzero"`
	Error    string               `json:"error,omitzero"`
}

// goneView tells how an entry went, as far as it is known.
type goneView struct {
	Event   string    `json:"event,omitzero"`
	Source  string    `json:"source,omitzero"`
	Time    time.Time `json:"time,omitzero"`
	Expired bool      `json:"expired,omitzero"`
}

func (a *app) historyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "history SCOPE",
		Short: "Show what has changed in a scope, and by which event",
		Long: `history shows the revisions that the bucket keeps of a scope, oldest first, and
which entries each set or removed. The oldest shows all its entries. Secrets are
never shown.`,
		Example: `  bellpull history group/web`,
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			scope, err := schemas.ParseScope(args[0])
			if err != nil {
				return err
			}
			bucket, ctx, done, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			revisions, err := bucket.History(ctx, scope)
			if err != nil {
				return err
			}
			if len(revisions) == 0 {
				return fmt.Errorf("%w: scope %s never had a document", schemas.ErrNotFound, scope)
			}
			return a.printHistory(changes(revisions))
		},
	}
}

// changes tells for each revision what it changed against the one before.
func changes(revisions []natskv.Revision) []revisionView {
	var views []revisionView
	var before schemas.Document
	for _, r := range revisions {
		v := revisionView{Revision: r.Revision, Time: r.Time, Deleted: r.Deleted}
		var after schemas.Document
		if !r.Deleted {
			doc, err := schemas.ParseDocument(r.Body)
			if err != nil {
				// No document: what it changed is unknown, and the next is compared with the last good one.
				v.Error = err.Error()
				views = append(views, v)
				continue
			}
			after = doc
		}
		v.Set, v.Removed = compare(before, after, r.Time)
		views, before = append(views, v), after
	}
	return views
}

// compare takes the documents as they were written: an entry to which another
// client gave no time is not a new one in each revision.
func compare(before, after schemas.Document, written time.Time) (set map[string]entryView, removed map[string]goneView) {
	set, removed = map[string]entryView{}, map[string]goneView{}
	for name, e := range after.Entries {
		if old, ok := before.Entries[name]; !ok || !same(old, e) {
			v := view(e)
			if e.Sensitive {
				v.Value = ""
			}
			if v.Time.IsZero() {
				v.Time = written
			}
			set[name] = v
		}
	}
	for name := range before.Entries {
		if _, ok := after.Entries[name]; !ok {
			r := after.Removed[name]
			removed[name] = goneView{Event: r.Event, Source: r.Source, Time: r.Time, Expired: r.Expired}
		}
	}
	return set, removed
}

// same leaves seen out: a repeated event that was remembered sets nothing.
func same(a, b schemas.Entry) bool {
	return a.Value == b.Value && a.Kind == b.Kind && a.Event == b.Event && a.Source == b.Source && a.Time.Equal(b.Time) &&
		a.Expires.Equal(b.Expires) && a.Sensitive == b.Sensitive && a.Run.Equal(b.Run) && a.Owner == b.Owner
}

func (a *app) printHistory(views []revisionView) error {
	return a.print(views, func(row func(...any)) {
		row("REVISION", "TIME", "CHANGE", "ENTRY", "SOURCE", "EVENT")
		for _, v := range views {
			switch {
			case v.Deleted:
				row(v.Revision, stamp(v.Time), "deleted")
				continue
			case v.Error != "":
				row(v.Revision, stamp(v.Time), "invalid", v.Error)
				continue
			case len(v.Set)+len(v.Removed) == 0:
				row(v.Revision, stamp(v.Time), "nothing")
			}
			for _, name := range slices.Sorted(maps.Keys(v.Set)) {
				row(v.Revision, stamp(v.Time), "set", name, v.Set[name].Source, v.Set[name].Event)
			}
			for _, name := range slices.Sorted(maps.Keys(v.Removed)) {
				what := "removed"
				if v.Removed[name].Expired {
					what = "expired"
				}
				row(v.Revision, stamp(v.Time), what, name, v.Removed[name].Source, v.Removed[name].Event)
			}
		}
	})
}
